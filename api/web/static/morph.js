// Makes a part of the page like another one, node by node: what stays the same is not touched, so that focus, opened
// details, scroll positions and selections survive. Elements are recognised by `id` or `data-key`.

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset.key || "" : "");

const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

// Whether a reader opened or closed it is the reader's business.
const OURS = new Set(["open"]);

function morphAttributes(from, to) {
  for (const { name, value } of to.attributes) {
    if (!OURS.has(name) && from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  for (const { name } of [...from.attributes]) {
    if (!OURS.has(name) && !to.hasAttribute(name)) from.removeAttribute(name);
  }
}

function arrived(element) {
  element.classList.remove("arrived");
  void element.offsetWidth; // begins the animation again
  element.classList.add("arrived");
  element.addEventListener("animationend", () => element.classList.remove("arrived"), { once: true });
}

function morphElement(from, to) {
  if (from.dataset.keep !== undefined) return;
  const changed = from.dataset.arrives !== undefined && from.dataset.arrives !== to.dataset.arrives;
  if (from.isEqualNode(to)) return;
  morphAttributes(from, to);
  morphChildren(from, to);
  if (changed) arrived(from);
}

function morphChildren(from, to) {
  let place = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    let found = place;
    if (found && !alike(found, wanted) && keyOf(wanted)) {
      while (found && !alike(found, wanted)) found = found.nextSibling;
    }
    if (!found || !alike(found, wanted)) {
      from.insertBefore(wanted, place);
      continue;
    }
    while (place !== found) {
      const gone = place;
      place = place.nextSibling;
      gone.remove();
    }
    place = found.nextSibling;
    if (found.nodeType === Node.ELEMENT_NODE) morphElement(found, wanted);
    else if (found.nodeValue !== wanted.nodeValue) found.nodeValue = wanted.nodeValue;
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
}

// `html` is a part rendered by our own server, where everything foreign is escaped.
export function morph(element, html) {
  const made = new DOMParser().parseFromString(html, "text/html");
  morphChildren(element, made.body);
}
