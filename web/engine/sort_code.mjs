// Sorts the code of a WebAssembly module by kind (streams.js): node sort_code.mjs MODULE SORTED
import {readFileSync, writeFileSync} from 'node:fs';
import {Input, kFirstPair, kNumPairs, kNumStreams, kOperators, unsorted, walk} from './streams.js';

/** @param {number} value @returns {number[]} LEB128 */
const bytesOf = value => value < 128 ? [value] : [value % 128 + 128, ...bytesOf(Math.floor(value / 128))];

/** @param {Uint8Array} module @returns {number} where its code section's content begins */
function findCode(module) {
  const kCode = 10, kMagic = 8, input = new Input(module, kMagic);
  while (input.at < module.length) {
    const kind = input.bytes[input.at++], size = input.number();
    if (kind === kCode) return input.at;
    input.at += size;
  }
  throw new Error('a module without code');
}

/** Joins the pair of operators that is most frequent, again and again. @param {number[][]} streams @returns {number[]} pairs */
function join(streams) {
  /** @type {number[]} */
  const pairs = [];
  for (let joined = kFirstPair; joined < kFirstPair + kNumPairs; ++joined) {
    const operators = streams[kOperators], count = new Uint32Array(1 << 16);
    for (let i = 1; i < operators.length; ++i) ++count[operators[i - 1] << 8 | operators[i]];
    const most = count.indexOf(count.reduce((a, b) => Math.max(a, b)));
    pairs.push(most >> 8, most & 255);
    /** @type {number[]} */
    const next = streams[kOperators] = [];
    for (let i = 0; i < operators.length; ++i) {
      const isPair = operators[i] === most >> 8 && operators[i + 1] === (most & 255);
      next.push(isPair ? joined : operators[i]);
      i += Number(isPair);
    }
  }
  return pairs;
}

/** @param {Uint8Array} module it loses its hints of alignment */
function sorted(module) {
  const input = new Input(module, findCode(module)), numFunctions = input.number(), before = input.at;
  /** @type {number[][]} */
  const streams = Array.from({length: kNumStreams}, () => []);
  walk(numFunctions, {
    begin: () => input.number(),
    byte: stream => {
      streams[stream].push(module[input.at]);
      return module[input.at++];
    },
    number: stream => {
      const first = input.at, value = input.number();
      for (let k = first; k < input.at; ++k) streams[stream].push(module[k]);
      return value;
    },
    local: (stream, recent) => {
      const place = recent.place(input.number());
      recent.take(place);
      streams[stream].push(...bytesOf(place));
    },
    hint: () => { module[input.at++] = 0; },
    next: () => {  // behind the number that comes first
      let at = input.at;
      while (module[at] >= 128) ++at;
      return module[at + 1];
    },
    end: () => {},
  });
  const numOperators = streams[kOperators].length, pairs = join(streams);
  const header = [...[module.length, before, numFunctions, numOperators, ...streams.map(stream => stream.length)].flatMap(bytesOf), ...pairs];
  return Buffer.concat([Buffer.from(header), module.subarray(0, before), ...streams.map(stream => Buffer.from(stream)), module.subarray(input.at)]);
}

const [from, to] = process.argv.slice(2);
const module = readFileSync(from), out = sorted(module);
if (Buffer.compare(module, unsorted(out)) !== 0) throw new Error('the module is another one after sorting');
writeFileSync(to, out);
