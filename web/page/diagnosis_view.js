// A measured step beside the predicted one, and what explains the gap. From what `gpuplan diagnose --html` writes.
import {chance} from './format.js';
import {el, tablePart} from './dom.js';

/** @param {any} data @returns {Node[]} */
export function diagnosisParts(data) {
  const {answer} = data, [first, ...rest] = data.lines;
  const causes = answer.explanations.map((/** @type {any} */ row, /** @type {number} */ i) => [row.says, chance(row.probability), data.predictions[i], row.check]);
  if (causes.length) causes.push(['none of these', chance(answer.unexplained), '', '']);
  return [el(`section.verdict.${answer.is_inside ? 'good' : 'tight'}`, {'aria-labelledby': 'verdict'}, el('h2', {id: 'verdict'}, first),
             rest.map((/** @type {string} */ line) => el('p', {}, line))),
          data.no_explanation ? el('p', {}, data.no_explanation)
            : tablePart('What explains it', ['what it may be', 'how likely', 'predicted with it', 'how to see it'], causes, '', 'prose'),
          data.parts.length ? tablePart('Parts of the step', data.parts[0], data.parts.slice(1)) : null,
          el('section', {}, el('h3', {}, 'Read as'), el('ul', {}, data.notes.map((/** @type {string} */ line) => el('li', {}, line))))]
    .filter(part => part !== null);
}
