// Starts a scoring and goes to its page.
import { post } from "./post.js";

const form = document.getElementById("start");
const error = document.getElementById("start-error");

const button = form?.querySelector("button[type=submit]");

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  button.disabled = true;
  error.textContent = "";
  try {
    const { what, profile, k, draws, seed, labels } = form.elements;
    const body = { profile: profile.value, k: Number(k.value), draws: Number(draws.value), seed: Number(seed.value) };
    if (what.value) body.upload_set = what.value;
    else body.all = true;
    const [file] = labels.files;
    if (file) body.labels = { name: file.name, content: await file.text() };
    const said = await post("/v1/scorings", JSON.stringify(body));
    location.assign(`/scorings/${said.id}`);
  } catch (problem) {
    error.textContent = problem.message;
    button.disabled = false;
  }
});
// Before this the browser itself would have sent the form, to nowhere.
if (button) button.disabled = false;
