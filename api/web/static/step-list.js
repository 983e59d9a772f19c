// A list of any number of steps of which only those in view are elements. Rows are copies of one that the server made.
import { PAGE } from "./step-store.js";
import { fill } from "./fields.js";

const HEIGHT = 32;
const SPARE = 8;

export class StepList {
  #rows = new Map();
  #chosen = 0;
  #scheduled = false;

  constructor(box, store, overview, choose) {
    this.box = box;
    this.store = store;
    this.overview = overview;
    this.room = box.querySelector(".steps-room");
    this.model = box.querySelector(".step-row").cloneNode(true);
    this.wasted = new Set(overview.wasted);
    this.matched = new Set(overview.matched.map(([step]) => step));
    for (const given of box.parentElement.querySelectorAll(".steps-given")) given.remove();
    this.room.style.height = `${overview.steps * HEIGHT}px`;
    box.addEventListener("scroll", () => this.#soon(), { passive: true });
    new ResizeObserver(() => this.#soon()).observe(box);
    this.room.addEventListener("click", (event) => {
      const row = event.target.closest(".step-row");
      if (!row || event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      choose(Number(row.dataset.index));
    });
  }

  choose(index) {
    const before = this.#rows.get(this.#chosen);
    if (before) before.setAttribute("aria-selected", "false");
    this.#chosen = index;
    const top = index * HEIGHT;
    if (top < this.box.scrollTop) this.box.scrollTop = Math.max(0, top - HEIGHT);
    else if (top + HEIGHT > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + 2 * HEIGHT - this.box.clientHeight;
    this.draw();
    this.box.setAttribute("aria-activedescendant", `step-row-${index}`);
  }

  #soon() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => { this.#scheduled = false; this.draw(); });
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / HEIGHT) - SPARE);
    const last = Math.min(this.overview.steps - 1, Math.ceil((this.box.scrollTop + this.box.clientHeight) / HEIGHT) + SPARE);
    for (const [index, row] of this.#rows) {
      if ((index < first || index > last) && index !== this.#chosen) { row.remove(); this.#rows.delete(index); }
    }
    for (let index = first; index <= last; index += 1) this.#row(index);
    this.#row(this.#chosen);
    this.#load(first, last);
  }

  #row(index) {
    let row = this.#rows.get(index);
    if (!row) {
      row = this.model.cloneNode(true);
      row.id = `step-row-${index}`;
      row.dataset.index = index;
      row.href = `?step=${index}#steps`;
      row.style.transform = `translateY(${index * HEIGHT}px)`;
      row.setAttribute("aria-setsize", this.overview.steps);
      row.setAttribute("aria-posinset", index + 1);
      const letter = this.overview.intents[index];
      fill(row, {
        index, intent: letter, line: "…",
        error: this.overview.outcomes[index] === "e", match: this.matched.has(index), waste: this.wasted.has(index),
      });
      row.querySelector('[data-field="intent"]').className = `intent intent--${letter}`;
      this.#rows.set(index, row);
      this.room.append(row);
      this.#say(index, row);
    }
    row.setAttribute("aria-selected", String(index === this.#chosen));
  }

  #say(index, row) {
    const step = this.store.known(index);
    if (step) fill(row, { line: step.line });
    return Boolean(step);
  }

  #load(first, last) {
    for (let page = Math.floor(first / PAGE); page <= Math.floor(last / PAGE); page += 1) {
      if (this.store.known(page * PAGE)) continue;
      this.store.page(page).then((steps) => {
        for (const step of steps) {
          const row = this.#rows.get(step.index);
          if (row) fill(row, { line: step.line });
        }
      }, () => { /* asked for again when it is looked at again */ });
    }
  }
}
