"use strict";
(() => {
const root = document.documentElement, tip = document.getElementById("tip");
const points = [...document.querySelectorAll(".frontier a")];
const cards = new Map(points.map(point => [point, document.getElementById(point.getAttribute("href").slice(1))]));

function hide() {
  tip.style.display = "none";
  for (const card of cards.values()) card.classList.remove("pointed");
}

/// The figures of a plan beside its point, and its card marked.
function show(point) {
  hide();
  cards.get(point).classList.add("pointed");
  tip.textContent = point.dataset.tip;
  tip.style.display = "block";
  const at = point.querySelector("circle").getBoundingClientRect(), size = tip.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left + at.width / 2 - size.width / 2, innerWidth - size.width - 8));
  const top = at.top > size.height + 16 ? at.top - size.height - 8 : at.bottom + 8;
  tip.style.left = left + "px";
  tip.style.top = top + "px";
}

points.forEach((point, index) => {
  point.addEventListener("pointerenter", () => show(point));
  point.addEventListener("focus", () => show(point));
  point.addEventListener("pointerleave", hide);
  point.addEventListener("blur", hide);
  point.addEventListener("keydown", event => {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    if (event.key === "Escape") point.blur();
    if (!step) return;
    event.preventDefault();
    points[(index + step + points.length) % points.length].focus();
  });
});

for (const button of document.querySelectorAll(".command button"))
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "copied";
    } catch {  // no clipboard for pages of files: the text is selected instead
      getSelection().selectAllChildren(code);
      button.textContent = "selected";
    }
  });

root.dataset.plans = points.length;
root.dataset.ready = "true";
})();
