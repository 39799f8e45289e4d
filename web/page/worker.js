// The planner in a thread of its own, so that the page never waits for it.
import createGpuplan from './engine/gpuplan.js';
import {startEngine} from './engine/engine.js';

/** @param {string} name @returns {Promise<Response>} */
async function load(name) {
  const response = await fetch(new URL(`engine/${name}`, import.meta.url));
  if (!response.ok) throw new Error(`${name} could not be loaded: status ${response.status}`);
  return response;
}

const started = Promise.all([load('module.bin'), load('data.bin'), load('files.json')]).then(
  async ([wasm, archive, files]) => startEngine({
    create: createGpuplan, wasm: await wasm.arrayBuffer(), archive: await archive.arrayBuffer(), files: await files.json()}));

self.onmessage = async event => {
  try {
    const engine = await started;
    self.postMessage({answer: engine.answer(event.data)});
  } catch (error) {
    self.postMessage({error: String(error)});
  }
};
