// The page of --html: one answer, which the program put into the page, shown without the program.
import {assumptionsPart, betterPart, memoryPart, shownRow, strategiesPart, verdictPart} from './fit_view.js';
import {byId, copy, el, put} from './dom.js';
import {diagnosisParts} from './diagnosis_view.js';
import {planParts} from './plan_view.js';
import {stepParts} from './step_view.js';

/** @param {any} data @param {string} chosen strategy @returns {(Node | null)[]} */
function estimateParts(data, chosen) {
  const {answer} = data, row = shownRow(answer, chosen);
  if (!row) return [el('section.verdict.bad', {}, el('h2', {}, 'No strategy applies to these GPUs'))];
  return [verdictPart(answer, row), betterPart(answer, row), strategiesPart(answer, row, name => show(data, name)), memoryPart(row), assumptionsPart(answer)];
}

/** @type {Record<string, (data: any, chosen: string) => (Node | null)[]>} */
const kParts = {estimate: estimateParts, simulate: stepParts, diagnose: diagnosisParts,
                plan: data => planParts(data.answer, command => copy(command, 'The command'))};

/** @param {any} data @param {string} [chosen] */
function show(data, chosen = '') {
  put(byId('results'), kParts[data.kind](data, chosen),
      data.command && el('section.copies', {'aria-label': 'The question'}, el('pre.command', {tabindex: '0'}, data.command)));
  document.documentElement.dataset.ready = data.kind;
}

document.documentElement.className = 'offline';
byId('where').textContent = 'An answer of the program, kept in this file. Nothing is fetched.';
show(JSON.parse(byId('data').textContent ?? ''));
