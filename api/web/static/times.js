// Points in time: `<time datetime class="when">` in the reader's zone, `<span data-since>` counted up.

const DAY = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };
const DATE = { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false };

export function localiseTimes(root) {
  const today = new Date().toDateString();
  for (const place of root.querySelectorAll("time.when")) {
    const at = new Date(place.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    place.title ||= `${place.textContent.trim()} UTC`;
    place.textContent = at.toLocaleString(undefined, at.toDateString() === today ? DAY : DATE);
  }
}

export function lengthOf(seconds) {
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// The server's clock is the one that wrote the times; ours may differ by minutes.
export function tick(root, aheadSeconds) {
  const now = Date.now() / 1000 - aheadSeconds;
  for (const place of root.querySelectorAll("[data-since]")) {
    const text = lengthOf(now - Number(place.dataset.since));
    if (place.textContent !== text) place.textContent = text;
  }
}
