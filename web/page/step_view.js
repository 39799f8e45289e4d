// One step, simulated: where its time goes, what it waits for, the timeline. From the JSON of `gpuplan simulate` and
// the trace that it writes.
import {bytes, count, percent, seconds, words} from './format.js';
import {el, styled} from './dom.js';
import {readTrace, timelinePart} from './timeline.js';

/** @typedef {any} Simulated docs/schemas/simulate.schema.json */

/** @param {string} label @param {string} value @param {string} [note] */
function figure(label, value, note = '') {
  return el('div.figure', {}, el('dt', {}, label), el('dd', {}, value, note && el('small', {}, note)));
}

/** @param {Simulated} answer */
function figuresPart(answer) {
  return el('dl.figures', {},
            figure('A step', seconds(answer.step_seconds), `${count(answer.tokens_per_second)} tokens/s`),
            figure('Of the peak rate', percent(answer.mfu), `${percent(answer.hfu)} with what is computed twice`),
            figure('Waits for communication', seconds(answer.exposed_communication_seconds), percent(answer.exposed_communication_seconds / answer.step_seconds)),
            figure('Waits for other stages', seconds(answer.bubble_seconds), percent(answer.bubble_seconds / answer.step_seconds)),
            figure('Waits for the host', seconds(answer.host_bound_seconds), percent(answer.host_bound_seconds / answer.step_seconds)),
            figure('Tensors at most', bytes(answer.peak_bytes), `${answer.num_events.toLocaleString('en-US')} events simulated`));
}

/** @param {Simulated} answer */
function criticalPart(answer) {
  return el('section', {'aria-labelledby': 'waits'}, el('h3', {id: 'waits'}, 'What the step waits for'),
            el('ul.shares', {}, answer.critical_path.map((/** @type {any} */ row) => el('li', {},
              el('div.row', {}, el('b', {}, row.what), el('span', {}, `${seconds(row.seconds)}, ${percent(row.share)}`)),
              styled(el('div.share', {'aria-hidden': 'true'}), {width: `${(100 * row.share).toFixed(2)}%`}),
              row.remedy && el('p.hint', {}, row.remedy)))));
}

/** @param {Simulated} answer */
function linksPart(answer) {
  const rows = answer.links.toSorted((/** @type {any} */ a, /** @type {any} */ b) => b.utilization - a.utilization).slice(0, 6);
  if (!rows.length) return null;
  return el('section', {'aria-labelledby': 'links'}, el('h3', {id: 'links'}, 'Busiest links'),
            el('div.wide', {tabindex: '0', role: 'region', 'aria-label': 'Busiest links'}, el('table', {}, el('thead', {}, el('tr', {}, el('th', {scope: 'col'}, 'Link'),
              el('th', {scope: 'col'}, 'In use'), el('th', {scope: 'col'}, 'Of its capacity'))),
              el('tbody', {}, rows.map((/** @type {any} */ row) => el('tr', {}, el('th', {scope: 'row'}, row.link),
                el('td', {}, percent(row.busy)), el('td', {}, percent(row.utilization))))))));
}

/** @param {Simulated} answer */
function streamsPart(answer) {
  const rows = answer.streams.slice(0, 16);
  return el('details', {}, el('summary', {}, `GPUs (${answer.streams.length})`),
            el('div.wide', {tabindex: '0', role: 'region', 'aria-label': 'GPUs'}, el('table', {}, el('thead', {}, el('tr', {}, ['GPU', 'computes', 'waits for communication', 'bubble', 'waits for the host', 'sends']
              .map(name => el('th', {scope: 'col'}, name)))),
              el('tbody', {}, rows.map((/** @type {any} */ row) => el('tr', {},
                el('th', {scope: 'row'}, row.name + (row.stands_for > 1 ? ` (stands for ${row.stands_for})` : '')),
                [row.compute_seconds, row.exposed_communication_seconds, row.bubble_seconds, row.host_bound_seconds]
                  .map(time => el('td', {}, seconds(time))),
                el('td', {}, bytes(row.sent_bytes))))))));
}

/** @param {Simulated} answer @param {string} trace @returns {Node[]} */
export function stepParts(answer, trace) {
  const title = `One step of ${answer.model.name} with ${words(answer.strategy)} on ${answer.num_gpus} GPU${answer.num_gpus === 1 ? '' : 's'}`;
  return [
    el(`section.verdict.${answer.fits ? 'good' : 'bad'}`, {'aria-labelledby': 'verdict'}, el('h2', {id: 'verdict'}, title),
       !answer.fits && el('p', {}, answer.does_not_fit_because ?? 'It does not fit.'), figuresPart(answer)),
    trace ? timelinePart(readTrace(trace), answer.step_seconds) : null,
    criticalPart(answer), linksPart(answer), streamsPart(answer),
  ].filter(part => part !== null);
}
