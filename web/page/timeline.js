// The timeline of a simulated step: a canvas per GPU, one track per stream; wheel and drag, or keys, move and zoom.
import {seconds} from './format.js';
import {el} from './dom.js';

/**
 * @typedef {{name: string, kind: string, begin: number, length: number}} Span times in seconds
 * @typedef {{name: string, spans: Span[]}} Track
 * @typedef {{name: string, tracks: Track[]}} Gpu
 */

/** @param {string} text a Chrome trace @returns {Gpu[]} */
export function readTrace(text) {
  const read = JSON.parse(text), events = Array.isArray(read) ? read : read.traceEvents;
  /** @type {Map<number, {name: string, tracks: Map<number, Track>}>} */
  const gpus = new Map();
  const gpu = (/** @type {number} */ id) => {
    if (!gpus.has(id)) gpus.set(id, {name: `GPU ${id}`, tracks: new Map()});
    return /** @type {{name: string, tracks: Map<number, Track>}} */ (gpus.get(id));
  };
  const track = (/** @type {any} */ event) => {
    const {tracks} = gpu(event.pid);
    if (!tracks.has(event.tid)) tracks.set(event.tid, {name: String(event.tid), spans: []});
    return /** @type {Track} */ (tracks.get(event.tid));
  };
  for (const event of events) {
    if (event.ph === 'M' && event.name === 'process_name') gpu(event.pid).name = event.args.name;
    else if (event.ph === 'M' && event.name === 'thread_name') track(event).name = event.args.name;
    else if (event.ph === 'X')
      track(event).spans.push({name: event.name, kind: event.cat, begin: event.ts * 1e-6, length: event.dur * 1e-6});
  }
  return [...gpus.values()].map(row => ({name: row.name, tracks: [...row.tracks.values()].filter(t => t.spans.length > 0)}));
}

const kTrackHeight = 22, kNameWidth = 96, kAxis = 18;

/** Kinds of work get the colours of the style sheet in the order in which they appear. @param {Gpu[]} gpus @returns {Map<string, number>} */
function kindsOf(gpus) {
  const kinds = new Map();
  for (const gpu of gpus)
    for (const track of gpu.tracks)
      for (const span of track.spans) if (!kinds.has(span.kind)) kinds.set(span.kind, kinds.size % 12);
  return kinds;
}

/** @param {Gpu[]} gpus @param {number} length of the step @returns {HTMLElement} */
export function timelinePart(gpus, length) {
  const shown = gpus.slice(0, 4), kinds = kindsOf(shown);
  const told = el('p.told', {'aria-live': 'polite'}, 'Point at a span; arrows move, + and − zoom, 0 shows all.');
  const view = {begin: 0, end: length};
  const drawings = shown.map(gpu => drawing(gpu, kinds, view, told));
  const drawAll = () => drawings.forEach(one => one.draw());
  const zoom = (/** @type {number} */ factor, /** @type {number} */ at) => {
    const begin = at - (at - view.begin) * factor, end = at + (view.end - at) * factor;
    view.begin = Math.max(0, begin);
    view.end = Math.min(length, Math.max(end, view.begin + length * 1e-5));
    drawAll();
  };
  const move = (/** @type {number} */ by) => {
    const bounded = Math.max(-view.begin, Math.min(length - view.end, by));
    view.begin += bounded;
    view.end += bounded;
    drawAll();
  };
  for (const one of drawings) listen(one, view, zoom, move);
  const middle = () => (view.begin + view.end) / 2, width = () => view.end - view.begin;
  /** @type {Record<string, () => void>} */
  const keys = {ArrowLeft: () => move(-width() / 8), ArrowRight: () => move(width() / 8), '+': () => zoom(0.5, middle()),
                '-': () => zoom(2, middle()), '0': () => zoom(1e9, middle())};
  const part = el('section', {'aria-labelledby': 'timeline'}, el('h3', {id: 'timeline'}, 'Timeline'),
                  el('ul.kinds', {}, [...kinds].map(([kind, color]) => el('li', {}, el(`span.swatch.part${color}`, {'aria-hidden': 'true'}), kind))),
                  el('div.timeline', {tabindex: '0', role: 'application', 'aria-label': 'Timeline of the step',
                                      onkeydown: (/** @type {KeyboardEvent} */ event) => {
                                        if (!keys[event.key]) return;
                                        event.preventDefault();
                                        keys[event.key]();
                                      }},
                     drawings.map(one => el('figure', {}, el('figcaption', {}, one.name), one.canvas))),
                  told, gpus.length > shown.length && el('p.hint', {}, `${gpus.length - shown.length} more GPUs are not drawn.`));
  new ResizeObserver(drawAll).observe(part);
  return part;
}

/** @param {Gpu} gpu @param {Map<string, number>} kinds @param {{begin: number, end: number}} view @param {HTMLElement} told */
function drawing(gpu, kinds, view, told) {
  const canvas = /** @type {HTMLCanvasElement} */ (el('canvas', {'aria-hidden': 'true'}));
  canvas.style.height = `${gpu.tracks.length * kTrackHeight + kAxis}px`;
  const width = () => canvas.clientWidth - kNameWidth;
  const place = (/** @type {number} */ time) => kNameWidth + (time - view.begin) / (view.end - view.begin) * width();

  function draw() {
    const scale = window.devicePixelRatio || 1, style = getComputedStyle(canvas);
    if (!canvas.clientWidth) return;
    canvas.width = canvas.clientWidth * scale;
    canvas.height = canvas.clientHeight * scale;
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
    pen.scale(scale, scale);
    pen.font = '12px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    const color = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
    gpu.tracks.forEach((track, i) => {
      const top = i * kTrackHeight;
      for (const span of track.spans) {
        const left = Math.max(kNameWidth, place(span.begin)), right = Math.min(canvas.clientWidth, place(span.begin + span.length));
        if (right <= kNameWidth || left >= canvas.clientWidth) continue;
        pen.fillStyle = color(`--part${kinds.get(span.kind)}`);
        pen.fillRect(left, top + 2, Math.max(0.5, right - left - (right - left > 3 ? 0.5 : 0)), kTrackHeight - 4);
      }
      pen.fillStyle = color('--text');
      pen.fillText(track.name, 0, top + kTrackHeight / 2, kNameWidth - 6);
    });
    pen.fillStyle = color('--faint');
    for (let i = 0; i <= 4; ++i) {
      pen.textAlign = i === 0 ? 'left' : i === 4 ? 'right' : 'center';
      pen.fillText(seconds(view.begin + (view.end - view.begin) * i / 4), kNameWidth + width() * i / 4, canvas.clientHeight - kAxis / 2);
    }
  }

  /** @param {number} x @param {number} y */
  function tell(x, y) {
    const track = gpu.tracks[Math.floor(y / kTrackHeight)], time = timeAt(x);
    const span = track?.spans.find(one => one.begin <= time && time < one.begin + one.length);
    told.textContent = span ? `${gpu.name}, ${track.name}: ${span.name} (${span.kind}), ${seconds(span.length)} at ${seconds(span.begin)}` : '\u00a0';
  }
  const timeAt = (/** @type {number} */ x) => view.begin + (x - kNameWidth) / width() * (view.end - view.begin);
  return {name: gpu.name, canvas, draw, tell, timeAt, width};
}

/** @param {ReturnType<typeof drawing>} one @param {{begin: number, end: number}} view @param {(f: number, at: number) => void} zoom @param {(by: number) => void} move */
function listen(one, view, zoom, move) {
  const place = (/** @type {MouseEvent} */ event) => {
    const box = one.canvas.getBoundingClientRect();
    return {x: event.clientX - box.left, y: event.clientY - box.top};
  };
  let held = false;
  one.canvas.addEventListener('pointerdown', event => {
    held = true;
    one.canvas.setPointerCapture(event.pointerId);
  });
  one.canvas.addEventListener('pointerup', () => { held = false; });
  one.canvas.addEventListener('pointermove', event => {
    if (held) move(-event.movementX / one.width() * (view.end - view.begin));
    const {x, y} = place(event);
    one.tell(x, y);
  });
  one.canvas.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.shiftKey) return;  // else the page scrolls
    event.preventDefault();
    zoom(Math.exp(event.deltaY / 300), one.timeAt(place(event).x));
  }, {passive: false});
  one.canvas.addEventListener('dblclick', event => zoom(0.4, one.timeAt(place(event).x)));
}
