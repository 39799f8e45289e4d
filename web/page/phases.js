// The phases of a step of a method that compares answers or writes them: when each runs, where, and what the fullest GPU holds then.
// From the JSON of `gpuplan estimate` and `gpuplan simulate`.
import {bytes, percent, seconds} from './format.js';
import {el, styled, tablePart} from './dom.js';

/** @typedef {any} Phase docs/schemas/estimate.schema.json */

/** @param {Phase} phase @returns {number} */
function endOf(phase) {
  return phase.begin_seconds + phase.seconds;
}

/** The colour of a kind of phase. @type {Record<string, string>} */
const kSwatches = {'generation': 'part2', 'rewards': 'part7', 'old-log-probs': 'part1', 'other-pass': 'part1', 'training': 'part0',
                   'weight-sync': 'part5', 'switch': 'part4', 'rest': 'part11'};

/** @param {string} name @param {Phase[]} phases @param {number} step */
function lane(name, phases, step) {
  return el('div.phase-lane', {}, el('span', {}, name), el('div', {}, phases.map(phase =>
    styled(el(`span.${kSwatches[phase.kind] ?? 'part9'}`, {title: `${phase.name}, ${seconds(phase.seconds)}`}),
           {left: `${(100 * phase.begin_seconds / step).toFixed(3)}%`, width: `${(100 * phase.seconds / step).toFixed(3)}%`}))));
}

/** What the fullest GPU holds: between two borders of phases the one that holds most. @param {Phase[]} phases @param {number} step @param {number} usable */
function memoryLane(phases, step, usable) {
  const borders = [...new Set(phases.flatMap(phase => [phase.begin_seconds, endOf(phase)]))].sort((a, b) => a - b);
  const most = 1.06 * Math.max(usable, ...phases.map(phase => phase.tensors_bytes));
  const bars = borders.slice(1).map((end, i) => {
    const begin = borders[i], size = Math.max(0, ...phases.filter(phase => phase.begin_seconds < end && endOf(phase) > begin).map(phase => phase.tensors_bytes));
    return styled(el('span.part3', {title: bytes(size)}),
                  {left: `${(100 * begin / step).toFixed(3)}%`, width: `${(100 * (end - begin) / step).toFixed(3)}%`, height: `${(100 * size / most).toFixed(2)}%`});
  });
  return el('div.phase-lane.memory', {}, el('span', {}, 'memory'), el('div', {}, bars, styled(el('span.usable'), {bottom: `${(100 * usable / most).toFixed(2)}%`})));
}

/** @param {Phase[]} phases @param {number} usable bytes of a GPU */
function picture(phases, usable) {
  const drawn = phases.filter(phase => !phase.is_before_training && phase.seconds > 0).sort((a, b) => a.begin_seconds - b.begin_seconds), step = Math.max(...drawn.map(endOf));
  if (drawn.length < 2) return null;
  const engine = drawn.filter(phase => phase.runs_on_engine), writes = engine.some(phase => !phase.runs_on_trainers);
  const kinds = [...new Map(drawn.filter(phase => phase.runs_on_trainers || phase.runs_on_engine).map(phase => [kSwatches[phase.kind], phase])).values()];
  return [el('p.hint', {}, `A step of ${seconds(step)}, its micro-batches taken together. The line over the memory is what can be used of the card.`),
          el('div.phases', {'aria-hidden': 'true'}, lane('training', drawn.filter(phase => phase.runs_on_trainers), step), writes && lane('engine', engine, step),
             memoryLane(drawn, step, usable)),
          el('ul.kinds', {}, kinds.map(phase => el('li', {}, el(`span.swatch.${kSwatches[phase.kind] ?? 'part9'}`, {'aria-hidden': 'true'}), phase.kind.replaceAll('-', ' '))))];
}

/** Nothing where training is the only phase. @param {Phase[] | undefined} phases @param {number} usable bytes of a GPU */
export function phasesPart(phases, usable) {
  if (!phases?.length) return null;
  const step = Math.max(...phases.filter(phase => !phase.is_before_training).map(endOf));
  return el('section', {'aria-labelledby': 'phases'}, el('h3', {id: 'phases'}, 'Phases of a step'), picture(phases, usable),
            tablePart('', ['phase', 'time', 'of the step', 'its own model', 'alive at most'], phases.map(phase =>
              [phase.name, seconds(phase.seconds), phase.is_before_training ? 'once, before training' : percent(phase.seconds / step),
               phase.resident_bytes ? bytes(phase.resident_bytes) : '–', phase.tensors_bytes ? bytes(phase.tensors_bytes) : '–']), 'Phases of a step'));
}
