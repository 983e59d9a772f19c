// The button comes again with every fresh part of the page, so the page listens for it.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("#cancel");
  if (!button) return;
  button.disabled = true;
  try {
    const answer = await fetch(button.dataset.address, { method: "POST" });
    if (!answer.ok) throw new Error((await answer.json()).detail);
    location.reload();
  } catch (error) {
    button.disabled = false;
    document.getElementById("announcer").textContent = `It could not be cancelled: ${error.message}`;
  }
});
