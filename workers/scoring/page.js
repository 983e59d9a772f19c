"use strict";
const root = document.documentElement;
const isDark = () =>
  root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
});

const runs = [...document.querySelectorAll("details.run")];
const filters = [...document.querySelectorAll("select[data-filter]")];
const shown = document.getElementById("shown");
for (const filter of filters) {
  const values = [...new Set(runs.map((run) => run.dataset[filter.dataset.filter]))].sort();
  for (const value of values) filter.append(new Option(value, value));
  filter.addEventListener("change", apply);
}
function apply() {
  let count = 0;
  for (const run of runs) {
    run.hidden = !filters.every((filter) => !filter.value || run.dataset[filter.dataset.filter] === filter.value);
    if (!run.hidden) count += 1;
  }
  shown.textContent = `${count} of ${runs.length} shown`;
}
const all = document.getElementById("all");
if (all) {
  all.addEventListener("click", () => {
    const visible = runs.filter((run) => !run.hidden);
    const open = visible.some((run) => !run.open);
    for (const run of visible) run.open = open;
    all.textContent = open ? "Close all" : "Open all";
  });
  apply();
}
