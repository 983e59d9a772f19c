// Puts values into elements marked with data-field. Texts of logs are only ever text.

//: What would turn text around or hide a part of it is shown as U+FFFD, as on the server.
const STEERING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

export const plain = (text) => text.replaceAll("\r\n", "\n").replace(STEERING, "\ufffd");

export const field = (root, name) => root.querySelector(`[data-field="${name}"]`);

// A text fills an element, true and false show and hide it.
export function fill(root, values) {
  for (const [name, value] of Object.entries(values)) {
    const place = field(root, name);
    if (!place) continue;
    if (typeof value === "boolean") place.hidden = !value;
    else place.textContent = plain(String(value ?? ""));
  }
}

export function make(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = plain(text);
  return made;
}

export const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en-US"));
export const words = (name) => name.replaceAll("_", " ");
