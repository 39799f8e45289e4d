// Keeps what is asked: the fields of the form, kept in the address of the page, and as arguments of the program.

/**
 * A field: its key in the address, the flag that it is, what it is when nobody says.
 * @typedef {Object} Field
 * @property {string} key
 * @property {string} [flag]
 * @property {string} usual
 */

/** @type {readonly Field[]} */
export const kFields = [
  {key: 'model', flag: '--model', usual: 'llama3-8b'},
  {key: 'num', usual: '4'},
  {key: 'card', usual: 'A6000'},
  {key: 'method', usual: 'lora'},
  {key: 'rank', usual: '8'},
  {key: 'for', flag: '--method', usual: ''},
  {key: 'ref', flag: '--ref', usual: ''},
  {key: 'teacher', flag: '--teacher', usual: ''},
  {key: 'topk', flag: '--teacher-topk', usual: ''},
  {key: 'share', flag: '--student-share', usual: ''},
  {key: 'critic', flag: '--critic', usual: ''},
  {key: 'judge', flag: '--reward-model', usual: ''},
  {key: 'answers', flag: '--generations', usual: ''},
  {key: 'prompt', flag: '--prompt-len', usual: ''},
  {key: 'completion', flag: '--completion-len', usual: ''},
  {key: 'engine', flag: '--rollout-engine', usual: ''},
  {key: 'updates', flag: '--updates', usual: ''},
  {key: 'iterations', flag: '--iterations', usual: ''},
  {key: 'judging', flag: '--reward-time', usual: ''},
  {key: 'labels', flag: '--labels', usual: ''},
  {key: 'texts', flag: '--texts-per-row', usual: ''},
  {key: 'framework', flag: '--framework', usual: ''},
  {key: 'versions', flag: '--versions', usual: ''},
  {key: 'seq', flag: '--seq-len', usual: ''},
  {key: 'batch', flag: '--micro-batch', usual: ''},
  {key: 'accum', flag: '--grad-accum', usual: ''},
  {key: 'checkpointing', flag: '--checkpointing', usual: ''},
  {key: 'rows', flag: '--rows', usual: ''},
  {key: 'epochs', flag: '--epochs', usual: ''},
  {key: 'strategy', flag: '--strategy', usual: ''},
  {key: 'more', usual: ''},
  {key: 'config', usual: ''},
  {key: 'view', usual: 'fit'},
  {key: 'budget', usual: ''},
  {key: 'deadline', usual: ''},
];

/** @typedef {Record<string, string>} State */

/** The field of a flag. @param {string} flag @returns {string | undefined} its key */
export function keyOfFlag(flag) {
  return kFields.find(field => field.flag === flag)?.key;
}

/** @param {string} hash @returns {State} */
export function readState(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  return Object.fromEntries(kFields.map(field => [field.key, given.get(field.key) ?? field.usual]));
}

/** @param {State} state @returns {string} only what differs from the usual */
export function writeState(state) {
  const said = new URLSearchParams();
  for (const field of kFields) if (state[field.key] !== field.usual) said.set(field.key, state[field.key]);
  return '#' + said.toString();
}

/** Splits flags as a shell does: spaces, quotes. @param {string} text @returns {string[]} */
export function splitWords(text) {
  const words = [];
  for (const match of text.matchAll(/(?:[^\s"']+|"[^"]*"|'[^']*')+/g)) words.push(match[0].replace(/"([^"]*)"|'([^']*)'/g, '$1$2'));
  return words;
}

/** @param {string} word @returns {string} as a shell takes it */
export function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export const kConfigFile = 'config.json';

/** Name of a pasted configuration in the arguments, else the model's. @param {State} state */
function modelOf(state) {
  return state.config ? kConfigFile : state.model.trim();
}

/** The files that a question reads. @param {State} state @returns {Record<string, string>} */
export function filesOf(state) {
  return state.config ? {[kConfigFile]: state.config} : {};
}

/** @param {State} state @param {ReadonlySet<string>} machines names of the catalogue @returns {string[]} */
export function cardArguments(state, machines) {
  const card = state.card.trim(), num = state.num.trim();
  if (machines.has(card)) return ['--cluster', card, ...(num ? ['--num-gpus', num] : [])];
  if (/^\d+x|,/.test(card) || card === 'local') return ['--gpus', card];
  return ['--gpus', `${num || 1}x${card}`];
}

/** @param {State} state @returns {string[]} */
function methodArguments(state) {
  if (state.method === 'full') return ['--full'];
  const rank = state.rank.trim();
  return [`--${state.method}`, ...(rank ? [`r=${rank}`] : [])];
}

/** Model, method and what is said of the training. @param {State} state @param {readonly string[]} [without] keys @returns {string[]} */
export function trainingArguments(state, without = []) {
  const said = ['--model', modelOf(state), ...methodArguments(state)];
  for (const field of kFields)
    if (field.flag && field.key !== 'model' && !without.includes(field.key) && state[field.key].trim())
      said.push(field.flag, state[field.key].trim());
  return [...said, ...splitWords(state.more)];
}

/**
 * Takes flags into the fields: what a hint of the program adds. Flags without a field go where further flags stand, in
 * the place of what they said before.
 * @param {State} state @param {string} flags @returns {State}
 */
export function withFlags(state, flags) {
  const next = {...state}, words = splitWords(flags);
  let more = splitWords(state.more);
  for (let i = 0; i < words.length; ++i) {
    let flag = words[i], value = '';
    const equals = flag.indexOf('=');
    if (equals > 0) [flag, value] = [flag.slice(0, equals), flag.slice(equals + 1)];
    else if (i + 1 < words.length && !words[i + 1].startsWith('--')) value = words[++i];
    const field = kFields.find(row => row.flag === flag);
    if (field) next[field.key] = value;
    else if (['--full', '--lora', '--qlora'].includes(flag)) {
      next.method = flag.slice(2);
      next.rank = /r=(\d+)/.exec(value)?.[1] ?? next.rank;
    } else {
      more = withoutFlag(more, flag);
      more.push(flag, ...(value ? [value] : []));
    }
  }
  next.more = more.map(quoted).join(' ');
  return next;
}

/** @param {string[]} words @param {string} flag @returns {string[]} */
function withoutFlag(words, flag) {
  const at = words.findIndex(word => word === flag || word.startsWith(flag + '='));
  if (at < 0) return words;
  const hasValue = words[at] === flag && at + 1 < words.length && !words[at + 1].startsWith('--');
  return words.filter((_, i) => i !== at && !(hasValue && i === at + 1));
}

/** @param {string[]} words @returns {string} what a terminal takes */
export function commandOf(words) {
  return ['gpuplan', ...words.map(quoted)].join(' ');
}
