// The WebAssembly module as one function: a question in, an answer out. Used by the page's worker and by the npm package.
import {unsorted} from './streams.js';

/**
 * @typedef {Object} Question
 * @property {string[]} arguments as they are typed behind `gpuplan`
 * @property {Record<string, string>} [files] content by path: nothing else can be read
 * @property {Record<string, string>} [variables] of the environment
 * @property {number} [now] seconds since 1970, UTC
 * @property {number} [cores]
 * @property {string} [input] standard input
 * @property {number} [width] columns of the text
 *
 * @typedef {Object} Answer
 * @property {number} code 0 yes, 1 no, 2 wrong input, 3 something is missing here, 4 a bug
 * @property {string} out
 * @property {string} err
 * @property {Record<string, string>} written content by path
 *
 * @typedef {Object} Parts
 * @property {(options: {wasmBinary: ArrayBuffer | Uint8Array}) => Promise<any>} create the default export of gpuplan.js
 * @property {ArrayBuffer | Uint8Array} wasm content of module.bin
 * @property {ArrayBuffer | Uint8Array} archive content of data.bin
 * @property {Record<string, string>} files the files of data/ that are no tables, by path
 */

/**
 * Starts the module.
 * @param {Parts} parts
 * @returns {Promise<{answer: (question: Question) => Answer, addFiles: (files: Record<string, string>) => void}>}
 */
export async function startEngine(parts) {
  const module = await parts.create({wasmBinary: unsorted(new Uint8Array(parts.wasm))});
  const archive = new Uint8Array(parts.archive);
  const place = module._malloc(archive.length);
  module.HEAPU8.set(archive, place);
  module._gpuplan_use_data(place, archive.length);

  /** @param {Record<string, string>} files */
  function addFiles(files) {
    for (const [path, text] of Object.entries(files)) {
      const file = '/data/' + path;
      let folder = '';
      for (const name of file.split('/').slice(1, -1)) {
        folder += '/' + name;
        if (!module.FS.analyzePath(folder).exists) module.FS.mkdir(folder);
      }
      module.FS.writeFile(file, text);
    }
  }
  addFiles(parts.files);

  const encoder = new TextEncoder(), decoder = new TextDecoder();

  /** @param {Question} question @returns {Answer} */
  function answer(question) {
    const bytes = encoder.encode(JSON.stringify(question));
    const at = module._malloc(bytes.length);
    try {
      module.HEAPU8.set(bytes, at);
      const begin = module._gpuplan_answer(at, bytes.length);
      return JSON.parse(decoder.decode(module.HEAPU8.subarray(begin, begin + module._gpuplan_size())));
    } finally {
      module._free(at);
    }
  }
  return {answer, addFiles};
}
