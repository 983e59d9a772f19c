// The button comes again with every fresh part of the page, so the page listens for it.
import { post } from "./post.js";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("#cancel");
  if (!button) return;
  button.disabled = true;
  try {
    await post(button.dataset.address);
    location.reload();
  } catch (error) {
    button.disabled = false;
    document.getElementById("announcer").textContent = `It could not be cancelled: ${error.message}`;
  }
});
