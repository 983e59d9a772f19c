// Uploads files and folders a few at a time, and says of each what became of it.
import { fill, make, number } from "./fields.js";
import { session } from "./post.js";

const MOST_FILES = 40;
const MOST_BYTES = 24_000_000;
const SHOWN = 200;

const drop = document.getElementById("drop");
const results = document.getElementById("upload-results");
const table = document.getElementById("upload-rows");
const meter = document.getElementById("upload-meter");
const announcer = document.getElementById("announcer");
let isBusy = false;

async function filesOf(entry) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => { entry.file(resolve, reject); });
    return [{ file, path: entry.fullPath.replace(/^\/+/, "") }];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const entries = await new Promise((resolve, reject) => { reader.readEntries(resolve, reject); });
    if (!entries.length) break;
    for (const inner of entries) found.push(...await filesOf(inner));
  }
  return found;
}

function batches(files) {
  const found = [];
  let batch = [], bytes = 0;
  for (const item of files) {
    if (batch.length && (batch.length >= MOST_FILES || bytes + item.file.size > MOST_BYTES)) {
      found.push(batch);
      batch = [];
      bytes = 0;
    }
    batch.push(item);
    bytes += item.file.size;
  }
  if (batch.length) found.push(batch);
  return found;
}

// fetch() does not tell how much has gone out.
function send(batch, set, progressed) {
  const form = new FormData();
  for (const { file, path } of batch) form.append("file", file, path);
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/v1/trajectories?set=${encodeURIComponent(set)}`);
    for (const [name, value] of Object.entries(session())) request.setRequestHeader(name, value);
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) => progressed(event.loaded));
    request.addEventListener("error", () => reject(new Error("the connection broke off")));
    request.addEventListener("load", () => {
      if (request.status === 200) resolve(request.response);
      else reject(new Error(request.response?.detail ?? `the server answers ${request.status}`));
    });
    request.send(form);
  });
}

const WORDS = { stored: ["stored", "good"], present: ["was there", ""], refused: ["refused", "bad"], missing: ["missing", "bad"] };

function say(item) {
  const row = make("tr");
  const state = make("td");
  const [word, kind] = WORDS[item.status];
  state.append(make("span", `tag${kind ? ` tag--${kind}` : ""}`, word));
  const path = make("td", "cell-path", item.path || "–");
  const why = make("td", "break", item.problem ?? "");
  row.append(state, path, why);
  // What went wrong stands first, whatever came before it.
  if (item.status === "refused" || item.status === "missing") table.prepend(row);
  else if (table.childElementCount < SHOWN) table.append(row);
}

async function upload(files) {
  if (isBusy || !files.length) return;
  isBusy = true;
  const set = document.getElementById("upload-set").value.trim() || "uploads";
  const total = files.reduce((sum, { file }) => sum + file.size, 0);
  const counts = { stored: 0, present: 0, refused: 0, missing: 0 };
  let gone = 0;
  results.hidden = false;
  table.replaceChildren();
  const show = (bytes) => {
    const share = total ? Math.min(1, (gone + bytes) / total) : 1;
    meter.setAttribute("width", `${(100 * share).toFixed(1)}%`);
    fill(results, { share: `${Math.floor(100 * share)} %` });
  };
  const sum = () => fill(results, {
    counts: `${number(counts.stored)} stored, ${number(counts.present)} were there, ${number(counts.refused + counts.missing)} refused`,
  });
  fill(results, { what: `${number(files.length)} file${files.length === 1 ? "" : "s"} into set ${set}`, done: false });
  show(0);
  for (const batch of batches(files)) {
    try {
      const answer = await send(batch, set, show);
      for (const item of answer.items) { counts[item.status] += 1; say(item); }
    } catch (error) {
      for (const { path } of batch) { counts.refused += 1; say({ status: "refused", path, problem: error.message }); }
    }
    gone += batch.reduce((bytes, { file }) => bytes + file.size, 0);
    show(0);
    sum();
  }
  isBusy = false;
  fill(results, { done: true });
  announcer.textContent = `Upload ended: ${results.querySelector('[data-field="counts"]').textContent}`;
  const choice = document.getElementById("start-what");
  if (choice && counts.stored + counts.present) {
    if (![...choice.options].some((option) => option.value === set)) choice.append(new Option(`set ${set}`, set));
    choice.value = set;
  }
}

for (const name of ["upload-files", "upload-folder"]) {
  const input = document.getElementById(name);
  input.addEventListener("change", () => {
    upload([...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name })));
    input.value = "";
  });
}
for (const kind of ["dragenter", "dragover"]) {
  drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("drop--over"); });
}
for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, () => drop.classList.remove("drop--over"));
drop.addEventListener("drop", async (event) => {
  event.preventDefault();
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const plainFiles = [...event.dataTransfer.files].map((file) => ({ file, path: file.name }));
  upload(entries.length ? (await Promise.all(entries.map(filesOf))).flat() : plainFiles);
});
document.documentElement.dataset.ready = "true";
