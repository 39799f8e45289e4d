// A simulated step as the program writes it into a page (report/html/timeline_data.h): spans, streams, memory. Times in ns.
import {bytes, seconds} from './format.js';

/**
 * @typedef {{begin: number, end: number, activity: number, unit: number, micro: number, flags: number, count: number, bytes: number, waiting: number, cause: number, track: Track}} Span
 * @typedef {{name: string, gpu: number, busy: number, spans: Span[]}} Track
 * @typedef {{name: string, place: number, bytes: number[]}} Category
 * @typedef {{name: string, stage: number, peak: number, memory: number[], by_category?: Category[]}} Gpu the fullest has its categories
 * @typedef {{name: string, light: string, dark: string}} Activity
 * @typedef {{length: number, layers: number, activities: Activity[], gpus: Gpu[], tracks: Track[], spans: Span[], messages: number[]}} Step
 */

export const kIsCritical = 1, kWaitedForHost = 2, kWaitsFirst = 4;

/** @param {any} read @returns {Step} */
export function readStep(read) {
  /** @type {Span[]} */
  const spans = [];
  const tracks = read.tracks.map((/** @type {any} */ row) => {
    /** @type {Track} */
    const track = {name: row.name, gpu: row.rank, busy: row.busy, spans: []};
    for (let i = 0, at = 0; i < row.spans.length; i += read.fields) {
      const [gap, length, activity, unit, micro, flags, count, size, waiting, cause] = row.spans.slice(i, i + read.fields);
      track.spans.push({begin: at + gap, end: at + gap + length, activity, unit, micro, flags, count, bytes: size, waiting, cause, track});
      at += gap + length;
    }
    spans.push(...track.spans);
    return track;
  });
  return {length: read.step, layers: read.layers, activities: read.activities, gpus: read.ranks, tracks, spans, messages: read.messages};
}

/** @param {number} ns @returns {string} */
export function duration(ns) {
  return seconds(ns * 1e-9);
}

/** @param {Step} step @param {Span} span @returns {string} "forward layer 3" */
export function nameOfSpan(step, span) {
  const activity = step.activities[span.activity].name;
  if (activity.startsWith('head')) return activity;
  return `${activity} ${span.unit === 0 ? 'embedding' : span.unit > step.layers ? 'head' : `layer ${span.unit - 1}`}`;
}

/** @param {Step} step @param {Span} span @returns {string} */
export function describe(step, span) {
  const cause = span.cause >= 0 ? step.spans[span.cause] : null;
  return [`${step.gpus[span.track.gpu].name}, ${span.track.name}: ${span.count > 1 ? `${span.count} × ` : ''}${nameOfSpan(step, span)}`,
          `micro-batch ${span.micro}`, `${duration(span.end - span.begin)} from ${duration(span.begin)} on`,
          span.waiting > 0 && `waits ${duration(span.waiting)} of it`, span.bytes > 0 && bytes(span.bytes),
          span.flags & kWaitedForHost ? 'began when the host had launched it'
            : cause && cause !== span && `began after ${nameOfSpan(step, cause)} of ${step.gpus[cause.track.gpu].name} (${cause.track.name})`,
          span.flags & kIsCritical ? 'on the critical path' : ''].filter(Boolean).join(', ');
}

/** The first span that ends after a time; all before it end earlier. @param {readonly Span[]} spans @param {number} time */
export function firstAfter(spans, time) {
  let low = 0, high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].end <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The span at a time, or near it. @param {readonly Span[]} spans @param {number} time @param {number} reach */
export function spanAt(spans, time, reach) {
  /** @type {Span | null} */
  let found = null;
  for (let i = firstAfter(spans, time - reach); i < spans.length && spans[i].begin <= time + reach; ++i) found = spans[i];
  return found;
}
