// The keyboard, and pages that were left.  Every page works without this file: its keys
// press buttons that the page has anyway.
"use strict";

const rows = () => [...document.querySelectorAll("[data-row]")];
const current = () => document.activeElement?.closest("[data-row]");

function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.indexOf(current());
  const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step;
  all[Math.min(all.length - 1, Math.max(0, next))].focus();
}

// A page about one message has its buttons outside of any row.
function press(key) {
  const row = current();
  const inside = row ?? (rows().length ? null : document);
  inside?.querySelector(`[data-key="${key}"]`)?.click();
}

function open(id) {
  const dialog = document.getElementById(id);
  if (dialog instanceof HTMLDialogElement && !dialog.open) dialog.showModal();
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  s: () => press("s"),
  h: () => press("h"),
  u: () => press("u"),
  o: () => press("o"),
  t: () => document.querySelector("[data-take]")?.focus(),
  "/": () => document.querySelector("[data-search]")?.focus(),
  "?": () => open("keyboard"),
};

// Dictated words arrive as single keys, so these can be turned off (WCAG 2.2, 2.1.4).
const used = document.getElementById("single-keys");
try {
  used.checked = localStorage.getItem("keys") !== "off";
  used.addEventListener("change", () => {
    localStorage.setItem("keys", used.checked ? "on" : "off");
  });
} catch {
  // Where the browser stores nothing, they are on.
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const target = event.target instanceof Element ? event.target : document.body;
  const typing = target.closest("input, select, textarea, dialog");
  // A mark shows its numbers, which cover others, while it has the focus.
  if (event.key === "Escape" && (typing || target.matches("mark"))) target.blur();
  const act = KEYS[event.key];
  if (typing || !act || !used.checked) return;
  event.preventDefault();
  act();
});

document.addEventListener("click", (event) => {
  const button = event.target instanceof Element && event.target.closest("[data-opens]");
  if (button) open(button.dataset.opens);
});

// A file that is dropped anywhere is posted; else the browser would show it.
for (const form of document.querySelectorAll("form[data-drop]")) {
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    const files = event.dataTransfer?.files;
    if (!files?.length) return;
    event.preventDefault();
    form.querySelector("input[type=file]").files = files;
    form.requestSubmit();
  });
}

// WebKit keeps a page that came without TLS although it must not be stored: going back
// would show mail after signing out.
addEventListener("pagehide", () => {
  document.body.hidden = true;
});
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

for (const each of document.querySelectorAll(".needs-script")) each.hidden = false;
for (const each of rows()) each.tabIndex = -1;
// After a form was posted the page comes back at its row.
if (location.hash) {
  const row = document.getElementById(location.hash.slice(1));
  if (row?.matches("[data-row]")) row.focus();
}
