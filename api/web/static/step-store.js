// Steps of a run, fetched some at a time and kept: a page of fifty is asked for once, whoever needs it.

export const PAGE = 50;
const MOST_PAGES = 40;

export class StepStore {
  #pages = new Map();

  constructor(run, first, steps) {
    this.address = `/v1/trajectories/${encodeURIComponent(run)}`;
    if (steps.length) this.#keep(Math.floor(first / PAGE), Promise.resolve(steps), steps);
  }

  // The step if it is here already.
  known(index) {
    return this.#pages.get(Math.floor(index / PAGE))?.steps?.[index % PAGE];
  }

  async get(index) {
    return (await this.page(Math.floor(index / PAGE)))[index % PAGE];
  }

  page(number) {
    const found = this.#pages.get(number);
    if (found) {
      this.#pages.delete(number);
      this.#pages.set(number, found);
      return found.promise;
    }
    const promise = this.#fetch(`${this.address}/steps?from=${number * PAGE}&limit=${PAGE}`).then((answer) => answer.steps);
    const kept = this.#keep(number, promise, null);
    promise.then((steps) => { kept.steps = steps; }, () => this.#pages.delete(number));
    return promise;
  }

  observation(index, offset, limit) {
    return this.#fetch(`${this.address}/steps/${index}/observation?offset=${offset}&limit=${limit}`);
  }

  #keep(number, promise, steps) {
    const kept = { promise, steps };
    this.#pages.set(number, kept);
    if (this.#pages.size > MOST_PAGES) this.#pages.delete(this.#pages.keys().next().value);
    return kept;
  }

  async #fetch(address) {
    const answer = await fetch(address, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error((await answer.json().catch(() => null))?.detail ?? `the server answers ${answer.status}`);
    return answer.json();
  }
}
