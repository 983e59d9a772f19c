// Follows a run or a batch: an event stream says that something happened, the part of the page is fetched anew.
// What is away is said on the page; what comes back goes on behind the last event seen.
import { morph } from "./morph.js";
import { page } from "./post.js";
import { localiseTimes, tick } from "./times.js";

const LEAST_MS = 150;
const SLOW_MS = 4000;
const RETRIES_MS = [1000, 2000, 4000, 8000, 15000];
// A browser opens six connections to a host: tabs that nobody looks at must not hold them all.
const HIDDEN_MS = 20000;

export class Follower {
  // `options`: stream, part (addresses), after (last event shown, or null), kinds, ended.
  constructor(element, options, { onPart } = {}) {
    this.element = element;
    this.options = options;
    this.onPart = onPart ?? (() => {});
    this.last = options.after;
    this.ended = options.ended;
    this.failures = 0;
    this.awaySince = null;
    this.wanted = false;
    this.busy = false;
    this.aheadSeconds = 0;
  }

  start() {
    this.#shown();
    setInterval(() => tick(this.element, this.aheadSeconds), 100);
    if (this.ended) return;
    this.#open();
    this.slow = setInterval(() => document.hidden || this.refresh(), SLOW_MS);
    addEventListener("online", () => this.#again());
    addEventListener("offline", () => this.#away());
    document.addEventListener("visibilitychange", () => this.#looked());
  }

  #looked() {
    clearTimeout(this.rest);
    if (this.ended) return;
    if (document.hidden) {
      this.rest = setTimeout(() => this.stream.close(), HIDDEN_MS);
      return;
    }
    if (this.stream.readyState === EventSource.CLOSED) this.#again();
    this.refresh();
  }

  #open() {
    this.stream?.close();
    const address = new URL(this.options.stream, location.origin);
    if (this.last !== null) address.searchParams.set("after", this.last);
    this.stream = new EventSource(address);
    this.stream.onopen = () => this.#back();
    this.stream.onerror = () => {
      if (this.ended) return;
      this.#away();
      // The browser tries again by itself, unless the answer was an error or that nothing more will come.
      if (this.stream.readyState !== EventSource.CLOSED) return;
      this.#later();
      this.refresh();
    };
    const heard = (event) => {
      if (this.last !== null && event.lastEventId) this.last = Number(event.lastEventId);
      this.refresh();
    };
    for (const kind of this.options.kinds) this.stream.addEventListener(kind, heard);
    this.stream.addEventListener("end", () => {
      this.#end();
      this.refresh();
    });
  }

  #end() {
    this.ended = true;
    this.stream?.close();
    clearInterval(this.slow);
    clearTimeout(this.retry);
  }

  #later() {
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.#again(), RETRIES_MS[Math.min(this.failures++, RETRIES_MS.length - 1)]);
  }

  #again() {
    if (!this.ended) this.#open();
  }

  #away() {
    if (this.awaySince === null) {
      this.awaySince = new Date();
      this.#banner();
    }
  }

  #back() {
    this.failures = 0;
    if (this.awaySince === null) return;
    this.awaySince = null;
    this.#banner();
    say("The connection is back.");
    this.refresh();
  }

  #banner() {
    const banner = document.getElementById("away");
    const mark = document.getElementById("live-mark");
    banner.hidden = this.awaySince === null;
    if (this.awaySince) {
      const at = this.awaySince.toLocaleTimeString(undefined, { hour12: false });
      banner.textContent = `The connection was lost at ${at}. What you see is as of then; the work goes on, and this page will too as soon as the server answers.`;
    }
    if (mark) {
      mark.textContent = this.awaySince ? "connection lost" : "live";
      mark.classList.toggle("live-mark--away", this.awaySince !== null);
    }
  }

  // Fetches the part: one at a time, and not more often than the eye can follow.
  async refresh() {
    if (this.busy) {
      this.wanted = true;
      return;
    }
    this.busy = true;
    do {
      this.wanted = false;
      try {
        const answer = await page(this.options.part);
        if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
        morph(this.element, await answer.text());
        this.#shown();
        if (this.ended || this.stream?.readyState === EventSource.OPEN) this.#back();
      } catch {
        this.#away();
        if (this.ended) this.wanted = true;
        await pause(RETRIES_MS[0]);
      }
      await pause(LEAST_MS);
    } while (this.wanted);
    this.busy = false;
  }

  #shown() {
    const root = this.element.firstElementChild;
    if (root?.dataset.ended === "yes" && !this.ended) this.#end();
    if (root?.dataset.now) this.aheadSeconds = Date.now() / 1000 - Number(root.dataset.now);
    localiseTimes(this.element);
    tick(this.element, this.aheadSeconds);
    this.onPart(root);
  }
}

export function say(text) {
  const place = document.getElementById("announcer");
  place.textContent = text;
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
