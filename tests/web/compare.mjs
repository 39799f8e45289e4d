// Thousands of questions to the native program and to the module: code, both outputs and the files that are written
// have to be the same bytes. Then the time of three questions, as a ratio of this run.
// node compare.mjs NATIVE ENGINE-FOLDER SOURCE-FOLDER [speed]
import {spawn} from 'node:child_process';
import {readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {createInterface} from 'node:readline';
import {pathToFileURL} from 'node:url';
import {splitWords} from '../../web/page/state.js';

const [native, folder, source, only] = process.argv.slice(2);
const kFewest = 2000;
/** What a warm module may take of the native program's time, both on one core. */
const kSpeeds = [
  {words: 'estimate --model llama3-8b --lora r=8 --gpus 4xA6000 --json', rounds: 200, most: 1.6},
  {words: 'plan --model llama-3.2-1b --lora r=8 --rows 5000 --gpus 4xA6000 --json', rounds: 5, most: 2.5},
  {words: 'simulate --model llama3-8b --full --gpus 1024xH100 --no-fold --json', rounds: 5, most: 1.6}];

/** The commands of the golden files and of the documentation, with the files that they name. */
function documented() {
  const inputs = join(source, 'tests/golden/inputs');
  const files = Object.fromEntries(readdirSync(inputs, {withFileTypes: true}).filter(entry => entry.isFile())
    .map(entry => [`inputs/${entry.name}`, readFileSync(join(inputs, entry.name), 'utf8')]));
  const pages = [...readdirSync(join(source, 'tests/golden')).filter(name => name.endsWith('.txt')).map(name => `tests/golden/${name}`),
                 ...readdirSync(join(source, 'docs')).filter(name => name.endsWith('.md')).map(name => `docs/${name}`), 'README.md'];
  const lines = pages.flatMap(page => readFileSync(join(source, page), 'utf8').replaceAll('\\\n', ' ').split('\n'));
  return lines.filter(line => /^\$ (\.\/)?gpuplan /.test(line)).map(line => line.replace(/ [|>].*/, ''))
    .map(line => ({arguments: splitWords(line).slice(2), files}))
    .filter(question => !['run', 'calibrate', 'serve'].includes(question.arguments[0]) && !question.arguments.includes('--help'));
}

/** Every model, machine and card of the catalogues, trained in turn by every method, trainer and setting. @param {any[]} commands */
function generated(commands) {
  const flags = new Map(commands.find(command => command.name === 'estimate').flags.map(flag => [flag.name, flag.values]));
  const models = flags.get('--model'), cards = flags.get('--gpu'), machines = flags.get('--cluster');
  const methods = [['--full'], ['--lora', 'r=8'], ['--qlora'], ['--lora', 'r=64,targets=q_proj+v_proj'], ['--lora=r=16,dora']];
  const trainers = [[], ...flags.get('--framework').map(name => ['--framework', name])];
  const purposes = [[], ...flags.get('--method').map(name => ['--method', name])];
  const settings = [[], ['--seq-len', '8192', '--checkpointing', 'full'], ['--micro-batch', '4', '--attention', 'flash'], ['--precision', 'bf16-true'],
                    ['--optimizer', 'adamw-8bit'], ['--packing', 'padded', '--tokens-per-row', '300'], ['--offload', 'optimizer'], ['--loss', 'chunked'], ['--grad-accum', '8'], ['--fp8']];
  const shapes = [['--json'], ['--explain'], [], ['--save', 'plan.json'], ['--format', 'md'], ['--html', 'page.html']];
  const at = (rows, i) => rows[i % rows.length], all = [];
  for (let i = 0; i < 1500; ++i)
    all.push(['estimate', '--model', at(models, i), ...at(methods, i), '--gpus', `${[1, 2, 4, 8, 16][i % 5]}x${at(cards, 7 * i)}`, ...at(trainers, i >> 1), ...at(settings, i >> 2),
              ...(i % 4 ? [] : at(purposes, i >> 2)), ...at(shapes, i)]);
  for (let i = 0; i < 260; ++i)
    all.push(['simulate', '--model', at(models, 3 * i), ...at(methods, i), '--gpus', `${[1, 2, 4][i % 3]}x${at(cards, i)}`, ...at([['--json'], ['--trace', 't.json'], ['--no-fold'], ['--html', 'page.html']], i)]);
  machines.forEach((machine, i) => {
    all.push(['topology', '--cluster', machine], ['topology', '--cluster', machine, '--json'], ['estimate', '--model', at(models, 11 * i), '--lora', '--cluster', machine, '--json'],
             ['simulate', '--model', 'llama-3.2-1b', '--full', '--cluster', machine, '--num-gpus', '2', '--json', '--jitter', '0.02', '--seed', String(i)]);
  });
  cards.forEach(card => all.push(['gpus', card]));
  for (let i = 0; i < 6; ++i) all.push(['plan', '--model', at(['llama3-8b', 'qwen2.5-7b', 'llama-3.2-1b'], i), ...at(methods, i), '--rows', '5000', '--json', '--html', 'page.html', '--gpus', `${i + 1}xA6000`]);
  const wrong = [['estimate', '--model', 'lama3-8b', '--gpus', '4xA6000'], ['estimate', '--bogus'], ['nonsense'], ['estimate'], ['run', '--demo'], [], ['--version'], ['--licences'], ['validate'],
                 ['models'], ['models', '--json'], ['gpus', '--json'], ['profiles'], ['completion', 'json'], ['completion', 'openapi'], ['estimate', '--model', 'some-lab/model', '--gpus', '2xA6000'], ['doctor'], ['machines']];
  return [...all, ...wrong].map(words => ({arguments: words}));
}

async function startModule() {
  const load = name => readFileSync(join(folder, name));
  const {startEngine} = await import(pathToFileURL(join(folder, 'engine.js')).href);
  const {default: create} = await import(pathToFileURL(join(folder, 'gpuplan.js')).href);
  const engine = await startEngine({create, wasm: load('module.bin'), archive: load('data.bin'), files: JSON.parse(load('files.json'))});
  engine.addFiles(JSON.parse(load('points.json')));
  return engine;
}

function startNative() {
  const child = spawn(native, {stdio: ['pipe', 'pipe', 'inherit'], env: {LANG: 'C.UTF-8'}});
  const lines = createInterface({input: child.stdout})[Symbol.asyncIterator]();
  return {id: child.pid, ask: async question => {
    child.stdin.write(JSON.stringify(question) + '\n');
    return JSON.parse((await lines.next()).value);
  }, end: () => child.stdin.end()};
}

/** Time that a thread has had a processor, in milliseconds: other programs do not change it. @param {number} id */
const processorTime = id => Number(readFileSync(`/proc/${id}/task/${id}/schedstat`, 'utf8').split(' ')[0]) / 1e6;

/** @returns {Promise<number>} questions that take too long */
async function compareSpeed() {
  let numSlow = 0;
  for (const {words, rounds, most} of kSpeeds) {
    const question = {arguments: words.split(' '), now: 1790000000, cores: 1}, took = {native: [], module: []};
    for (let i = 0; i < rounds; ++i) {
      const before = processorTime(program.id);
      await program.ask(question);
      took.native.push(processorTime(program.id) - before);
      const begin = processorTime(process.pid);
      module.answer(question);
      took.module.push(processorTime(process.pid) - begin);
    }
    const [a, b] = [took.native, took.module].map(times => median(times.slice(rounds >> 1)));  // warm
    const isSlow = b > most * a;
    console.log(`${isSlow ? 'FAILED: ' : ''}gpuplan ${words}: ${a.toFixed(1)} ms native, ${b.toFixed(1)} ms in the module, ${(b / a).toFixed(2)} times; at most ${most}`);
    numSlow += isSlow;
  }
  return numSlow;
}

const median = values => values.toSorted((a, b) => a - b)[values.length >> 1];
const program = startNative();
let module = await startModule();
const listing = JSON.parse(module.answer({arguments: ['completion', 'json']}).out).commands;
const questions = only === 'speed' ? [] : [...documented(), ...generated(listing)].map(question => ({...question, now: 1790000000}));
let numSame = 0;
const times = {};
for (const question of questions) {
  const begin = performance.now();
  const expected = await program.ask(question);
  const middle = performance.now();
  let found;
  try {
    found = module.answer(question);
  } catch (error) {
    found = {code: -1, out: '', err: `the module ended: ${error}`, written: {}};
    module = await startModule();
  }
  const end = performance.now();
  (times[question.arguments[0]] ??= []).push({native: middle - begin, module: end - middle});
  if (JSON.stringify(expected) === JSON.stringify(found)) {
    ++numSame;
    continue;
  }
  const key = ['code', 'out', 'err', 'written'].find(name => JSON.stringify(expected[name]) !== JSON.stringify(found[name]));
  const a = JSON.stringify(expected[key]), b = JSON.stringify(found[key]);
  let place = 0;
  while (a[place] === b[place]) ++place;
  console.log(`FAILED: gpuplan ${question.arguments.join(' ')}\n  ${key} of the program: ${a.slice(Math.max(0, place - 60), place + 100)}\n  ${key} of the module:  ${b.slice(Math.max(0, place - 60), place + 100)}`);
}
const numSlow = await compareSpeed();
program.end();
for (const command of ['estimate', 'simulate', 'plan'])
  if (times[command]) console.log(`${command}: median ${median(times[command].map(t => t.native)).toFixed(1)} ms native, ${median(times[command].map(t => t.module)).toFixed(1)} ms in the module`);
console.log(`${questions.length} questions, ${numSame} with the same answer`);
const isShort = questions.length < kFewest && only !== 'speed';
if (isShort) console.log(`FAILED: fewer than ${kFewest} questions`);
const numFailed = questions.length - numSame + numSlow + isShort;
console.log(`${numSame + kSpeeds.length - numSlow} passed, ${numFailed} failed`);
process.exitCode = numFailed ? 1 : 0;
