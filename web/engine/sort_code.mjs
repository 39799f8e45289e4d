// Sorts the code of a WebAssembly module by kind (streams.js): node sort_code.mjs MODULE SORTED
import {readFileSync, writeFileSync} from 'node:fs';
import {Input, kNumStreams, unsorted, walk} from './streams.js';

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

/** @param {Uint8Array} module */
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
    end: () => {},
  });
  const header = [module.length, before, numFunctions, ...streams.map(stream => stream.length)].flatMap(bytesOf);
  return Buffer.concat([Buffer.from(header), module.subarray(0, before), ...streams.map(stream => Buffer.from(stream)), module.subarray(input.at)]);
}

const [from, to] = process.argv.slice(2);
const module = readFileSync(from), out = sorted(module);
if (Buffer.compare(module, unsorted(out)) !== 0) throw new Error('the module is another one after sorting');
writeFileSync(to, out);
