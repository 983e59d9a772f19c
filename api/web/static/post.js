// A page or a part of one. Where the session is over, the reader is asked to log in again.
export async function page(address) {
  const answer = await fetch(address, { headers: { Accept: "text/html" }, redirect: "manual" });
  if (answer.type === "opaqueredirect") location.reload();
  return answer;
}

// Commands to the API. Every POST carries a key of its own, so that sending it again changes nothing.

export async function post(address, body, { type = "application/json", key = crypto.randomUUID?.() ?? fallbackKey() } = {}) {
  const answer = await fetch(address, {
    method: "POST",
    headers: { ...(body === undefined ? {} : { "Content-Type": type }), ...session(), "Idempotency-Key": key },
    body,
  });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(told.detail ?? `the server answers ${answer.status}`), { told });
  return told;
}

// What shows that a page of this session asks, and no other site's.
export const session = () => {
  const token = document.querySelector("meta[name=csrf-token]")?.content;
  return token ? { "X-CSRF-Token": token } : {};
};

// `randomUUID` is there on secure pages only, and an API in a local network is served without TLS.
export const fallbackKey = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

// A button that asks once more before it acts, and says what went wrong beside itself.
export function command(button, { confirm, run }) {
  const idle = button.textContent;
  let armed = null;
  const disarm = () => {
    clearTimeout(armed);
    armed = null;
    button.textContent = idle;
  };
  button.hidden = false;
  button.addEventListener("blur", () => armed && disarm());
  button.addEventListener("click", async () => {
    if (confirm && armed === null) {
      button.textContent = confirm;
      armed = setTimeout(disarm, 5000);
      return;
    }
    if (armed) disarm();
    button.disabled = true;
    try {
      await run();
    } catch (error) {
      const place = document.getElementById("command-error");
      place.textContent = error.message;
      place.hidden = false;
    } finally {
      button.disabled = false;
    }
  });
}
