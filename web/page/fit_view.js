// Does it fit: the verdict, a card per strategy, the memory by category, what would be better. All of it from the JSON
// of `gpuplan estimate`.
import {bytes, chance, count, dollars, gib, heldBytes, percent, seconds, secondsRange, words} from './format.js';
import {el, figure, styled} from './dom.js';
import {phasesPart} from './phases.js';

/** Rows of docs/schemas/estimate.schema.json, as far as the page reads them. @typedef {any} Row @typedef {any} Estimate */

/** @type {Record<string, {word: string, sign: string, kind: string}>} */
const kVerdicts = {
  yes: {word: 'fits', sign: '✓', kind: 'good'},
  tight: {word: 'is tight', sign: '≈', kind: 'tight'},
  'if-host': {word: 'fits if the host has the memory', sign: '≈', kind: 'tight'},
  unlikely: {word: 'is unlikely to fit', sign: '✗', kind: 'bad'},
  no: {word: 'does not fit', sign: '✗', kind: 'bad'},
};

/** @param {Row} row */
function verdictOf(row) {
  return kVerdicts[row.fits] ?? {word: row.fits, sign: '·', kind: 'tight'};
}

/** @param {Row} row @returns {number} */
function held(row) {
  return heldBytes(row, row.fits !== 'no' && row.fits !== 'unlikely');
}

/** The strategy that the page speaks of: the chosen one, the recommended one, the nearest to fitting. @param {Estimate} answer @param {string} chosen @returns {Row | undefined} */
export function shownRow(answer, chosen) {
  const rows = answer.strategies.filter((/** @type {Row} */ row) => !row.not_applicable);
  return rows.find((/** @type {Row} */ row) => row.name === chosen) ??
    rows.find((/** @type {Row} */ row) => row.name === answer.recommended?.strategy) ??
    rows.toSorted((/** @type {Row} */ a, /** @type {Row} */ b) => b.probability - a.probability || a.process_bytes - b.process_bytes)[0];
}

/** @param {Estimate} answer @param {Row} row @returns {string} */
export function verdictSentence(answer, row) {
  const verdict = verdictOf(row), gpus = row.num_gpus === 1 ? 'one GPU' : `${row.num_gpus} GPUs`;
  const method = row.name === 'single' ? '' : ` with ${row.name}`;
  return `${answer.model.name} on ${gpus}${method} ${verdict.word}: its memory suffices with a probability of ${chance(row.probability)}`;
}

/** Takes flags into the question; null on a page without the program. @typedef {((flags: string) => void) | null} Apply */

/** Settings that nobody gave: without them the verdict would be another one. @param {Estimate} answer @param {Apply} apply */
function chosenPart(answer, apply) {
  const flags = answer.chosen?.flags ?? [];
  if (!flags.length) return null;
  return el('p.chosen-flags', {}, 'With what the program chose: ', el('code', {}, flags.join(' ')), ' ',
            apply && el('button', {type: 'button', onclick: () => apply(flags.join(' '))}, 'Keep it'));
}

/** @param {string} text */
function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** @param {Estimate} answer @param {Row} row @param {Apply} [apply] */
export function verdictPart(answer, row, apply = null) {
  const verdict = verdictOf(row);
  const figures = [figure('Memory of a GPU', `${gib(held(row))} GiB (${gib(row.peak_bytes_low)}–${gib(row.peak_bytes_high)})`,
                          `of ${gib(row.usable_bytes)} GiB that can be used`)];
  if (row.step_seconds) {
    const low = row.step_seconds_low / row.step_seconds, high = row.step_seconds_high / row.step_seconds;
    figures.push(figure('A step', secondsRange(row.step_seconds, row.step_seconds_low, row.step_seconds_high),
                        `${count(row.tokens_per_second)} tokens/s`));
    if (row.total_seconds)
      figures.push(figure('Training', secondsRange(row.total_seconds, row.total_seconds * low, row.total_seconds * high),
                          `${count(row.steps_per_epoch)} steps an epoch`));
    if (row.cost_usd)
      figures.push(figure('Cost', `${dollars(row.cost_usd)} (${dollars(row.cost_usd * low)}–${dollars(row.cost_usd * high)})`));
  }
  return el(`section.verdict.${verdict.kind}`, {'aria-labelledby': 'verdict'},
            el('h2', {id: 'verdict'}, el('span.sign', {'aria-hidden': 'true'}, verdict.sign), verdictSentence(answer, row)),
            el('p', {}, sentence(row.does_not_fit_because ?? answer.recommended?.reason ?? '')), chosenPart(answer, apply),
            el('dl.figures', {}, figures));
}

/** The range of a process against what can be used and what the card has. @param {Row} row */
function memoryBar(row) {
  const all = Math.max(row.capacity_bytes, row.peak_bytes_high ?? 0, row.process_bytes) * 1.02;
  const share = (/** @type {number} */ value) => `${(100 * value / all).toFixed(2)}%`;
  const low = row.peak_bytes_low ?? row.process_bytes, high = row.peak_bytes_high ?? row.process_bytes;
  return el('div.memory-bar', {'aria-hidden': 'true'},
            styled(el('span.process'), {width: share(held(row))}),
            styled(el('span.range'), {left: share(low), width: share(high - low)}),
            styled(el('span.usable'), {left: share(row.usable_bytes)}));
}

/** @param {Row} row @param {boolean} isShown @param {boolean} isBest @param {(name: string) => void} choose */
function strategyCard(row, isShown, isBest, choose) {
  if (row.not_applicable)
    return el('li.card.off', {}, el('h4', {}, row.name), el('p', {}, row.not_applicable));
  const verdict = verdictOf(row);
  return el(`li.card.${verdict.kind}${isShown ? '.shown' : ''}`, {},
            el('h4', {}, el('button', {type: 'button', 'aria-pressed': String(isShown), onclick: () => choose(row.name)},
                            row.name, isBest && el('span.best', {}, '★ recommended'))),
            el('p.state', {}, el('span.sign', {'aria-hidden': 'true'}, verdict.sign), ` ${verdict.word}, ${chance(row.probability)}`),
            memoryBar(row),
            el('p', {}, `${gib(held(row))} GiB (${gib(row.peak_bytes_low)}–${gib(row.peak_bytes_high)}) of ${gib(row.usable_bytes)}`),
            row.step_seconds && el('p', {}, secondsRange(row.step_seconds, row.step_seconds_low, row.step_seconds_high) +
                                   ` a step, ${count(row.tokens_per_second)} tokens/s`));
}

/** The recommended one first, then those that fit, the faster ones before the others. @param {Estimate} answer @returns {Row[]} */
function sortedRows(answer) {
  const order = (/** @type {Row} */ row) => row.name === answer.recommended?.strategy ? 0 : row.fits === 'yes' ? 1 : row.fits === 'no' ? 3 : 2;
  return answer.strategies.filter((/** @type {Row} */ row) => !row.not_applicable).toSorted((/** @type {Row} */ a, /** @type {Row} */ b) =>
    order(a) - order(b) || (b.tokens_per_second ?? 0) - (a.tokens_per_second ?? 0));
}

/** @param {Estimate} answer @param {Row} shown @param {(name: string) => void} choose */
export function strategiesPart(answer, shown, choose) {
  const rows = sortedRows(answer);
  const others = answer.strategies.filter((/** @type {Row} */ row) => row.not_applicable);
  return el('section', {'aria-labelledby': 'strategies'}, el('h3', {id: 'strategies'}, 'Strategies'),
            el('p.hint', {}, 'The bar is the process on the fullest GPU, the band its range, the line what can be used of the card.'),
            el('ul.cards', {}, rows.map((/** @type {Row} */ row) =>
              strategyCard(row, row === shown, row.name === answer.recommended?.strategy, choose))),
            others.length > 0 && el('details', {}, el('summary', {}, `${others.length} that do not apply`),
                                    el('ul.cards', {}, others.map((/** @type {Row} */ row) => strategyCard(row, false, false, choose)))));
}

/** @param {Row} row */
export function memoryPart(row) {
  const parts = Object.entries(row.memory_bytes).map(([name, size], i) => ({name, size, swatch: `part${i % 12}`})).filter(({size}) => size > 0);
  const total = parts.reduce((sum, {size}) => sum + size, 0);
  const stack = el('div.stack', {'aria-hidden': 'true'}, parts.map(({size, swatch}) =>
    styled(el(`span.${swatch}`), {width: `${(100 * size / total).toFixed(3)}%`})));
  return el('section', {'aria-labelledby': 'memory'}, el('h3', {id: 'memory'}, `Memory of a GPU with ${row.name}`),
            el('p.hint', {}, `At its fullest: ${row.peak_instant ?? 'training'}.`), stack,
            el('table.legend', {}, el('caption.unseen', {}, 'Memory by category'),
               el('tbody', {}, parts.map(({name, size, swatch}) => el('tr', {},
                 el('th', {scope: 'row'}, el(`span.swatch.${swatch}`, {'aria-hidden': 'true'}), words(name)),
                 el('td', {}, bytes(size)), el('td', {}, percent(size / total)))))),
            phasesPart(row.phases, row.usable_bytes));
}

/** @param {Estimate} answer @param {Row} shown @param {Apply} [apply] */
export function betterPart(answer, shown, apply = null) {
  const advice = answer.recommended?.advice ?? [];
  if (!answer.better?.length && !advice.length) return null;
  return el('section', {'aria-labelledby': 'better'}, el('h3', {id: 'better'}, 'What would be better'),
            el('ul.hints', {}, (answer.better ?? []).map((/** @type {any} */ hint) => el('li', {},
              apply && el('button', {type: 'button', onclick: () => apply(hint.flags)}, 'Apply'),
              el('span', {}, el('code', {}, hint.flags), ` ${hint.strategy}, ${verdictOf(hint).word} (${chance(hint.probability)}), ` +
                `${gib(hint.process_bytes)} GiB, ${count(hint.tokens_per_second)} tokens/s` +
                (hint.cost_usd ? `, ${dollars(hint.cost_usd)}` : '')))),
              advice.map((/** @type {string} */ line) => el('li.advice', {}, line))));
}

/** @param {Estimate} answer */
export function assumptionsPart(answer) {
  return el('details', {}, el('summary', {}, 'Assumptions'),
            el('ul', {}, answer.assumptions.map((/** @type {string} */ line) => el('li', {}, line))));
}
