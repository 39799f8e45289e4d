// gpuplan for programs: questions to the planner, without a process and without a network.
import {readFileSync} from 'node:fs';
import {webcrypto} from 'node:crypto';
import {brotliDecompressSync} from 'node:zlib';
import createGpuplan from './engine/gpuplan.js';
import {startEngine} from './engine/engine.js';

globalThis.crypto ??= /** @type {any} */ (webcrypto);  // Node 18

const read = name => brotliDecompressSync(readFileSync(new URL(`engine/${name}.br`, import.meta.url)));

let starting = null, hasPoints = false;

function engine() {
  return starting ??= startEngine({create: createGpuplan, wasm: read('module.bin'), archive: read('data.bin'), files: JSON.parse(read('files.json'))});
}

export async function answer(question) {
  const started = await engine();
  if (question.arguments[0] === 'validate' && !hasPoints) {
    started.addFiles(JSON.parse(read('points.json')));
    hasPoints = true;
  }
  return started.answer({now: Math.floor(Date.now() / 1000), ...question});
}

/** Thrown where there is no answer: wrong input, or a bug. */
export class GpuplanError extends Error {
  constructor(code, message) {
    super(message);
    this.name = 'GpuplanError';
    this.code = code;
  }
}

function argumentsOf(command, options) {
  const said = [command];
  for (const [name, value] of Object.entries(options)) {
    const flag = '--' + name.replace(/[A-Z]/g, letter => '-' + letter.toLowerCase());
    if (value === true) said.push(flag);
    else if (value !== false && value !== undefined && value !== null) said.push(`${flag}=${value}`);
  }
  return [...said, '--json'];
}

async function ask(command, options = {}, files = {}) {
  const answered = await answer({arguments: argumentsOf(command, options), files});
  if (answered.code > 1 || !answered.out) throw new GpuplanError(answered.code, answered.err.trim());
  return JSON.parse(answered.out);
}

export const estimate = (options, files) => ask('estimate', options, files);
export const simulate = (options, files) => ask('simulate', options, files);
export const plan = (options, files) => ask('plan', options, files);
export const gpus = () => ask('gpus');
export const models = () => ask('models');
