// Further rows of two runs side by side come when their place comes near.
import { fill } from "./fields.js";

const data = JSON.parse(document.getElementById("compare-data").textContent);
const body = document.getElementById("pairs");
const more = document.getElementById("more").querySelector("[data-next]");
const ROWS = 200;

function cell(side, run) {
  const made = document.createElement("td");
  if (!side) return made;
  const link = document.createElement("a");
  link.href = `/trajectories/${encodeURIComponent(run)}?step=${side.index}#steps`;
  for (const name of ["index", "intent", "line"]) {
    const part = document.createElement("span");
    part.className = name;
    part.dataset.field = name;
    link.append(part);
  }
  link.children[1].classList.add(`intent--${side.intent}`);
  fill(link, { index: side.index, intent: side.intent, line: side.line });
  made.append(link);
  return made;
}

function rowOf(row) {
  const made = document.createElement("tr");
  const sure = document.createElement("td");
  sure.className = "sure";
  if (row.confidence !== null) {
    made.className = "both";
    sure.textContent = row.confidence.toFixed(2);
  }
  made.append(cell(row.left, data.a), sure, cell(row.right, data.b));
  return made;
}

const watcher = new IntersectionObserver((entries) => {
  if (entries.some((entry) => entry.isIntersecting)) load();
}, { rootMargin: "600px" });

let isLoading = false;
async function load() {
  if (isLoading || data.next === null) return;
  isLoading = true;
  try {
    const query = new URLSearchParams({ a: data.a, b: data.b, from: data.next, limit: ROWS });
    const answer = await fetch(`/v1/trajectories/compare?${query}`);
    if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
    const found = await answer.json();
    body.append(...found.rows.map(rowOf));
    data.next = found.next_from;
    if (data.next === null) more.remove();
    // Whether it is still near is only told anew to those who ask anew.
    watcher.unobserve(more);
    if (data.next !== null) watcher.observe(more);
  } catch (error) {
    more.textContent = `Try again: ${error.message}`;
  } finally {
    isLoading = false;
  }
}

if (more) {
  more.addEventListener("click", (event) => { event.preventDefault(); load(); });
  watcher.observe(more);
}
document.documentElement.dataset.ready = "true";
