// The page: keeps the state in the address, asks the planner at every change, shows the answer.
import {isServed, newLane, Superseded} from './ask.js';
import {announce, byId, copy, download, el, put} from './dom.js';
import {filesIn, fixParts, isModelConfig} from './file_view.js';
import {assumptionsPart, betterPart, memoryPart, shownRow, strategiesPart, verdictPart, verdictSentence} from './fit_view.js';
import {formParts, Listing} from './form.js';
import {planParts} from './plan_view.js';
import {cardArguments, commandOf, filesOf, keyOfFlag, readState, trainingArguments, withFlags, writeState} from './state.js';
import {stepParts} from './step_view.js';

/** @typedef {import('./state.js').State} State */
/** @typedef {import('../engine/engine.js').Answer} Answer */

const kViews = /** @type {const} */ ([['fit', 'Does it fit?'], ['step', 'Inside a step'], ['rent', 'What to rent'], ['file', 'My own file']]);

const quick = newLane(), slow = newLane();
let state = readState(location.hash);
/** @type {Listing | null} */
let listing = null;
/** @type {Record<string, string>} */
let dropped = {};

/** @param {string[]} words @param {Record<string, string>} [files] */
function question(words, files = {}) {
  return {arguments: words, width: 400, files: {...filesOf(state), ...files}, now: Math.floor(Date.now() / 1000)};
}

function machines() {
  return listing?.machines ?? new Set();
}

/** @param {State} next @param {boolean} [again] whether the form is drawn again */
function become(next, again = false) {
  state = next;
  history.replaceState(null, '', writeState(state));
  if (again) drawForm();
  drawViews();
  answerNow();
}

/** @param {string} key @param {string} value */
function change(key, value) {
  const next = {...state, [key]: value};
  if (key === 'for') listing?.otherFlags(value).forEach(flag => { next[keyOfFlag(flag) ?? ''] = ''; });
  become(next, ['method', 'config', 'for'].includes(key));
}

function drawViews() {
  put(byId('views'), kViews.map(([key, label]) =>
    el('button', {type: 'button', 'aria-current': state.view === key ? 'page' : undefined,
                  onclick: () => { if (state.view !== key) become({...state, view: key}, true); }}, label)));
}

function drawForm() {
  if (!listing) return;
  const focused = document.activeElement?.id;
  const isOpen = document.querySelector('#form details')?.hasAttribute('open') ?? false;
  put(byId('form'), formParts({state, listing, change, isOpen}, state.view));
  if (focused) document.getElementById(focused)?.focus();
}

/** @param {string} words of the program @returns {Node} */
function refusal(words) {
  return el('section.verdict.wrong', {}, el('h2', {}, 'This question has no answer'), el('pre.told', {}, words.trim()));
}

/** @param {unknown} error */
function failed(error) {
  if (error instanceof Superseded) return;
  put(byId('results'), refusal(error instanceof Error ? error.message : String(error)));
}

/** @param {string[]} words */
function copyButtons(words) {
  const command = commandOf(words.filter(word => word !== '--json'));
  const asMarkdown = async () => {
    const answer = await slow.ask(question([...words.filter(word => word !== '--json'), '--format', 'md']));
    copy(answer.out, 'Markdown');
  };
  return el('section.copies', {'aria-label': 'Take it along'}, el('pre.command', {tabindex: '0'}, command), el('div.row', {},
    el('button', {type: 'button', onclick: () => copy(command, 'The command')}, 'Copy the command'),
    el('button', {type: 'button', onclick: () => asMarkdown().catch(failed)}, 'Copy as Markdown'),
    el('button', {type: 'button', onclick: () => copy(location.href, 'The address')}, 'Copy a link')));
}

/** Files for other programs, made of the plan that estimate saves. @param {string[]} words */
function exportPart(words) {
  const targets = listing?.values('export', '--for') ?? [];
  const select = /** @type {HTMLSelectElement} */ (el('select', {id: 'target'}, targets.map(name => el('option', {value: name}, name))));
  const told = el('pre.told', {role: 'status'});
  const save = async () => {
    const planned = await slow.ask(question([...words, '--save', 'plan.json']));
    const plan = planned.written['plan.json'];
    if (!plan) return put(told, planned.err || 'nothing that fits can be exported');
    const made = await slow.ask(question(['export', 'plan.json', '--for', select.value, '--output', 'job'], {'plan.json': plan}));
    put(told, made.code === 0 ? Object.keys(made.written).join('\n') : made.err);
    for (const [path, content] of Object.entries(made.written)) download(path.replace(/^job\//, '').replaceAll('/', '-'), content);
  };
  const savePlan = async () => {
    const planned = await slow.ask(question([...words, '--save', 'plan.json']));
    if (planned.written['plan.json']) download('plan.json', planned.written['plan.json']);
    else put(told, planned.err);
  };
  return el('section', {'aria-labelledby': 'exports'}, el('h3', {id: 'exports'}, 'Take it to a trainer'), el('div.row', {},
    el('label', {for: 'target'}, 'Files for'), select,
    el('button', {type: 'button', onclick: () => save().catch(failed)}, 'Save the files'),
    el('button', {type: 'button', onclick: () => savePlan().catch(failed)}, 'Save the plan')), told);
}

/** @param {any} answer @param {string[]} words */
function showEstimate(answer, words) {
  const row = shownRow(answer, state.strategy);
  if (!row) return put(byId('results'), refusal('no strategy applies to these GPUs'));
  const apply = (/** @type {string} */ flags) => become(withFlags(state, flags), true);
  const choose = (/** @type {string} */ name) => become({...state, strategy: name === state.strategy ? '' : name});
  put(byId('results'), verdictPart(answer, row, apply), betterPart(answer, row, apply), strategiesPart(answer, row, choose), memoryPart(row),
      copyButtons(words), exportPart(words), assumptionsPart(answer));
  announce(verdictSentence(answer, row), false);
}

async function answerFit() {
  const words = ['estimate', ...cardArguments(state, machines()), ...trainingArguments(state, ['strategy'])];
  const answer = await quick.ask(question([...words, '--json']));
  if (answer.code > 1) return put(byId('results'), refusal(answer.err));
  showEstimate(JSON.parse(answer.out), words);
}

/**
 * A question that takes long: a button asks it, another ends it.
 * @param {string} label @param {string} working @param {() => Promise<Node[]>} work
 */
function offer(label, working, work) {
  const results = byId('results');
  const ask = async () => {
    const begin = performance.now(), clock = el('span', {}, '0 s');
    const timer = setInterval(() => put(clock, `${Math.round((performance.now() - begin) / 1000)} s`), 500);
    put(results, el('section.working', {}, el('p', {role: 'status'}, working, ' ', clock),
                    el('button', {type: 'button', onclick: () => { slow.cancel(); offer(label, working, work); }}, 'Cancel')));
    try {
      put(results, ...await work());
    } catch (error) {
      failed(error);
    } finally {
      clearInterval(timer);
    }
  };
  put(results, el('section.offer', {}, el('button.main', {type: 'button', onclick: ask}, label)));
}

/** @param {Answer} answer @param {() => Node[]} show @returns {Node[]} */
function unlessRefused(answer, show) {
  return answer.code > 1 || !answer.out ? [refusal(answer.err)] : show();
}

/** The data of a page of the program: more than --json, as the drawings need. Its text has no '<'. @param {string} page */
function dataOf(page) {
  return JSON.parse(/id="data">([^<]*)</.exec(page)?.[1] ?? '');
}

function answerStep() {
  const words = ['simulate', ...cardArguments(state, machines()), ...trainingArguments(state)];
  offer('Simulate a step', 'Simulating…', async () => {
    const answer = await slow.ask(question([...words, '--json', '--html', 'step.html']));
    return unlessRefused(answer, () => [...stepParts(dataOf(answer.written['step.html'])), copyButtons(words)]);
  });
}

function answerRent() {
  const words = ['plan', ...trainingArguments(state, ['batch', 'accum', 'strategy'])];
  if (state.budget.trim()) words.push('--budget', state.budget.trim());
  if (state.deadline.trim()) words.push('--under', state.deadline.trim());
  offer('Search what to rent', 'Searching…', async () => {
    const answer = await slow.ask(question([...words, '--json']));
    return unlessRefused(answer, () => [...planParts(JSON.parse(answer.out), command => copy(command, 'The command')), copyButtons(words)]);
  });
}

function dropZone() {
  const input = el('input', {type: 'file', id: 'file', multiple: true, onchange: async (/** @type {any} */ event) => take(await filesIn(null, event.target.files))});
  return el('section.drop', {}, el('label', {for: 'file'}, 'Drop a file of your trainer here, or choose one'), input,
            el('p.hint', {}, 'axolotl, TRL, LLaMA-Factory, accelerate, DeepSpeed, a script that starts a training. ' +
                (isServed() ? 'It goes to the program on this machine alone.' : 'It stays in your browser.')));
}

async function answerFile() {
  const names = Object.keys(dropped);
  if (!names.length) return put(byId('results'), dropZone());
  const cards = cardArguments(state, machines());
  const answer = await slow.ask(question(['fix', ...names, ...cards, '--output', names.length === 1 ? `fixed-${names[0]}` : 'fixed'], dropped));
  put(byId('results'), dropZone(), fixParts(answer, answer.written), copyButtons(['fix', ...names, ...cards]).firstChild);
}

/** @param {Record<string, string>} files */
function take(files) {
  const entries = Object.entries(files);
  if (!entries.length) return announce('no file was read: at most 8 MiB each');
  if (entries.length === 1 && isModelConfig(entries[0][1])) return become({...state, config: entries[0][1], view: state.view === 'file' ? 'fit' : state.view}, true);
  dropped = files;
  become({...state, view: 'file'}, true);
}

function answerNow() {
  slow.cancel();
  const run = {fit: answerFit, step: answerStep, rent: answerRent, file: answerFile}[state.view] ?? answerFit;
  Promise.resolve(run()).catch(failed);
}

addEventListener('hashchange', () => become(readState(location.hash), true));
addEventListener('dragover', event => event.preventDefault());
addEventListener('drop', async event => {
  event.preventDefault();
  take(await filesIn(event.dataTransfer));
});
byId('form').addEventListener('submit', event => event.preventDefault());

async function start() {
  if (isServed()) byId('where').textContent = 'Computed by the program on this machine.';
  drawViews();
  const answer = await quick.ask({arguments: ['completion', 'json']});
  if (answer.code !== 0) throw new Error(answer.err);
  listing = new Listing(JSON.parse(answer.out));
  drawForm();
  answerNow();
}
start().catch(failed);
