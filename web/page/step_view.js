// One step, simulated: where its time goes, what it waits for, timeline, schedule, memory, the machine. From what the program
// writes into a page (report/html/reports.cpp).
import {bytes, count, dollars, heldBytes, percent, seconds, words} from './format.js';
import {definitions, el, figure, styled, tablePart} from './dom.js';
import {memoryChart} from './memory_chart.js';
import {phasesPart} from './phases.js';
import {pipelinePart} from './pipeline.js';
import {readStep} from './step_data.js';
import {View} from './time_chart.js';
import {timelinePart} from './timeline.js';
import {topologyPart} from './topology.js';

/** @typedef {any} Simulated docs/schemas/simulate.schema.json */

/** @param {Simulated} answer */
function figuresPart(answer) {
  const share = (/** @type {number} */ part) => percent(part / answer.step_seconds);
  return el('dl.figures', {},
            figure('A step', seconds(answer.step_seconds), `${count(answer.tokens_per_second)} tokens/s`),
            figure('Of the peak rate', percent(answer.mfu), `${percent(answer.hfu)} with what is computed twice`),
            figure('Waits for communication', seconds(answer.exposed_communication_seconds), share(answer.exposed_communication_seconds)),
            figure('Waits for other stages', seconds(answer.bubble_seconds), share(answer.bubble_seconds)),
            figure('Waits for the host', seconds(answer.host_bound_seconds), share(answer.host_bound_seconds)),
            figure('Memory of a GPU', bytes(heldBytes(answer, answer.fits)), `of ${bytes(answer.usable_bytes)} that can be used`));
}

/** A list of shares of the step with a bar each. @param {string} id @param {string} title @param {any[]} rows @param {(row: any) => string} name @param {(row: any) => string | null} note */
function sharesPart(id, title, rows, name, note) {
  if (!rows?.length) return null;
  return el('section', {'aria-labelledby': id}, el('h3', {id}, title),
            el('ul.shares', {}, rows.map(row => el('li', {},
              el('div.row', {}, el('b', {}, name(row)), el('span', {}, `${seconds(row.seconds)}, ${percent(row.share)}`)),
              styled(el('div.share', {'aria-hidden': 'true'}), {width: `${(100 * row.share).toFixed(2)}%`}),
              note(row) && el('p.hint', {}, note(row))))));
}

/** @param {Simulated} answer */
function linksPart(answer) {
  return tablePart('Busiest links', ['Link', 'In use', 'Of its capacity'],
                   answer.links.slice(0, 8).map((/** @type {any} */ row) => [row.link, percent(row.busy), percent(row.utilization)]));
}

/** @param {Simulated} answer */
function streamsPart(answer) {
  const rows = answer.streams.slice(0, 64).map((/** @type {any} */ row) => [
    row.name + (row.stands_for > 1 ? ` (stands for ${row.stands_for})` : ''),
    ...[row.compute_seconds, row.exposed_communication_seconds, row.bubble_seconds, row.host_bound_seconds].map(seconds), bytes(row.sent_bytes)]);
  return el('details', {}, el('summary', {}, `GPUs (${answer.streams.length})`),
            tablePart('', ['GPU', 'computes', 'waits for communication', 'bubble', 'waits for the host', 'sends'], rows, 'GPUs'));
}

/** @param {string} title @param {any[]} plans @param {string} first what the first column says @param {(plan: any) => string} name @param {(plan: any) => string[]} more */
function plansPart(title, plans, first, name, more) {
  return tablePart(title, [first, 'fits', 'memory', 'a step', 'tokens/s', 'MFU', 'cost'], plans.map(plan => plan.not_applicable
    ? [name(plan), plan.not_applicable] : [name(plan), plan.fits ? 'yes' : 'no', bytes(heldBytes(plan, plan.fits)), seconds(plan.step_seconds), count(plan.tokens_per_second), percent(plan.mfu),
                                           plan.cost_usd ? dollars(plan.cost_usd) : '–', ...more(plan)]));
}

/** @param {any} data of a page: answer, timeline, topology and words @returns {Node[]} */
export function stepParts(data) {
  const {answer} = data, step = readStep(data.timeline), view = new View(step.length);
  const what = answer.phases?.length ? 'the pass with gradients' : 'the step';
  const title = `One step of ${answer.model.name} with ${words(answer.strategy)} on ${answer.num_gpus} GPU${answer.num_gpus === 1 ? '' : 's'}`;
  return [
    el(`section.verdict.${answer.fits ? 'good' : 'bad'}`, {'aria-labelledby': 'verdict'}, el('h2', {id: 'verdict'}, title),
       !answer.fits && el('p', {}, `It does not fit, and is simulated all the same: ${answer.does_not_fit_because ?? 'its memory does not suffice'}`), figuresPart(answer)),
    sharesPart('waits', 'What the step waits for', answer.critical_path, row => row.what, row => row.remedy),
    phasesPart(answer.phases, answer.usable_bytes),
    pipelinePart(step, view, answer.bubble_seconds),
    step.spans.length ? timelinePart(step, view, what, data.thinned) : null,
    memoryChart(step, view, what, answer.usable_bytes),
    sharesPart('goes', 'Where the step goes', data.shares, row => row.name, row => row.meaning),
    topologyPart(data.topology, answer.links), linksPart(answer), streamsPart(answer),
    plansPart('Compared', answer.comparison, 'strategy', plan => plan.label ?? plan.strategy, () => []),
    plansPart('Scaling', answer.scaling, 'GPUs', plan => `${plan.num_gpus} (${percent(plan.efficiency)} of one)`, () => []),
    el('details', {}, el('summary', {}, 'The question and its figures'), definitions(data.question), definitions(data.facts)),
    el('details', {}, el('summary', {}, 'How it was simulated, and what was assumed'), el('p', {}, data.method),
       el('ul', {}, answer.assumptions.map((/** @type {string} */ line) => el('li', {}, line)))),
  ].filter(part => part !== null);
}
