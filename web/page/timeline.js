// The timeline of a simulated step: what every stream of every GPU does when, the critical path, messages.
import {describe, firstAfter, kIsCritical, kWaitsFirst, nameOfSpan, spanAt} from './step_data.js';
import {el, put, styled} from './dom.js';
import {isDark, movable, timeChart, zoomButtons} from './time_chart.js';

/** @typedef {import('./step_data.js').Step} Step @typedef {import('./step_data.js').Span} Span @typedef {import('./step_data.js').Track} Track */
/** @typedef {import('./time_chart.js').View} View @typedef {import('./time_chart.js').Pen} Pen */

const kLane = 20, kGap = 2, kTitle = 22, kMostMessages = 400, kFewGpus = 4;

/** @typedef {{title: string, track: Track | null, y: number}} Row */

/** @param {Step} step @param {number} numGpus @returns {{rows: Row[], height: number}} */
function rowsOf(step, numGpus) {
  /** @type {Row[]} */
  const rows = [];
  let y = 0, last = -1;
  for (const track of step.tracks) {
    if (track.gpu >= numGpus || !track.spans.length) continue;
    if (track.gpu !== last) {
      rows.push({title: step.gpus[track.gpu].name, track: null, y});
      y += kTitle;
      last = track.gpu;
    }
    rows.push({title: track.name, track, y});
    y += kLane + kGap;
  }
  return {rows, height: y};
}

/** @param {Step} step @returns {string[]} a colour for every activity */
export function activityColors(step) {
  const dark = isDark();
  return step.activities.map(activity => dark ? activity.dark : activity.light);
}

/** The activities of these tracks with their colours. @param {Step} step @param {readonly Span[]} spans */
export function activityLegend(step, spans) {
  const used = new Set(spans.map(span => span.activity)), colors = activityColors(step);
  return el('ul.kinds', {}, [...used].sort((a, b) => a - b).map(activity => el('li', {},
    styled(el('span.swatch', {'aria-hidden': 'true'}), {background: colors[activity]}), step.activities[activity].name)));
}

/** @param {Pen} given @param {Step} step @param {View} view @param {Row} row @param {string[]} colors @param {boolean} onlyCritical */
function drawRow({pen, left, inner, x, color}, step, view, row, colors, onlyCritical) {
  const spans = /** @type {Track} */ (row.track).spans, dark = isDark();
  let lastX = -1, lastActivity = -1;
  for (let i = firstAfter(spans, view.begin); i < spans.length && spans[i].begin < view.end; ++i) {
    const span = spans[i], from = Math.max(left, x(span.begin)), to = Math.min(left + inner, x(span.end)), width = Math.max(0.6, to - from);
    if (to < lastX + 0.5 && span.activity === lastActivity) continue;
    const strength = onlyCritical && !(span.flags & kIsCritical) ? 0.22 : 1, shown = width > 4 ? width - 0.6 : width;
    pen.fillStyle = colors[span.activity];
    const waits = span.waiting > 0 && span.count === 1;
    pen.globalAlpha = (waits ? 0.25 : 1) * strength;
    pen.fillRect(from, row.y, shown, kLane);
    pen.globalAlpha = strength;
    if (waits) {  // pale while it waits
      const begin = span.flags & kWaitsFirst ? span.begin + span.waiting : span.begin, end = span.flags & kWaitsFirst ? span.end : span.end - span.waiting;
      const first = Math.max(left, x(begin)), last = Math.min(left + inner, x(end));
      if (last > first) pen.fillRect(first, row.y, Math.max(0.6, last - first), kLane);
    }
    const text = width > 110 ? nameOfSpan(step, span) : width > 46 ? nameOfSpan(step, span).split(' ').slice(-2).join(' ') : '';
    if (text && pen.measureText(text).width < width - 8) {
      pen.fillStyle = span.waiting > 0.4 * (span.end - span.begin) ? color('--text') : dark ? '#10141a' : '#ffffff';
      pen.textAlign = 'left';
      pen.fillText(text, from + 4, row.y + kLane / 2 + 0.5);
    }
    lastX = to;
    lastActivity = span.activity;
  }
  pen.globalAlpha = 1;
}

/** Curves from senders to receivers, where few are in view. @param {Pen} given @param {Step} step @param {View} view @param {Map<Track, number>} places */
function drawMessages({pen, left, inner, bottom, x, color}, step, view, places) {
  /** @type {[Span, Span][]} */
  const seen = [];
  for (let i = 0; i < step.messages.length; i += 2) {
    const from = step.spans[step.messages[i]], to = step.spans[step.messages[i + 1]];
    if (to.end >= view.begin && from.begin <= view.end && places.has(from.track) && places.has(to.track)) seen.push([from, to]);
  }
  if (seen.length > kMostMessages) return;
  pen.save();
  pen.beginPath();
  pen.rect(left, 0, inner, bottom);
  pen.clip();
  pen.strokeStyle = color('--faint');
  for (const [from, to] of seen) {
    const a = places.get(from.track) ?? 0, b = places.get(to.track) ?? 0, isDown = b > a;
    const x1 = x(from.end), x2 = x(to.end), y1 = a + (isDown ? kLane : 0), y2 = b + (isDown ? 0 : kLane), bend = (y2 - y1) / 2;
    pen.beginPath();
    pen.moveTo(x1, y1);
    pen.bezierCurveTo(x1, y1 + bend, x2, y2 - bend, x2, y2);
    pen.stroke();
  }
  pen.restore();
}

/** @param {Pen} given @param {Row} row @param {boolean} isWide */
function drawTitle({pen, left, color}, row, isWide) {
  pen.textAlign = 'left';
  pen.fillStyle = color(row.track ? '--faint' : '--text');
  pen.font = `${row.track ? '' : '600 '}12px system-ui, sans-serif`;
  const busy = row.track && isWide ? ` ${Math.round(100 * row.track.busy)} %` : '';
  pen.fillText(row.title + busy, 0, row.y + (row.track ? kLane : kTitle) / 2, row.track ? left - 6 : undefined);
}

/** @param {Step} step @param {View} view @param {string} what of the step is drawn @param {string} thinned what was left out @returns {HTMLElement} */
export function timelinePart(step, view, what, thinned) {
  const told = el('p.told', {}, 'Point at a span; arrows move, + and − zoom, 0 shows all.');
  const shows = {gpus: Math.min(kFewGpus, step.gpus.length), critical: false, messages: true};
  let {rows, height} = rowsOf(step, shows.gpus);
  const drawing = {
    label: 'What every stream of every GPU does when; the tables of this page have the sums',
    height: () => height,
    draw: (/** @type {Pen} */ given) => {
      const colors = activityColors(step), places = new Map(rows.flatMap(row => row.track ? [[row.track, row.y]] : []));
      for (const row of rows) {
        drawTitle(given, row, given.left > 100);
        if (row.track) drawRow(given, step, view, row, colors, shows.critical);
      }
      if (shows.messages) drawMessages(given, step, view, places);
    },
    tell: (/** @type {number} */ time, /** @type {number} */ y, /** @type {number} */ reach) => {
      const row = rows.find(one => one.track && y >= one.y && y < one.y + kLane + kGap);
      const span = row?.track && spanAt(row.track.spans, time, reach);
      return span ? describe(step, span) : '';
    },
  };
  const choice = (/** @type {'critical' | 'messages'} */ key, /** @type {string} */ label) => el('label.check', {}, el('input', {
    type: 'checkbox', checked: shows[key], onchange: (/** @type {any} */ event) => {
      shows[key] = event.target.checked;
      view.redraw();
    }}), label);
  const more = el('span');
  if (step.gpus.length > shows.gpus)
    put(more, el('button.small', {type: 'button', onclick: () => {
      shows.gpus = step.gpus.length;
      ({rows, height} = rowsOf(step, shows.gpus));
      put(more);
      view.redraw();
    }}, `All ${step.gpus.length} GPUs`));
  return el('section', {'aria-labelledby': 'timeline'}, el('h3', {id: 'timeline'}, `Timeline of ${what}`), activityLegend(step, step.spans),
            zoomButtons(view, choice('critical', 'Critical path'), ...(step.messages.length > 0 ? [choice('messages', 'Messages')] : []), more),
            movable(view, `Timeline of ${what}`, [timeChart(view, drawing, told)]), told, thinned && el('p.hint', {}, thinned));
}
