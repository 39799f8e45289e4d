"use strict";
(() => {
const root = document.documentElement;
const data = JSON.parse(document.getElementById("data").textContent);
const box = document.getElementById("timeline"), memoryBox = document.getElementById("memory");
const canvas = box && box.querySelector("canvas"), memoryCanvas = memoryBox && memoryBox.querySelector("canvas");
const tip = document.getElementById("tip");
const LANE = 20, GAP = 2, TITLE = 22, AXIS = 24, MEMORY = 230;

// --- data: one list of spans per stream, times in ns
const spans = [];
const rows = [];
let lastRank = -1, height = 4;
for (const track of data.tracks) {
  if (track.rank !== lastRank) {
    rows.push({title: data.ranks[track.rank].name, y: height});
    height += TITLE;
    lastRank = track.rank;
  }
  const row = {name: track.name, rank: track.rank, busy: track.busy, y: height, first: spans.length};
  let at = 0;
  for (let i = 0; i < track.spans.length; i += data.fields) {
    const [gap, length, activity, unit, micro, flags, count, bytes, waiting, cause] = track.spans.slice(i, i + data.fields);
    spans.push({begin: at + gap, end: at + gap + length, activity, unit, micro, flags, count, bytes, waiting, cause, row});
    at += gap + length;
  }
  row.last = spans.length;
  rows.push(row);
  height += LANE + GAP;
}
height += AXIS;

// --- words
const number = (x, digits) => Number(x.toPrecision(digits)).toString();
function duration(ns) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]]) if (ns >= size) return number(ns / size, 4) + " " + unit;
  return ns + " ns";
}
function amount(bytes) {
  for (const [unit, power] of [["GiB", 30], ["MiB", 20], ["KiB", 10]])
    if (bytes >= 2 ** power) return number(bytes / 2 ** power, 3) + " " + unit;
  return bytes + " B";
}
const unitName = unit => unit === 0 ? "embedding" : unit > data.layers ? "head" : "layer " + (unit - 1);
const spanName = s => data.activities[s.activity].name + (data.activities[s.activity].name.startsWith("head") ? "" : " " + unitName(s.unit));
function describe(s) {
  const lines = [s.count > 1 ? s.count + " × " + data.activities[s.activity].name + ", from " + unitName(s.unit) : spanName(s)];
  lines.push(data.ranks[s.row.rank].name + ", " + s.row.name + ", micro batch " + s.micro);
  lines.push(duration(s.begin) + " to " + duration(s.end) + ": " + duration(s.end - s.begin));
  if (s.waiting > 0) lines.push("of it waiting: " + duration(s.waiting));
  if (s.bytes > 0) lines.push(amount(s.bytes));
  if (s.flags & 2) lines.push("began when the host had launched it");
  else if (s.cause >= 0 && spans[s.cause] !== s)
    lines.push("began after: " + spanName(spans[s.cause]) + " (" + data.ranks[spans[s.cause].row.rank].name + ", " + spans[s.cause].row.name + ")");
  if (s.flags & 1) lines.push("on the critical path");
  return lines.join("\n");
}

// --- the part of the step in view, shared by both charts
const view = {begin: 0, end: data.step};
const options = {critical: false, messages: true};
let isPrinting = false, drawn = 0;
const isDark = () => !isPrinting && matchMedia("(prefers-color-scheme: dark)").matches;
const gutter = width => width < 560 ? 68 : 118;
function colour(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }
function marks(width) {
  const length = view.end - view.begin, most = Math.max(1, Math.floor(width / 90));
  let distance = 1;
  for (let power = 1; ; power *= 10) {
    const factor = [1, 2, 5].find(f => length / (f * power) <= most);
    if (factor) { distance = factor * power; break; }
  }
  const out = [];
  for (let t = Math.ceil(view.begin / distance) * distance; t <= view.end; t += distance) out.push(t);
  return out;
}
function prepare(canvas, height) {
  const width = Math.max(200, canvas.parentElement.clientWidth), scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.fillStyle = colour("--back");
  pen.fillRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const left = gutter(width), inner = width - left - 8;
  return {pen, width, height, left, inner, x: t => left + (t - view.begin) / (view.end - view.begin) * inner};
}
function drawAxis(c, bottom) {
  const {pen} = c;
  pen.textAlign = "center";
  for (const t of marks(c.inner)) {
    const x = Math.round(c.x(t)) + 0.5;
    pen.strokeStyle = colour("--line");
    pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, bottom); pen.stroke();
    pen.fillStyle = colour("--soft");
    const text = t === 0 ? "0" : duration(t), half = pen.measureText(text).width / 2;
    pen.fillText(text, Math.min(Math.max(x, c.left + half), c.left + c.inner - half), bottom + 12);
  }
}

// --- timeline
function firstVisible(row) {
  let low = row.first, high = row.last;
  while (low < high) { const middle = (low + high) >> 1; if (spans[middle].end <= view.begin) low = middle + 1; else high = middle; }
  return low;
}
function drawRow(c, row, colours) {
  const {pen} = c;
  let lastX = -1, lastActivity = -1;
  for (let i = firstVisible(row); i < row.last && spans[i].begin < view.end; ++i) {
    const s = spans[i], from = Math.max(c.left, c.x(s.begin)), to = Math.min(c.left + c.inner, c.x(s.end));
    const width = Math.max(0.6, to - from);
    if (to < lastX + 0.5 && s.activity === lastActivity) continue;
    const strength = options.critical && !(s.flags & 1) ? 0.22 : 1, shownWidth = width > 4 ? width - 0.6 : width;
    pen.fillStyle = colours[s.activity];
    if (s.waiting > 0 && s.count === 1) {  // pale while it waits
      pen.globalAlpha = 0.25 * strength;
      pen.fillRect(from, row.y, shownWidth, LANE);
      pen.globalAlpha = strength;
      const begin = s.flags & 4 ? s.begin + s.waiting : s.begin, end = s.flags & 4 ? s.end : s.end - s.waiting;
      const x1 = Math.max(c.left, c.x(begin)), x2 = Math.min(c.left + c.inner, c.x(end));
      if (x2 > x1) pen.fillRect(x1, row.y, Math.max(0.6, x2 - x1), LANE);
    } else {
      pen.globalAlpha = strength;
      pen.fillRect(from, row.y, shownWidth, LANE);
    }
    if (width > 46) {
      const text = width > 110 ? spanName(s) : unitName(s.unit);
      if (pen.measureText(text).width < width - 8) {
        pen.fillStyle = s.waiting > 0.4 * (s.end - s.begin) ? colour("--text") : isDark() ? "#10141a" : "#ffffff";
        pen.textAlign = "left";
        pen.fillText(text, from + 4, row.y + LANE / 2 + 0.5);
      }
    }
    lastX = to; lastActivity = s.activity; ++drawn;
  }
  pen.globalAlpha = 1;
}
function drawMessages(c) {
  const visible = [];
  for (let i = 0; i < data.messages.length; i += 2) {
    const from = spans[data.messages[i]], to = spans[data.messages[i + 1]];
    if (to.end >= view.begin && from.begin <= view.end) visible.push([from, to]);
  }
  if (visible.length > 400) return;
  const {pen} = c;
  pen.save();
  pen.beginPath(); pen.rect(c.left, 0, c.inner, c.height - AXIS); pen.clip();
  pen.strokeStyle = colour("--soft");
  for (const [from, to] of visible) {
    const x1 = c.x(from.end), x2 = c.x(to.end), down = to.row.y > from.row.y;
    const y1 = from.row.y + (down ? LANE : 0), y2 = to.row.y + (down ? 0 : LANE), bend = (y2 - y1) / 2;
    pen.beginPath(); pen.moveTo(x1, y1); pen.bezierCurveTo(x1, y1 + bend, x2, y2 - bend, x2, y2); pen.stroke();
    pen.beginPath(); pen.arc(x2, y2, 2, 0, 7); pen.stroke();
  }
  pen.restore();
}
function drawTimeline() {
  if (!canvas) return;
  drawn = 0;
  const c = prepare(canvas, height), {pen} = c;
  const colours = data.activities.map(a => isDark() ? a.dark : a.light);
  pen.fillStyle = colour("--panel");
  for (const row of rows) if (!row.title) pen.fillRect(c.left, row.y, c.inner, LANE);
  drawAxis(c, height - AXIS);
  for (const row of rows) if (!row.title) drawRow(c, row, colours);
  pen.textAlign = "left";
  for (const row of rows) {
    pen.fillStyle = colour(row.title ? "--text" : "--soft");
    pen.font = (row.title ? "600 " : "") + "12px system-ui, sans-serif";
    if (row.title) pen.fillText(row.title, 8, row.y + TITLE / 2 + 1);
    else pen.fillText(row.name + (c.left > 100 ? " " + Math.round(100 * row.busy) + " %" : ""), 8, row.y + LANE / 2 + 0.5);
  }
  if (options.messages) drawMessages(c);
}

// --- memory
const lightCurves = ["#2f6fdb", "#c8452f", "#2f8f4e", "#a83fa0", "#a8750a", "#0f8a8a", "#6a4fc9", "#737b86"];
const darkCurves = ["#6ea0ff", "#ff8a70", "#63cf86", "#e58bdd", "#f0c04a", "#4fd6d6", "#a793ff", "#a2abb7"];
const curveColour = i => (isDark() ? darkCurves : lightCurves)[i % 8];
const peak = Math.max(0, ...data.ranks.map(r => r.peak));
const top_ = 1.06 * Math.max(peak, data.capacity || 0, data.process || 0, 1);
const memoryY = bytes => 10 + (1 - bytes / top_) * (MEMORY - AXIS - 10);
function drawLevel(c, bytes, text, name, below) {
  if (!bytes) return;
  const {pen} = c, y = Math.round(memoryY(bytes)) + 0.5;
  pen.strokeStyle = pen.fillStyle = colour(name);
  pen.setLineDash([6, 4]);
  pen.beginPath(); pen.moveTo(c.left, y); pen.lineTo(c.left + c.inner, y); pen.stroke();
  pen.setLineDash([]);
  pen.textAlign = "right";
  pen.fillText(text + " " + amount(bytes), c.left + c.inner - 4, y + (below ? 9 : -8));
}
function drawCurve(c, rank, stroke, isFullest) {
  const {pen} = c, points = rank.memory;
  if (points.length === 0) return;
  pen.save();
  pen.beginPath(); pen.rect(c.left, 0, c.inner, MEMORY - AXIS); pen.clip();
  pen.beginPath();
  let y = memoryY(points[1]);
  pen.moveTo(c.left, y);
  for (let i = 0; i < points.length; i += 2) {
    const x = c.x(points[i]);
    pen.lineTo(x, y);
    y = memoryY(points[i + 1]);
    pen.lineTo(x, y);
  }
  pen.lineTo(c.left + c.inner, y);
  pen.strokeStyle = stroke; pen.lineWidth = isFullest ? 1.6 : 1;
  pen.stroke();
  if (isFullest) {
    pen.lineTo(c.left + c.inner, MEMORY - AXIS); pen.lineTo(c.left, MEMORY - AXIS);
    pen.globalAlpha = 0.14; pen.fillStyle = stroke; pen.fill();
  }
  pen.restore();
}
function drawMemory() {
  if (!memoryCanvas) return;
  const c = prepare(memoryCanvas, MEMORY), {pen} = c;
  drawAxis(c, MEMORY - AXIS);
  const fullest = data.ranks.findIndex(r => r.peak === peak);
  data.ranks.forEach((rank, i) => { if (i !== fullest) drawCurve(c, rank, curveColour(i), false); });
  if (fullest >= 0) drawCurve(c, data.ranks[fullest], curveColour(fullest), true);
  const tooClose = data.capacity && data.process && Math.abs(memoryY(data.capacity) - memoryY(data.process)) < 26;
  drawLevel(c, data.capacity, "the GPU offers", "--bad", data.process > data.capacity && tooClose);
  drawLevel(c, data.process, "with caches and context", "--soft", data.process <= data.capacity && tooClose);
  pen.textAlign = "right"; pen.fillStyle = colour("--soft");
  let power = 30, step = 2 ** 30;
  while (top_ / step > 5) step *= 2;
  while (top_ / step < 2 && step > 1) step /= 2;
  for (let b = 0; b <= top_; b += step) pen.fillText(b === 0 ? "0" : amount(b), c.left - 6, memoryY(b));
}
function draw() { drawTimeline(); drawMemory(); }

// --- zoom and pan
let isPending = false;
function redraw() {
  if (isPending) return;
  isPending = true;
  requestAnimationFrame(() => { isPending = false; draw(); });
}
function show(begin, end) {
  const shortest = Math.min(data.step, 50), length = Math.min(Math.max(end - begin, shortest), data.step);
  view.begin = Math.min(Math.max(0, begin), data.step - length);
  view.end = view.begin + length;
  redraw();
}
function zoom(factor, share = 0.5) {
  const length = view.end - view.begin, at = view.begin + share * length;
  show(at - share * length * factor, at + (1 - share) * length * factor);
}
const pan = share => show(view.begin + share * (view.end - view.begin), view.end + share * (view.end - view.begin));
function shareAt(target, clientX) {
  const b = target.getBoundingClientRect(), left = gutter(b.width);
  return Math.min(1, Math.max(0, (clientX - b.left - left) / (b.width - left - 8)));
}
function spanAt(event) {
  const b = canvas.getBoundingClientRect(), y = event.clientY - b.top;
  const row = rows.find(r => !r.title && y >= r.y && y < r.y + LANE + GAP);
  if (!row) return null;
  const share = shareAt(canvas, event.clientX), t = view.begin + share * (view.end - view.begin);
  const reach = (view.end - view.begin) / b.width * 2;
  let best = null;
  for (let i = firstVisible(row); i < row.last && spans[i].begin <= t + reach; ++i) if (spans[i].end >= t - reach) best = spans[i];
  return best;
}
function showTip(event, text) {
  tip.style.display = text ? "block" : "none";
  if (!text) return;
  tip.textContent = text;
  const size = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - size.width - 8)) + "px";
  tip.style.top = (event.clientY + size.height + 24 > innerHeight ? Math.max(4, event.clientY - size.height - 12) : event.clientY + 16) + "px";
}
function memoryAt(event) {
  const t = view.begin + shareAt(memoryCanvas, event.clientX) * (view.end - view.begin);
  const lines = ["at " + duration(Math.round(t))];
  for (const rank of data.ranks.slice(0, 8)) {
    let low = 0, high = rank.memory.length / 2;
    while (low < high) { const middle = (low + high) >> 1; if (rank.memory[2 * middle] <= t) low = middle + 1; else high = middle; }
    if (rank.memory.length) lines.push(rank.name + ": " + amount(rank.memory[2 * Math.max(0, low - 1) + 1]));
  }
  return lines.join("\n");
}
function makeInteractive(target, describeAt) {
  const fingers = new Map();
  target.addEventListener("wheel", event => {
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); pan(event.deltaX / 800); return; }
    if (!event.ctrlKey && !event.metaKey) return;  // the page scrolls
    event.preventDefault();
    zoom(Math.exp(event.deltaY / 250), shareAt(target, event.clientX));
  }, {passive: false});
  target.addEventListener("pointerdown", event => { fingers.set(event.pointerId, event.clientX); target.setPointerCapture(event.pointerId); });
  const release = event => fingers.delete(event.pointerId);
  target.addEventListener("pointerup", release);
  target.addEventListener("pointercancel", release);
  target.addEventListener("pointermove", event => {
    const before = fingers.get(event.pointerId);
    if (before === undefined) { showTip(event, describeAt(event)); return; }
    showTip(event, "");
    const width = target.clientWidth - gutter(target.clientWidth) - 8;
    if (fingers.size === 1) pan((before - event.clientX) / width);
    if (fingers.size === 2) {
      const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
      const factor = Math.abs(before - other) / Math.max(8, Math.abs(event.clientX - other));
      zoom(Math.min(4, Math.max(0.25, factor)), shareAt(target, other));
    }
    fingers.set(event.pointerId, event.clientX);
  });
  target.addEventListener("pointerleave", event => showTip(event, ""));
  target.addEventListener("click", event => { if (event.pointerType === "touch") showTip(event, describeAt(event)); });
  target.addEventListener("dblclick", event => zoom(0.4, shareAt(target, event.clientX)));
  target.addEventListener("keydown", event => {
    const act = {ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.6), "=": () => zoom(0.6),
                 "-": () => zoom(1 / 0.6), "0": () => show(0, data.step), Home: () => show(0, data.step)}[event.key];
    if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); act(); }
  });
}
if (canvas) {
  makeInteractive(canvas, event => { const s = spanAt(event); return s ? describe(s) : ""; });
  const bind = (id, act) => document.getElementById(id).addEventListener("click", act);
  bind("zoom-in", () => zoom(0.5));
  bind("zoom-out", () => zoom(2));
  bind("zoom-all", () => show(0, data.step));
  const check = (id, key) => { const e = document.getElementById(id); if (e) e.addEventListener("change", () => { options[key] = e.checked; redraw(); }); };
  check("show-critical", "critical");
  check("show-messages", "messages");
}
if (memoryCanvas) makeInteractive(memoryCanvas, memoryAt);

// --- legends
function legend(id, entries) {
  const list = document.getElementById(id);
  if (!list) return;
  list.textContent = "";
  for (const [name, swatch] of entries) {
    const item = document.createElement("span"), mark = document.createElement("i");
    mark.style.background = swatch;
    item.append(mark, name);
    list.append(item);
  }
}
function drawLegends() {
  const used = new Set(spans.map(s => s.activity));
  legend("activities", data.activities.flatMap((a, i) => used.has(i) ? [[a.name, isDark() ? a.dark : a.light]] : []));
  legend("curves", data.ranks.length > 1 && data.ranks.length <= 8 ? data.ranks.map((r, i) => [r.name, curveColour(i)]) : []);
}
function all() { drawLegends(); draw(); }
addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
addEventListener("beforeprint", () => { isPrinting = true; all(); });
addEventListener("afterprint", () => { isPrinting = false; all(); });
all();
root.dataset.spans = spans.length;
root.dataset.drawn = drawn;
root.dataset.ready = "true";
})();
