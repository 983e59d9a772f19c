// A run's page: the timeline, the list and the pane move together.
import { StepList } from "./step-list.js";
import { StepPane } from "./step-pane.js";
import { PAGE, StepStore } from "./step-store.js";

const data = JSON.parse(document.getElementById("run-data").textContent);
const { overview } = data;
const total = overview.steps;

function setUp() {
  const box = document.getElementById("step-list");
  if (!box) return;
  const strip = document.getElementById("strip");
  const announcer = document.getElementById("announcer");
  const cursors = strip.querySelectorAll("[data-cursor]");
  const store = new StepStore(data.run, data.first, data.steps);
  const pane = new StepPane(document.getElementById("pane"), store);
  let chosen = data.step;
  const list = new StepList(box, store, overview, (index) => go(index));
  const wasted = [...overview.wasted].sort((a, b) => a - b);

  function mark(index) {
    for (const cursor of cursors) cursor.setAttribute("x", `${(100 * index) / total}%`);
    strip.setAttribute("aria-valuenow", index);
    for (const here of document.querySelectorAll(".tree .here")) here.remove();
    const dot = document.querySelector(`.tree a[data-step="${index}"] circle.ring`);
    if (dot) {
      const here = dot.cloneNode(false);
      here.setAttribute("class", "here");
      here.setAttribute("r", "11");
      dot.parentNode.append(here);
    }
  }

  async function go(wanted) {
    const index = Math.min(total - 1, Math.max(0, wanted));
    if (index === chosen && pane.pane.dataset.shown === String(index)) return;
    chosen = index;
    list.choose(index);
    mark(index);
    history.replaceState(null, "", `?step=${index}${location.hash}`);
    let step = store.known(index);
    if (!step) {
      pane.pane.setAttribute("aria-busy", "true");
      try {
        step = await store.get(index);
      } catch (error) {
        announcer.textContent = `Step ${index} could not be loaded: ${error.message}`;
        return;
      }
      // Whoever held a key down has gone on meanwhile.
      if (chosen !== index) return;
    }
    pane.pane.removeAttribute("aria-busy");
    pane.show(step, total);
    pane.pane.dataset.shown = index;
    strip.setAttribute("aria-valuetext", `step ${index}, ${step.intent_name}: ${step.line}`);
    const ahead = Math.floor(index / PAGE) + (index % PAGE > PAGE / 2 ? 1 : -1);
    if (ahead >= 0 && ahead * PAGE < total) store.page(ahead).catch(() => {});
  }

  const next = (places) => places.find((place) => place > chosen) ?? places[0] ?? chosen;
  const KEYS = {
    ArrowDown: () => chosen + 1, ArrowRight: () => chosen + 1, j: () => chosen + 1,
    ArrowUp: () => chosen - 1, ArrowLeft: () => chosen - 1, k: () => chosen - 1,
    PageDown: () => chosen + 10, PageUp: () => chosen - 10, Home: () => 0, End: () => total - 1,
    w: () => next(wasted), d: () => overview.divergence ?? chosen,
  };
  for (const place of [strip, box]) {
    place.addEventListener("keydown", (event) => {
      const where = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (!where || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      go(where());
    });
  }

  const stepAt = (event) => {
    const area = strip.getBoundingClientRect();
    return Math.floor((total * (event.clientX - area.left)) / area.width);
  };
  strip.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    strip.setPointerCapture(event.pointerId);
    go(stepAt(event));
  });
  strip.addEventListener("pointermove", (event) => {
    if (strip.hasPointerCapture(event.pointerId)) go(stepAt(event));
  });
  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    const link = event.target.closest("a[data-step], a[data-go]");
    if (!link) return;
    event.preventDefault();
    go(link.dataset.step === undefined ? chosen + Number(link.dataset.go) : Number(link.dataset.step));
    if (link.dataset.step !== undefined) document.getElementById("steps").scrollIntoView({ block: "start" });
  });
  list.choose(chosen);
  mark(chosen);
  pane.show(data.steps[chosen - data.first], total);
  pane.pane.dataset.shown = chosen;
  document.documentElement.dataset.ready = "true";
}

// A large reference is drawn by the server when somebody comes near it.
function setUpTree() {
  const place = document.getElementById("tree-later");
  if (!place) return;
  const watcher = new IntersectionObserver(async (entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watcher.disconnect();
    const answer = await fetch(place.dataset.address);
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const tree = page.getElementById("tree");
    if (tree) place.replaceChildren(...document.importNode(tree, true).childNodes);
  }, { rootMargin: "300px" });
  watcher.observe(place);
}

setUp();
setUpTree();
