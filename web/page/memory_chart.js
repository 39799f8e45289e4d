// Memory of the fullest GPU over the step, stacked by category, below what the card offers.
import {bytes, words} from './format.js';
import {duration} from './step_data.js';
import {el} from './dom.js';
import {movable, timeChart} from './time_chart.js';

/** @typedef {import('./step_data.js').Step} Step @typedef {import('./step_data.js').Category} Category */
/** @typedef {import('./time_chart.js').View} View @typedef {import('./time_chart.js').Pen} Pen */

const kHeight = 240, kTop = 12;

/** Round amounts up to `most`. @param {number} most @returns {number[]} */
function levels(most) {
  let step = 2 ** 20;
  while (most / step > 5) step *= 2;
  return Array.from({length: Math.floor(most / step) + 1}, (_, i) => i * step);
}

/** The last point at or before a time. @param {number[]} times @param {number} time */
function pointAt(times, time) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

/** @param {Pen} given @param {number[]} times @param {number[]} from @param {number[]} to @param {(size: number) => number} y */
function fillBand({pen, left, inner, x}, times, from, to, y) {
  pen.beginPath();
  for (let i = 0; i < times.length; ++i) {
    const begin = x(times[i]), end = i + 1 < times.length ? x(times[i + 1]) : left + inner;
    if (i === 0) pen.moveTo(begin, y(to[i]));
    pen.lineTo(begin, y(to[i]));
    pen.lineTo(end, y(to[i]));
  }
  for (let i = times.length - 1; i >= 0; --i) {
    pen.lineTo(i + 1 < times.length ? x(times[i + 1]) : left + inner, y(from[i]));
    pen.lineTo(x(times[i]), y(from[i]));
  }
  pen.fill();
}

/** Sums of the categories up to each, from nothing on. @param {Category[]} categories @param {number} length @returns {number[][]} */
function stacked(categories, length) {
  const sums = [new Array(length).fill(0)];
  for (const category of categories) sums.push(category.bytes.map((size, i) => sums[sums.length - 1][i] + size));
  return sums;
}

/** @param {Pen} given @param {number} size @param {string} text @param {(size: number) => number} y @param {boolean} isBelow */
function drawLevel({pen, left, inner, color}, size, text, y, isBelow) {
  const at = Math.round(y(size)) + 0.5;
  pen.strokeStyle = pen.fillStyle = color('--text');
  pen.setLineDash([6, 4]);
  pen.beginPath();
  pen.moveTo(left, at);
  pen.lineTo(left + inner, at);
  pen.stroke();
  pen.setLineDash([]);
  pen.textAlign = 'right';
  pen.fillText(`${text}: ${bytes(size)}`, left + inner - 4, at + (isBelow ? 9 : -8));
}

/** @param {Step} step @param {View} view @param {string} what of the step is drawn @param {number} usable bytes @returns {HTMLElement | null} */
export function memoryChart(step, view, what, usable) {
  const gpu = step.gpus.find(one => one.by_category);
  const categories = gpu?.by_category?.filter(category => category.bytes.some(size => size > 0)) ?? [];
  if (!gpu || !categories.length) return null;
  const times = gpu.memory.filter((_, i) => i % 2 === 0), sums = stacked(categories, times.length);
  const total = sums[sums.length - 1], peak = total.reduce((a, b) => Math.max(a, b), 0), most = 1.08 * Math.max(peak, usable);
  const y = (/** @type {number} */ size) => kTop + (1 - size / most) * (kHeight - kTop);
  const told = el('p.told', {}, `At most ${bytes(peak)} in tensors. Point at a moment.`);
  const drawing = {
    label: `Bytes of live tensors over ${what}, at most ${bytes(peak)}`,
    height: () => kHeight,
    draw: (/** @type {Pen} */ given) => {
      const {pen, left, inner, color} = given;
      pen.save();
      pen.beginPath();
      pen.rect(left, 0, inner, kHeight);
      pen.clip();
      categories.forEach((category, i) => {
        pen.fillStyle = color(`--part${category.place % 12}`);
        fillBand(given, times, sums[i], sums[i + 1], y);
      });
      pen.restore();
      drawLevel(given, usable, 'the card offers', y, false);
      pen.textAlign = 'right';
      pen.fillStyle = color('--faint');
      for (const level of levels(most)) pen.fillText(level ? bytes(level) : '0', left - 6, Math.min(y(level), kHeight - 6));
    },
    tell: (/** @type {number} */ time) => {
      const i = pointAt(times, time);
      return `${duration(time)}: ${bytes(total[i])}: ` +
        categories.filter(category => category.bytes[i] > 0).map(category => `${words(category.name)} ${bytes(category.bytes[i])}`).join(', ');
    },
  };
  return el('section', {'aria-labelledby': 'over-step'}, el('h3', {id: 'over-step'}, `Memory of ${gpu.name} over ${what}`),
            el('ul.kinds', {}, categories.map(category => el('li', {}, el(`span.swatch.part${category.place % 12}`, {'aria-hidden': 'true'}), words(category.name)))),
            movable(view, `Memory over ${what}`, [timeChart(view, drawing, told)]), told,
            el('p.hint', {}, 'Live tensors; the allocator\'s cache, the context and what other phases keep come on top.'));
}
