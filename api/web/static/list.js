// A list that is kept up to date while somebody looks at its first page.
import { morph } from "./morph.js";
import { page } from "./post.js";
import { localiseTimes } from "./times.js";

const EVERY_MS = 4000;
const list = document.getElementById("list");

async function refresh() {
  try {
    const answer = await page(location.href);
    if (!answer.ok) return;
    const shown = new DOMParser().parseFromString(await answer.text(), "text/html");
    morph(list, shown.getElementById("list").innerHTML);
    localiseTimes(list);
  } catch { /* the next look may work */ }
}

if (list.dataset.refresh === "yes") setInterval(() => document.hidden || refresh(), EVERY_MS);

for (const form of document.querySelectorAll("form[data-filters]")) {
  form.addEventListener("change", () => form.requestSubmit());
}
