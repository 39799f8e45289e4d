// Charts over the time of a step: canvases that share one view, which wheel, drag, fingers, keys and buttons move and zoom.
import {duration} from './step_data.js';
import {el} from './dom.js';

const kAxis = 22, kRight = 8;

/** @returns {boolean} */
export function isDark() {
  return matchMedia('(prefers-color-scheme: dark)').matches;
}

/** The part of the step that all its charts show. */
export class View {
  /** @param {number} length of the step in ns */
  constructor(length) {
    this.length = Math.max(1, length);
    this.begin = 0;
    this.end = this.length;
    /** @type {(() => void)[]} */
    this.charts = [];
    this.isPending = false;
  }
  /** @param {number} begin @param {number} end */
  show(begin, end) {
    const length = Math.min(Math.max(end - begin, Math.min(this.length, 50)), this.length);
    this.begin = Math.min(Math.max(0, begin), this.length - length);
    this.end = this.begin + length;
    this.redraw();
  }
  /** @param {number} factor @param {number} [share] of the width that keeps its place */
  zoom(factor, share = 0.5) {
    const length = this.end - this.begin, at = this.begin + share * length;
    this.show(at - share * length * factor, at + (1 - share) * length * factor);
  }
  /** @param {number} share of the width */
  pan(share) {
    const by = share * (this.end - this.begin);
    this.show(this.begin + by, this.end + by);
  }
  redraw() {
    if (this.isPending) return;
    this.isPending = true;
    requestAnimationFrame(() => {
      this.isPending = false;
      this.charts.forEach(draw => draw());
    });
  }
}

/**
 * @typedef {Object} Pen
 * @property {CanvasRenderingContext2D} pen
 * @property {number} left @property {number} inner @property {number} bottom
 * @property {(time: number) => number} x
 * @property {(name: string) => string} color of the style sheet
 *
 * @typedef {Object} Drawing
 * @property {() => number} height without the axis
 * @property {string} label for those who do not see it
 * @property {(pen: Pen) => void} draw
 * @property {(time: number, y: number, reach: number) => string} tell
 */

/** @param {number} width */
const gutter = width => width < 560 ? 76 : 128;

/** Round times that are apart by a readable distance. @param {View} view @param {number} width @returns {number[]} */
function marks(view, width) {
  const length = view.end - view.begin, least = length / Math.max(1, Math.floor(width / 90));
  const power = 10 ** Math.floor(Math.log10(least)), step = power * ([1, 2, 5].find(factor => factor * power >= least) ?? 10);
  const all = [];
  for (let time = Math.ceil(view.begin / step) * step; time <= view.end; time += step) all.push(time);
  return all;
}

/** @param {Pen} pen @param {View} view */
function drawAxis({pen, left, inner, bottom, x, color}, view) {
  pen.textAlign = 'center';
  for (const time of marks(view, inner)) {
    const at = Math.round(x(time)) + 0.5, text = time === 0 ? '0' : duration(time), half = pen.measureText(text).width / 2;
    pen.strokeStyle = color('--line');
    pen.beginPath();
    pen.moveTo(at, 0);
    pen.lineTo(at, bottom);
    pen.stroke();
    pen.fillStyle = color('--faint');
    pen.fillText(text, Math.min(Math.max(at, left + half), left + inner - half), bottom + kAxis / 2);
  }
}

/** @param {HTMLCanvasElement} canvas @param {View} view @param {Drawing} drawing */
function redraw(canvas, view, drawing) {
  const height = drawing.height() + kAxis, width = canvas.parentElement?.clientWidth ?? 0, scale = window.devicePixelRatio || 1;
  if (!width) return;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d')), style = getComputedStyle(canvas);
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.font = '12px system-ui, sans-serif';
  pen.textBaseline = 'middle';
  const left = gutter(width), inner = width - left - kRight;
  /** @type {Pen} */
  const given = {pen, left, inner, bottom: height - kAxis, x: time => left + (time - view.begin) / (view.end - view.begin) * inner,
                 color: name => style.getPropertyValue(name).trim()};
  drawAxis(given, view);
  drawing.draw(given);
}

/** @param {HTMLCanvasElement} canvas @param {View} view @param {Drawing} drawing @param {HTMLElement} told */
function listen(canvas, view, drawing, told) {
  const width = () => canvas.clientWidth - gutter(canvas.clientWidth) - kRight;
  const shareAt = (/** @type {number} */ x) =>
    Math.min(1, Math.max(0, (x - canvas.getBoundingClientRect().left - gutter(canvas.clientWidth)) / width()));
  const tell = (/** @type {PointerEvent} */ event) => {
    const length = view.end - view.begin;
    told.textContent = drawing.tell(view.begin + shareAt(event.clientX) * length, event.clientY - canvas.getBoundingClientRect().top, 2 * length / width()) || '\u00a0';
  };
  /** @type {Map<number, number>} */
  const fingers = new Map();
  canvas.addEventListener('pointerdown', event => {
    fingers.set(event.pointerId, event.clientX);
    canvas.setPointerCapture(event.pointerId);
    tell(event);
  });
  for (const end of /** @type {const} */ (['pointerup', 'pointercancel'])) canvas.addEventListener(end, event => fingers.delete(event.pointerId));
  canvas.addEventListener('pointermove', event => {
    const before = fingers.get(event.pointerId);
    if (before === undefined) return tell(event);
    if (fingers.size === 1) view.pan((before - event.clientX) / width());
    else {
      const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1] ?? 0;
      view.zoom(Math.min(4, Math.max(0.25, Math.abs(before - other) / Math.max(8, Math.abs(event.clientX - other)))), shareAt(other));
    }
    fingers.set(event.pointerId, event.clientX);
  });
  canvas.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;  // else the page scrolls
    event.preventDefault();
    view.zoom(Math.exp((event.deltaY || event.deltaX) / 300), shareAt(event.clientX));
  }, {passive: false});
  canvas.addEventListener('dblclick', event => view.zoom(0.4, shareAt(event.clientX)));
}

/** A canvas that moves with the others of the view. @param {View} view @param {Drawing} drawing @param {HTMLElement} told @returns {HTMLElement} */
export function timeChart(view, drawing, told) {
  const canvas = /** @type {HTMLCanvasElement} */ (el('canvas', {role: 'img', 'aria-label': drawing.label}));
  view.charts.push(() => redraw(canvas, view, drawing));
  listen(canvas, view, drawing, told);
  return el('div.canvas', {}, canvas);
}

/** Charts that keys move together. @param {View} view @param {string} label @param {Node[]} charts @returns {HTMLElement} */
export function movable(view, label, charts) {
  /** @type {Record<string, () => void>} */
  const keys = {ArrowLeft: () => view.pan(-0.125), ArrowRight: () => view.pan(0.125), '+': () => view.zoom(0.5), '-': () => view.zoom(2), '0': () => view.show(0, view.length)};
  const part = el('div.timeline', {tabindex: '0', role: 'application', 'aria-label': `${label}. Arrows move, plus and minus zoom, 0 shows all.`,
                                   onkeydown: (/** @type {KeyboardEvent} */ event) => {
                                     if (!keys[event.key]) return;
                                     event.preventDefault();
                                     keys[event.key]();
                                   }}, charts);
  new ResizeObserver(() => view.redraw()).observe(part);
  return part;
}

/** @param {View} view @param {...Node} more @returns {HTMLElement} */
export function zoomButtons(view, ...more) {
  const button = (/** @type {string} */ label, /** @type {() => void} */ act) => el('button.small', {type: 'button', onclick: act}, label);
  return el('div.row.controls', {}, button('Zoom in', () => view.zoom(0.5)), button('Zoom out', () => view.zoom(2)),
            button('Whole step', () => view.show(0, view.length)), more);
}
