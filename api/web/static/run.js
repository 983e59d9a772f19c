// One run, live.
import { Follower, say } from "./follow.js";
import { command, post } from "./post.js";

const options = JSON.parse(document.getElementById("follow").textContent);
const element = document.getElementById("live");
let spoken = options.after;

// Says what has arrived, in the words of the ledger's list.
function announce() {
  const rows = [...element.querySelectorAll("#story tr")].filter((row) => Number(row.dataset.seq) > spoken);
  if (rows.length === 0) return;
  spoken = Number(rows.at(-1).dataset.seq);
  say(rows.map((row) => row.dataset.say).join(". "));
  const list = rows.at(-1).closest(".ledger");
  list.scrollTop = list.scrollHeight;
}

// A box of code that is longer than it is high begins where the first claim about it is.
const placed = new WeakSet();
function place() {
  for (const line of element.querySelectorAll(".line--claimed")) {
    const box = line.closest(".code");
    if (placed.has(box)) continue;
    placed.add(box);
    if (box.scrollTop === 0) box.scrollTop = Math.max(0, line.offsetTop - box.clientHeight / 2);
  }
}

function shown() {
  announce();
  place();
}

const follower = new Follower(element, options, { onPart: shown });
follower.start();

const cancel = document.getElementById("cancel");
if (cancel) {
  command(cancel, {
    confirm: "Really cancel?",
    run: async () => {
      await post(`${options.part.replace("/runs/", "/v1/runs/").replace(/\/live$/, "")}/cancel`);
      await follower.refresh();
    },
  });
}
