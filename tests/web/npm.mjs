// The packed package, installed without a network in an empty folder: the README's question on the command line and from a program, types checked.
// node npm.mjs PACKAGE.tgz TOOLS NATIVE-ANSWERS
import {execFileSync, spawnSync} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, statSync, writeFileSync, existsSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

const [packed, tools, native] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'gpuplan-npm-'));
let numPassed = 0, numFailed = 0;
function check(what, holds, note = '') {
  holds ? ++numPassed : ++numFailed;
  console.log(`${holds ? 'ok' : 'FAILED'}: ${what}${note ? ` (${note})` : ''}`);
}

try {
  check('the package has at most 1.6 MB', statSync(packed).size <= 1.6e6, `${statSync(packed).size} bytes`);
  writeFileSync(join(folder, 'package.json'), '{"private": true, "type": "module"}');
  execFileSync('npm', ['install', '--offline', '--no-audit', '--no-fund', packed], {cwd: folder, stdio: 'pipe'});
  const words = ['estimate', '--model', 'llama3-8b', '--lora', 'r=8', '--gpus', '4xA6000'];
  const expected = JSON.parse(execFileSync(native, {input: JSON.stringify({arguments: words}) + '\n'}).toString());
  const run = (...args) => spawnSync('npx', ['--offline', 'gpuplan', ...args], {cwd: folder, encoding: 'utf8'});
  const asked = run(...words);
  check('npx gpuplan answers as the program', asked.status === expected.code && asked.stdout === expected.out, `exit code ${asked.status}`);
  const saved = run(...words, '--save', 'plan.json');
  check('a plan is saved', saved.status === 0 && existsSync(join(folder, 'plan.json')));
  const again = run('estimate', 'plan.json', '--json');
  check('and read again', again.status === 0 && JSON.parse(again.stdout).model.name === 'llama-3-8b');
  const wrong = run('estimate', '--model', 'lama3-8b', '--gpus', '4xA6000');
  check('wrong input is exit code 2 with one message', wrong.status === 2 && /lama3-8b/.test(wrong.stderr) && wrong.stdout === '');
  check('validate has its points', run('validate').status === 0);
  check('run says that it needs a machine', run('run', '--demo').status === 2);
  writeFileSync(join(folder, 'use.ts'), `import {estimate, answer, GpuplanError} from 'gpuplan';
const read = await estimate({model: 'llama3-8b', lora: 'r=8', gpus: '4xA6000'});
const row = read.strategies.find(one => one.name === read.recommended?.strategy);
const step: number | null | undefined = row?.step_seconds;
const asked = await answer({arguments: ['gpus'], files: {}});
const code: number = asked.code;
try { await estimate({model: 'none'}); } catch (error) { if (error instanceof GpuplanError) console.log(error.code, step, code); }
`);
  const typed = spawnSync(join(tools, 'node_modules/.bin/tsc'), ['--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext', '--moduleResolution', 'nodenext', '--types', 'node', '--typeRoots', join(tools, 'node_modules/@types'), 'use.ts'],
                          {cwd: folder, encoding: 'utf8'});
  check('the types hold', typed.status === 0, typed.stdout.trim());
  writeFileSync(join(folder, 'use.js'), readFileSync(join(folder, 'use.ts'), 'utf8').replaceAll(/: number( \| null \| undefined)? =/g, ' ='));
  const used = spawnSync('node', ['use.js'], {cwd: folder, encoding: 'utf8'});
  const json = JSON.parse(execFileSync(native, {input: JSON.stringify({arguments: [...words, '--json']}) + '\n', maxBuffer: 1 << 28}).toString());
  const read = JSON.parse(json.out), step = read.strategies.find(row => row.name === read.recommended.strategy).step_seconds;
  check('a program gets the figures of the program', used.stdout.trim() === `2 ${step} 0`, used.stdout.trim() + used.stderr.slice(0, 200));
} finally {
  rmSync(folder, {recursive: true, force: true});
}
console.log(`${numPassed} passed, ${numFailed} failed`);
process.exitCode = numFailed ? 1 : 0;
