// Keeps a part of a page as the server has it, by asking for the page again: `<… id data-live="/v1/…" data-ends>`.
// It asks the API first and the page only when something has changed there.
import { localiseTimes } from "./times.js";

const EVERY_MS = 1000;
const AWAY_MS = 3000;

async function watch(part) {
  const note = document.getElementById("live-note");
  const announcer = document.getElementById("announcer");
  let seen = "";
  for (;;) {
    let pause = EVERY_MS;
    try {
      const answer = await fetch(part.dataset.live, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
      const text = await answer.text();
      if (text !== seen) {
        seen = text;
        const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
        const fresh = page.getElementById(part.id);
        // The page of what has ended is another one.
        if (!fresh) { location.reload(); return; }
        part.replaceChildren(...document.importNode(fresh, true).childNodes);
        localiseTimes(part);
        if (announcer && fresh.dataset.says) announcer.textContent = fresh.dataset.says;
        if (!fresh.dataset.live) return;
      }
      if (note) note.hidden = true;
    } catch {
      if (note) note.hidden = false;
      pause = AWAY_MS;
    }
    await new Promise((resolve) => { setTimeout(resolve, pause); });
  }
}

for (const part of document.querySelectorAll("[data-live]")) watch(part);
document.documentElement.dataset.ready = "true";
