// Runs before the first paint, so that a chosen scheme never flashes. Not a module for that reason.
"use strict";
(() => {
  try {
    const chosen = localStorage.getItem("theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch { /* no storage here: the system's scheme holds */ }
})();
