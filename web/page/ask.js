// Asks who answers: the WebAssembly module in a worker, or the native program behind `gpuplan serve`. Both take the same
// question and give the same answer, so no view knows which.

/** @typedef {import('../engine/engine.js').Question} Question */
/** @typedef {import('../engine/engine.js').Answer} Answer */

/** Thrown where a newer question took the place of this one, or somebody cancelled it. */
export class Superseded extends Error {}

/**
 * Answers questions one after the other; of those that wait only the newest is answered.
 * @typedef {Object} Lane
 * @property {(question: Question) => Promise<Answer>} ask
 * @property {() => void} cancel
 */

/** @returns {boolean} whether the native program is behind the page */
export function isServed() {
  return document.querySelector('meta[name="gpuplan-engine"]')?.getAttribute('content') === 'native';
}

/**
 * @param {(question: Question, signal: AbortSignal) => Promise<Answer>} send
 * @param {() => void} [stop] ends what runs
 * @returns {Lane}
 */
function lane(send, stop = () => {}) {
  /** @type {AbortController | null} */
  let running = null;
  /** @type {{question: Question, resolve: (a: Answer) => void, reject: (e: Error) => void} | null} */
  let waiting = null;

  async function next() {
    if (running || !waiting) return;
    const {question, resolve, reject} = waiting;
    waiting = null;
    const own = running = new AbortController();
    try {
      resolve(await send(question, own.signal));
    } catch (error) {
      reject(own.signal.aborted ? new Superseded() : /** @type {Error} */ (error));
    } finally {
      if (running === own) running = null;
      next();
    }
  }
  return {
    ask: question => new Promise((resolve, reject) => {
      waiting?.reject(new Superseded());
      waiting = {question, resolve, reject};
      next();
    }),
    cancel() {
      waiting?.reject(new Superseded());
      waiting = null;
      running?.abort();
      running = null;
      stop();
    },
  };
}

/** @returns {Lane} */
function servedLane() {
  return lane(async (question, signal) => {
    const response = await fetch('api/answer', {
      method: 'POST', signal, body: JSON.stringify(question), headers: {'Content-Type': 'application/json'}});
    if (!response.ok) throw new Error((await response.text()).trim() || `the program answered with status ${response.status}`);
    return response.json();
  });
}

/** @returns {Lane} */
function workerLane() {
  /** @type {Worker | null} */
  let worker = null;
  const send = (/** @type {Question} */ question, /** @type {AbortSignal} */ signal) =>
    new Promise((resolve, reject) => {
      const own = worker ??= new Worker(new URL('worker.js', import.meta.url), {type: 'module'});
      const fail = (/** @type {string} */ why) => {
        own.terminate();  // what failed once may be in any state
        if (worker === own) worker = null;
        reject(new Error(why));
      };
      own.onmessage = event => event.data.error ? fail(event.data.error) : resolve(event.data.answer);
      own.onerror = event => fail(event.message || 'the planner could not be loaded');
      signal.addEventListener('abort', () => reject(new Superseded()));
      own.postMessage(question);
    });
  return lane(send, () => {
    worker?.terminate();
    worker = null;
  });
}

/** A lane of its own for what is asked while typing, and for what takes long. @returns {Lane} */
export function newLane() {
  return isServed() ? servedLane() : workerLane();
}
