// A trainer's own file: does it fit, and the smallest change that makes it fit, from `gpuplan fix`.
import {download, el} from './dom.js';

/** @typedef {import('../engine/engine.js').Answer} Answer */

/** Lines of a diff with a class each. @param {string} text @returns {Node} */
function diffPart(text) {
  return el('pre.diff', {tabindex: '0', 'aria-label': 'Changes'}, text.split('\n').map(line => {
    const kind = /^(\+\+\+|---)/.test(line) ? 'file' : line.startsWith('@@') ? 'place' : line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : 'same';
    return el(`span.${kind}`, {}, line + '\n');
  }));
}

/**
 * Verdict, diff, and the changed files to save.
 * @param {Answer} answer of fix @param {Record<string, string>} written changed files by name @returns {Node[]}
 */
export function fixParts(answer, written) {
  const begin = answer.out.search(/^--- /m);
  const words = (begin < 0 ? answer.out : answer.out.slice(0, begin)).trim().replace(/\n {2}(?=\S)/g, ' ');  // lines that were too long
  const [first, ...rest] = (words || answer.err.trim()).split('\n');
  const kind = answer.code === 0 ? 'good' : 'bad';
  const notes = answer.err.split('\n').filter(line => !line.startsWith('gpuplan: wrote ')).join('\n').trim();
  return [el(`section.verdict.${kind}`, {'aria-labelledby': 'verdict'}, el('h2', {id: 'verdict'}, first), rest.length > 0 && el('pre.told', {}, rest.join('\n'))),
          answer.code <= 1 && notes ? el('pre.told', {}, notes) : null,
          begin >= 0 ? el('section', {}, el('h3', {}, 'What changes'), diffPart(answer.out.slice(begin).trimEnd())) : null,
          ...Object.entries(written).map(([name, content]) =>
            el('p', {}, el('button', {type: 'button', onclick: () => download(name, content)}, `Save ${name}`)))]
    .filter(part => part !== null);
}

/** @param {DataTransfer | null} data @param {FileList | null} [chosen] @returns {Promise<Record<string, string>>} content by name */
export async function filesIn(data, chosen = null) {
  const files = [...(data?.files ?? chosen ?? [])].filter(file => file.size <= 8 << 20);
  return Object.fromEntries(await Promise.all(files.map(async file => [file.name, await file.text()])));
}

/** Says whether a file describes a model. @param {string} text */
export function isModelConfig(text) {
  try {
    const read = JSON.parse(text);
    return typeof read === 'object' && read !== null && ('model_type' in read || 'architectures' in read);
  } catch {
    return false;
  }
}
