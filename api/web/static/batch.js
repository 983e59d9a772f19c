// One batch, live.
import { Follower, say } from "./follow.js";
import { command, post } from "./post.js";

const options = JSON.parse(document.getElementById("follow").textContent);
const element = document.getElementById("live");
const address = options.part.replace("/batches/", "/v1/batches/").replace(/\/live$/, "");
const known = new WeakSet();
let spoken = element.querySelector("#batch").dataset.endedRuns;

function shown(root) {
  for (const button of element.querySelectorAll("[data-command]")) {
    if (known.has(button)) continue;
    known.add(button);
    const name = button.dataset.command;
    command(button, {
      confirm: name === "cancel" ? "Really cancel?" : null,
      run: async () => {
        await post(`${address}/${name}`);
        await follower.refresh();
      },
    });
  }
  if (root.dataset.endedRuns !== spoken) {
    spoken = root.dataset.endedRuns;
    say(element.querySelector("#progress-head").textContent.trim());
  }
}

const follower = new Follower(element, options, { onPart: shown });
follower.start();
