// The schedule of a pipeline: which micro-batch each stage works on when, and where it waits for other stages.
import {duration, firstAfter} from './step_data.js';
import {activityColors} from './timeline.js';
import {el, styled} from './dom.js';
import {isDark, movable, timeChart} from './time_chart.js';

/** @typedef {import('./step_data.js').Step} Step @typedef {import('./step_data.js').Track} Track */
/** @typedef {import('./time_chart.js').View} View @typedef {import('./time_chart.js').Pen} Pen */
/** @typedef {{begin: number, end: number, activity: number, micro: number, isOfMicroBatch: boolean}} Box */

const kLane = 30, kGap = 4, kLeast = 1 / 400;

/** The first GPU of each stage, where there are several. @param {Step} step @returns {{stage: number, track: Track}[]} */
function stagesOf(step) {
  const stages = new Map();
  for (const track of step.tracks) {
    const {stage} = step.gpus[track.gpu];
    if (track.name === 'compute' && !stages.has(stage)) stages.set(stage, {stage, track});
  }
  return stages.size > 1 ? [...stages.values()].sort((a, b) => a.stage - b.stage) : [];
}

const kOfMicroBatch = new Set(['forward', 'backward']), kPasses = new Set([...kOfMicroBatch, 'optimizer']);

/**
 * The pass that a span is of: what is computed again belongs to backward, the head and what other GPUs of the stage are sent to
 * the pass around it.
 * @param {Step} step @param {number} activity @returns {number} -1: the one before
 */
function passOf(step, activity) {
  const {name} = step.activities[activity];
  if (name === 'recompute') return step.activities.findIndex(one => one.name === 'backward');
  return kPasses.has(name) ? activity : -1;
}

/** Spans of one pass over one micro-batch as one box. @param {Step} step @param {Track} track @returns {Box[]} */
export function boxesOf(step, track) {
  /** @type {Box[]} */
  const boxes = [];
  for (const span of track.spans) {
    const last = boxes.at(-1), pass = passOf(step, span.activity);
    const isNear = last && span.begin - last.end <= step.length * kLeast;
    if (last && isNear && (pass < 0 || (last.activity === pass && last.micro === span.micro))) last.end = span.end;
    else boxes.push({begin: span.begin, end: span.end, activity: pass < 0 ? span.activity : pass, micro: span.micro, isOfMicroBatch: kOfMicroBatch.has(step.activities[pass]?.name)});
  }
  return boxes;
}

/** @param {Pen} given @param {number} begin @param {number} end @param {number} y */
function drawBubble({pen, x, color}, begin, end, y) {
  const from = x(begin), to = x(end);
  if (to - from < 1) return;
  pen.save();
  pen.beginPath();
  pen.rect(from, y, to - from, kLane);
  pen.clip();
  pen.strokeStyle = color('--faint');
  pen.globalAlpha = 0.45;
  for (let at = from - kLane; at < to; at += 7) {
    pen.beginPath();
    pen.moveTo(at, y + kLane);
    pen.lineTo(at + kLane, y);
    pen.stroke();
  }
  pen.restore();
}

/** @param {Pen} given @param {View} view @param {Box[]} boxes @param {number} y @param {string[]} colors @param {number} length */
function drawStage(given, view, boxes, y, colors, length) {
  const {pen, left, inner, x} = given;
  pen.save();
  pen.beginPath();
  pen.rect(left, 0, inner, given.bottom);
  pen.clip();
  let until = 0;
  for (const box of [...boxes, {begin: length, end: length, activity: 0, micro: 0, isOfMicroBatch: false}]) {
    if (box.begin - until > length * kLeast) drawBubble(given, until, box.begin, y);
    until = Math.max(until, box.end);
    const from = x(box.begin), width = x(box.end) - from;
    if (box.end <= view.begin || box.begin >= view.end || width <= 0) continue;
    pen.fillStyle = colors[box.activity];
    pen.fillRect(from, y, Math.max(0.6, width > 3 ? width - 1 : width), kLane);
    const text = String(box.micro);
    if (box.isOfMicroBatch && width > pen.measureText(text).width + 6) {
      pen.fillStyle = isDark() ? '#10141a' : '#ffffff';
      pen.textAlign = 'center';
      pen.fillText(text, Math.max(from, left) + (Math.min(from + width, left + inner) - Math.max(from, left)) / 2, y + kLane / 2 + 0.5);
    }
  }
  pen.restore();
}

/** @param {Step} step @param {View} view @param {number} bubble seconds of it, mean over GPUs @returns {HTMLElement | null} */
export function pipelinePart(step, view, bubble) {
  const stages = stagesOf(step).map(({stage, track}) => ({stage, track, boxes: boxesOf(step, track)}));
  if (!stages.length) return null;
  const told = el('p.told', {}, 'Numbers are micro-batches; hatched: the stage waits.');
  const used = [...new Set(stages.flatMap(({boxes}) => boxes.map(box => box.activity)))].sort((a, b) => a - b);
  const colors = () => activityColors(step);
  const drawing = {
    label: `Which micro-batch each of ${stages.length} stages works on when; they wait ${duration(1e9 * bubble)} on average`,
    height: () => stages.length * (kLane + kGap),
    draw: (/** @type {Pen} */ given) => {
      const all = colors();
      stages.forEach(({stage, boxes}, i) => {
        const y = i * (kLane + kGap);
        given.pen.textAlign = 'left';
        given.pen.fillStyle = given.color('--text');
        given.pen.fillText(`stage ${stage}`, 0, y + kLane / 2);
        drawStage(given, view, boxes, y, all, step.length);
      });
    },
    tell: (/** @type {number} */ time, /** @type {number} */ y) => {
      const row = stages[Math.floor(y / (kLane + kGap))];
      if (!row) return '';
      const box = row.boxes.find(one => one.begin <= time && time < one.end);
      if (box) return `Stage ${row.stage}: ${step.activities[box.activity].name}${box.isOfMicroBatch ? ` of micro-batch ${box.micro}` : ''}, ${duration(box.end - box.begin)} from ${duration(box.begin)} on`;
      const next = row.track.spans[firstAfter(row.track.spans, time)];
      return `Stage ${row.stage} waits${next ? ` until ${duration(next.begin)}` : ''}`;
    },
  };
  return el('section', {'aria-labelledby': 'schedule'}, el('h3', {id: 'schedule'}, 'Schedule of the pipeline'),
            el('ul.kinds', {}, used.map(activity => el('li', {}, styled(el('span.swatch', {'aria-hidden': 'true'}), {background: colors()[activity]}), step.activities[activity].name)),
               el('li', {}, el('span.swatch.hatched', {'aria-hidden': 'true'}), 'bubble')),
            movable(view, 'Schedule of the pipeline', [timeChart(view, drawing, told)]), told);
}
