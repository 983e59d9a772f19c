// What every page does: the theme's switch, times in the reader's own zone.
import { localiseTimes } from "./times.js";

const ORDER = ["system", "light", "dark"];
const WORDS = { system: "Auto", light: "Light", dark: "Dark" };

const current = () => document.documentElement.dataset.theme ?? "system";

function choose(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (theme === "system") localStorage.removeItem("theme");
    else localStorage.setItem("theme", theme);
  } catch { /* it holds for this page then */ }
}

function setUpTheme() {
  const button = document.getElementById("theme");
  const label = () => {
    button.textContent = WORDS[current()];
    button.setAttribute("aria-label", `Colour scheme: ${WORDS[current()]}. Change it`);
  };
  label();
  button.hidden = false;
  button.addEventListener("click", () => {
    choose(ORDER[(ORDER.indexOf(current()) + 1) % ORDER.length]);
    label();
  });
}

setUpTheme();
localiseTimes(document);
