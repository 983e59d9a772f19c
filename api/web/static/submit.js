// Submits a spec or a file of specs. What it will cost is asked of the API's own dry run.
import { fallbackKey, post } from "./post.js";

const byId = (id) => document.getElementById(id);
const TEAMS = JSON.parse(byId("teams").textContent);
const SAMPLES = 8;
const SHOWN = 50;
const STILL_MS = 500;

const dollars = (usd) =>
  usd === null ? "unknown" : usd >= 10 ? `$${usd.toFixed(2)}` : usd > 0 && usd < 0.0001 ? "<$0.0001" : `$${usd.toFixed(4)}`;
const many = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

function problem(place, error) {
  place.replaceChildren(error.message);
  const faults = error.told?.errors ?? [];
  if (faults.length > 0) {
    const list = document.createElement("ul");
    for (const fault of faults.slice(0, 10)) {
      const item = document.createElement("li");
      item.textContent = `${fault.field}: ${fault.message}`;
      list.append(item);
    }
    place.append(list);
  }
  place.hidden = false;
}

// --- one spec

const one = byId("one");

async function texts(input) {
  const entries = [...input.files].map(async (file) => [file.webkitRelativePath || file.name, await file.text()]);
  return Object.fromEntries(await Promise.all(entries));
}

async function request() {
  const body = { spec: byId("spec").value, team: byId("team").value, priority: Number(byId("priority").value) };
  if (byId("budget").value !== "") body.budget_usd = Number(byId("budget").value);
  if (byId("files").files.length > 0) body.files = await texts(byId("files"));
  if (byId("tests").files.length > 0) body.tests = await texts(byId("tests"));
  if (byId("review").checked) body.review = true;
  return body;
}

let waiting = null;
let asked = 0;

async function estimate() {
  const place = byId("one-estimate");
  const turn = ++asked;
  if (byId("spec").value.trim() === "") {
    place.textContent = "The estimate appears while you write.";
    return;
  }
  try {
    const told = await post("/v1/runs", JSON.stringify({ ...(await request()), dry_run: true }));
    if (turn !== asked) return;
    const { cost_usd: likely, worst_cost_usd: worst } = told.total;
    place.textContent = `About ${dollars(likely)}, at most ${dollars(worst)} a round, for ${many(told.seats.length, "seat")}${told.simulated ? " (simulated)" : ""}`;
  } catch (error) {
    if (turn === asked) place.textContent = error.message;
  }
}

one.addEventListener("input", (event) => {
  byId("one-error").hidden = true;
  if (event.target.id === "team") byId("team-words").textContent = TEAMS[byId("team").value] ?? "";
  clearTimeout(waiting);
  waiting = setTimeout(estimate, STILL_MS);
});

// One key for one text: a double click or a repeated try makes one run.
let keyed = { body: null, key: null };
function keyFor(body) {
  if (keyed.body !== body) keyed = { body, key: crypto.randomUUID?.() ?? fallbackKey() };
  return keyed.key;
}

const sends = one.querySelector("[type=submit]");
one.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = event.submitter ?? sends;
  if (byId("spec").value.trim() === "") {
    problem(byId("one-error"), new Error("Write what the code should do."));
    byId("spec").focus();
    return;
  }
  button.disabled = true;
  try {
    const body = JSON.stringify(await request());
    const run = await post("/v1/runs", body, { key: keyFor(body) });
    location.assign(`/runs/${encodeURIComponent(run.id)}`);
  } catch (error) {
    problem(byId("one-error"), error);
    button.disabled = false;
  }
});
// Before this the browser itself would have sent the form, with the spec in the page's address.
sends.disabled = false;

byId("spec").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) one.requestSubmit();
});

// --- many specs

const form = byId("many");
const drop = byId("drop");
const submit = form.querySelector("[type=submit]");
let file = null;
let sampled = 0;

// Reads a file line by line, so that a large one never lies in memory.
async function* linesOf(chosen) {
  const reader = chosen.stream().pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
  if (rest !== "") yield rest;
}

async function look(chosen) {
  const found = { lines: 0, bad: [], badCount: 0, shown: [], samples: [] };
  let number = 0;
  for await (const line of linesOf(chosen)) {
    number += 1;
    if (line.trim() === "") continue;
    found.lines += 1;
    let value = null;
    try {
      value = JSON.parse(line);
    } catch (error) {
      found.badCount += 1;
      if (found.bad.length < 5) found.bad.push(`line ${number} is not JSON: ${error.message.replace(/ \(line 1 column \d+\)$/, "")}`);
      continue;
    }
    if (typeof value?.spec !== "string") {
      found.badCount += 1;
      if (found.bad.length < 5) found.bad.push(`line ${number} ${value?.spec === undefined ? 'has no "spec"' : 'has a "spec" that is not text'}`);
      continue;
    }
    if (found.shown.length < SHOWN) {
      found.shown.push([number, value.id ?? "", value.team ?? "", value.spec.trim().split("\n")[0].slice(0, 120)]);
    }
    // Spread over the file: every line has the same chance to be among the samples.
    if (found.samples.length < SAMPLES) found.samples.push(value);
    else {
      const at = Math.floor(Math.random() * (found.lines - found.badCount));
      if (at < SAMPLES) found.samples[at] = value;
    }
  }
  return found;
}

function summary(found) {
  const place = byId("many-summary");
  const words = document.createElement("p");
  words.textContent = `${file.name}: ${many(found.lines, "line")}${found.badCount ? `, ${found.badCount} of them bad` : ""}`;
  const parts = [words];
  if (found.bad.length > 0) {
    const list = document.createElement("ul");
    list.className = "bad small";
    for (const text of found.bad) list.append(Object.assign(document.createElement("li"), { textContent: text }));
    parts.push(list);
  }
  if (found.shown.length > 0) {
    const box = Object.assign(document.createElement("div"), { className: "preview", tabIndex: 0 });
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "The first lines");
    const table = Object.assign(document.createElement("table"), { className: "table" });
    for (const cells of found.shown) {
      const row = table.insertRow();
      for (const cell of cells) row.insertCell().textContent = cell;
    }
    box.append(table);
    parts.push(box);
  }
  place.replaceChildren(...parts);
}

async function estimateMany(found) {
  const place = byId("many-estimate");
  const turn = ++sampled;
  if (found.samples.length === 0) {
    place.textContent = "";
    return;
  }
  const team = byId("many-team").value;
  const asks = found.samples.map((line) =>
    post("/v1/runs", JSON.stringify({ ...(team ? { team } : {}), ...line, dry_run: true })).catch(() => null),
  );
  const told = (await Promise.all(asks)).filter((each) => each !== null && each.total.cost_usd !== null);
  if (turn !== sampled) return;
  if (told.length === 0) {
    place.textContent = "No estimate: no price is known, or the lines cannot be used.";
    return;
  }
  const good = found.lines - found.badCount;
  const mean = (name) => told.reduce((sum, each) => sum + each.total[name], 0) / told.length;
  const from = told.length < good ? `, from ${told.length} of its lines` : "";
  place.textContent = `About ${dollars(mean("cost_usd") * good)}, at most ${dollars(mean("worst_cost_usd") * good)} a round${from}${told.some((each) => each.simulated) ? " (simulated)" : ""}`;
}

let latest = null;
async function take(chosen) {
  if (!chosen) return;
  file = chosen;
  byId("many-error").hidden = true;
  byId("many-estimate").textContent = "";
  if (byId("name").value === "") byId("name").placeholder = chosen.name.replace(/\.[^.]*$/, "");
  try {
    latest = await look(chosen);
  } catch (error) {
    problem(byId("many-error"), error);
    return;
  }
  summary(latest);
  submit.disabled = latest.lines === 0;
  await estimateMany(latest);
}

byId("lines").addEventListener("change", (event) => take(event.target.files[0]));
byId("many-team").addEventListener("change", () => latest && estimateMany(latest));
for (const kind of ["dragenter", "dragover"]) {
  drop.addEventListener(kind, (event) => {
    event.preventDefault();
    drop.classList.add("drop--over");
  });
}
for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, () => drop.classList.remove("drop--over"));
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  take(event.dataTransfer.files[0]);
});
// A file that misses the field must not replace the page.
for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault());

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const address = new URL("/v1/batches", location.origin);
  address.searchParams.set("name", byId("name").value || byId("name").placeholder);
  if (byId("many-team").value) address.searchParams.set("team", byId("many-team").value);
  if (byId("many-budget").value) address.searchParams.set("budget_usd", byId("many-budget").value);
  if (byId("skip").checked) address.searchParams.set("skip_bad", "true");
  submit.disabled = true;
  try {
    const batch = await post(address, file, { type: "application/jsonl", key: keyFor(`${address} ${file.name} ${file.size} ${file.lastModified}`) });
    location.assign(`/batches/${encodeURIComponent(batch.id)}`);
  } catch (error) {
    problem(byId("many-error"), error);
    submit.disabled = false;
  }
});
