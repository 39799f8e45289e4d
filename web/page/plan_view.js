// Draws what to rent: the frontier of `gpuplan plan` as a chart of time and cost that one can point at, and as a table.
import {bytes, chance, digits, dollars, dollarsRange, gib, seconds, secondsRange} from './format.js';
import {el, svg, tablePart} from './dom.js';

/** @typedef {any} Plan @typedef {any} Planned docs/schemas/plan.schema.json */

const kWidest = 640, kHeight = 320, kLeft = 64, kBottom = 40, kRight = 16, kTop = 12;

/** @param {Plan} plan @returns {string} */
export function nameOf(plan) {
  return `${plan.gpus}${plan.vendor ? ` at ${plan.vendor}` : ''}, ${plan.method}, ${plan.strategy}`;
}

/** What the allocator only keeps, and paged states, give way where a card is full. @param {Plan} plan @returns {string} */
function memoryOf(plan) {
  const all = `${gib(plan.process_bytes)} of ${gib(plan.usable_bytes)}`;
  return plan.process_bytes > plan.usable_bytes ? `${all}, some gives way` : all;
}

/** "runpod secure on-demand, $2.69 per GPU hour, 2026-05-22: its pricing page". @param {Plan} plan @returns {string} */
function priceOf(plan) {
  return `${plan.offer ? `${plan.offer}, ` : ''}${dollars(plan.usd_per_gpu_hour)} per GPU hour, ${plan.price_date ?? 'no date'}${plan.price_source ? `: ${plan.price_source}` : ''}`;
}

/** Round steps of a logarithmic axis: 1, 2, 5, 10 … @param {number} low @param {number} high @param {number} [most] @returns {number[]} */
function ticks(low, high, most = 7) {
  const of = (/** @type {number[]} */ factors) => {
    const all = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power)
      for (const factor of factors) {
        const value = factor * 10 ** power;
        if (value >= low && value <= high) all.push(value);
      }
    return all;
  };
  const all = [[1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]].map(of).find(values => values.length > 2) ?? [];
  if (all.length < 2) {  // less than a round step of the logarithm: round steps of the figure itself
    const power = 10 ** Math.floor(Math.log10((high - low) / 2)), step = ([5, 2, 1].find(factor => factor * power * 2 <= high - low) ?? 1) * power;
    return Array.from({length: 12}, (_, i) => (Math.ceil(low / step) + i) * step).filter(value => value <= high);
  }
  return all.length > most ? all.filter((_, i) => i % Math.ceil(all.length / most) === 0) : all;
}

/** @param {number[]} values @param {number} begin @param {number} end */
function logScale(values, begin, end) {
  const low = Math.min(...values) / 1.15, high = Math.max(...values) * 1.15;
  const place = (/** @type {number} */ value) => begin + (Math.log(value) - Math.log(low)) / (Math.log(high) - Math.log(low)) * (end - begin);
  return {low, high, place};
}

const kLine = 15, kLetter = 6.6;  // px of a label

/**
 * Where names stand beside their points: to the right of those in the left half, else to the left, and below each other.
 * @param {{x: number, y: number, text: string}[]} points @param {number} width @returns {{x: number, y: number, end: boolean}[]}
 */
function labelPlaces(points, width) {
  /** @type {{from: number, to: number, y: number}[]} */
  const taken = points.map(({x, y}) => ({from: x - 8, to: x + 8, y: y + 4}));  // the points themselves
  return points.map(({x, y, text}) => {
    const end = x > (kLeft + width) / 2, at = x + (end ? -12 : 12), size = kLetter * text.length;
    const from = end ? at - size : at, to = from + size;
    const isFree = (/** @type {number} */ line) => line > kTop && line < kHeight - kBottom && !taken.some(other => Math.abs(other.y - line) < kLine && other.from < to && other.to > from);
    const line = [0, 1, -1, 2, -2, 3, -3].map(step => y + 4 + step * kLine).find(isFree) ?? y + 4;
    taken.push({from, to, y: line});
    return {x: at, y: line, end};
  });
}

/** By time and cost; on own GPUs, which cost nothing here, by time and memory. @param {Plan[]} plans @param {(plan: Plan) => void} choose @param {Plan | null} best @param {Plan[]} others that no row has */
function chart(plans, choose, best, others) {
  const width = Math.min(kWidest, Math.max(320, innerWidth - 32));  // text of a drawing that is made smaller cannot be read
  const all = [...plans, ...others], hasCosts = all.every(plan => plan.cost_usd > 0);
  const heightOf = (/** @type {Plan} */ plan) => hasCosts ? plan.cost_usd : plan.process_bytes;
  const heightWords = (/** @type {number} */ value) => hasCosts ? dollars(value) : bytes(value);
  const x = logScale(all.map(plan => plan.training_seconds), kLeft, width - kRight);
  const y = logScale(all.map(heightOf), kHeight - kBottom, kTop);
  const same = (/** @type {Plan} */ plan) => best && plan.command === best.command;
  const labels = all.map((plan, i) => ({x: x.place(plan.training_seconds), y: y.place(heightOf(plan)), text: i < plans.length ? `${i + 1}: ${plan.gpus}` : plan.gpus}));
  const places = labelPlaces(labels, width);
  const hours = ticks(x.low / 3600, x.high / 3600, width / 90).map(value => value * 3600);
  return svg('svg.chart', {viewBox: `0 0 ${width} ${kHeight}`, role: 'group', 'aria-label': `Plans by time and ${hasCosts ? 'cost' : 'memory'}`},
             hours.map(value => svg('g', {}, svg('line.grid', {x1: x.place(value), x2: x.place(value), y1: kTop, y2: kHeight - kBottom}),
               svg('text.tick', {x: x.place(value), y: kHeight - kBottom + 16, 'text-anchor': 'middle'}, seconds(value)))),
             ticks(y.low, y.high).map(value => svg('g', {}, svg('line.grid', {x1: kLeft, x2: width - kRight, y1: y.place(value), y2: y.place(value)}),
               svg('text.tick', {x: kLeft - 6, y: y.place(value) + 4, 'text-anchor': 'end'}, heightWords(value)))),
             svg('text.tick', {x: (kLeft + width) / 2, y: kHeight - 4, 'text-anchor': 'middle'}, 'time of the training'),
             all.map((plan, i) => svg(`circle.plan${same(plan) ? '.best' : i < plans.length ? '' : '.other'}`, {
               cx: labels[i].x, cy: labels[i].y, r: same(plan) ? 9 : 6, tabindex: 0, role: 'button',
               'aria-label': `${nameOf(plan)}: ${seconds(plan.training_seconds)}, ${heightWords(heightOf(plan))}`,
               onclick: () => choose(plan), onfocus: () => choose(plan), onmouseenter: () => choose(plan)},
               svg('title', {}, nameOf(plan)))),
             all.map((_, i) => svg('text.label', {x: places[i].x, y: places[i].y, 'text-anchor': places[i].end ? 'end' : 'start', 'aria-hidden': 'true'}, labels[i].text)));
}

/** @param {Plan} plan @returns {string} */
const timeOf = plan => secondsRange(plan.training_seconds, plan.training_seconds * plan.time_range[0], plan.training_seconds * plan.time_range[1]);
/** @param {Plan} plan @returns {string} */
const costOf = plan => plan.cost_usd ? dollarsRange(plan.cost_usd, plan.cost_usd * plan.time_range[0], plan.cost_usd * plan.time_range[1]) : '–';

/** @param {Plan} plan @param {(command: string) => void} copyCommand */
function planDetails(plan, copyCommand) {
  return [el('h3', {}, nameOf(plan)),
          el('p', {}, timeOf(plan) + (plan.cost_usd ? `, ${costOf(plan)}` : '') +
            `, GiB: ${memoryOf(plan)}; fits with ${chance(plan.probability)}`),
          plan.reason && el('p', {}, plan.reason),
          plan.usd_per_gpu_hour && el('p.hint', {}, priceOf(plan)),
          el('pre.command', {tabindex: '0'}, plan.command),
          el('button', {type: 'button', onclick: () => copyCommand(plan.command)}, 'Copy the command')];
}

/** @param {string} title @param {Plan[]} plans @param {(plan: Plan) => void} choose @param {boolean} isNumbered */
function table(title, plans, choose, isNumbered) {
  return tablePart(title, ['Plan', 'Time', 'Cost', '$ per GPU hour', 'GiB', 'Fits', 'Why'], plans.map((plan, i) => [
    el('button.link', {type: 'button', onclick: () => choose(plan)}, (isNumbered ? `${i + 1}: ` : '') + nameOf(plan)), timeOf(plan), costOf(plan),
    plan.usd_per_gpu_hour ? `${digits(plan.usd_per_gpu_hour)}${plan.vendor ? `, ${plan.price_date ?? 'no date'}` : ''}` : '–', memoryOf(plan), chance(plan.probability), el('span.why', {}, plan.reason ?? '')]));
}

/** @param {Plan[]} plans @returns {Node | null} */
function pricesPart(plans) {
  const pages = new Map(plans.filter(plan => plan.vendor && plan.usd_per_gpu_hour).map(plan => [`${plan.gpus.replace(/^\d+x /, '')} at ${priceOf(plan)}`, plan.price_page]));
  const today = (/** @type {string | null | undefined} */ page) => (page ? [' (', el('a', {href: page, rel: 'noopener'}, 'today’s prices'), ')'] : []);
  return pages.size ? el('section', {}, el('h3', {}, 'Prices'), el('ul', {}, [...pages].map(([line, page]) => el('li', {}, line, ...today(page))))) : null;
}

/** A row for each change of the first plan. @param {any[]} knobs */
function knobsPart(knobs) {
  const signed = (/** @type {number} */ size) => (size < 0 ? '−' : '+') + bytes(Math.abs(size));
  return tablePart('What each change of it is worth', ['change', 'fits', 'time', 'memory of a GPU', 'cost'], knobs.map(knob =>
    [knob.change, knob.fits, knob.time_ratio ? `${digits(knob.time_ratio)} ×` : '–', knob.memory_bytes ? signed(knob.memory_bytes) : '–', knob.cost_usd ? dollars(knob.cost_usd) : '–']));
}

/** @param {Planned} answer @param {(command: string) => void} copyCommand @returns {Node[]} */
export function planParts(answer, copyCommand) {
  /** @type {Plan[]} */
  const plans = [...answer.frontier];
  if (answer.recommended && !plans.some(plan => plan.command === answer.recommended.command)) plans.unshift(answer.recommended);
  const details = el('div.chosen', {'aria-live': 'polite'});
  const choose = (/** @type {Plan} */ plan) => details.replaceChildren(.../** @type {Node[]} */ (planDetails(plan, copyCommand).filter(Boolean)));
  const others = answer.by_gpu.filter((/** @type {Plan} */ plan) => plan.training_seconds > 0 && plan.cost_usd > 0);
  const drawn = plans.filter(plan => plan.training_seconds > 0);
  if (answer.recommended) choose(answer.recommended);
  return [el(`section.verdict.${answer.recommended ? 'good' : 'bad'}`, {'aria-labelledby': 'verdict'},
             el('h2', {id: 'verdict'}, answer.recommended ? `${answer.recommended.vendor ? 'Rent' : 'Use'} ${nameOf(answer.recommended)}` : 'No plan meets what you ask'),
             el('p', {}, answer.question), el('p', {}, answer.answer), answer.why_none ? el('p', {}, answer.why_none) : null,
             plans[0]?.overhead_seconds > 0 ? el('p', {}, `Every time and cost has ${seconds(plans[0].overhead_seconds)} of set-up, download and failed starts in it. 8 of 10 published measurements lie within the ranges.`) : null,
             el('p.hint', {}, `${answer.searched.possible.toLocaleString('en-US')} plans searched`)),
          drawn.length > 1 ? chart(drawn, choose, answer.recommended, others) : null, details,
          table(answer.undated ? 'Plans at dated prices that no other such plan beats' : 'Plans that nothing beats', plans, choose, true),
          answer.undated ? el('p', {}, `In no row above, since nobody dates its price: ${nameOf(answer.undated)}, ${timeOf(answer.undated)}, ${costOf(answer.undated)}.`) : null,
          table('Best of each other kind of GPU', answer.by_gpu, choose, false), pricesPart([...plans, ...answer.by_gpu]),
          answer.would_do?.length ? el('section', {}, el('h3', {}, 'What would do'), el('ul', {}, answer.would_do.map((/** @type {any} */ row) =>
            el('li', {}, `${row.change}: ${row.plan}`)))) : null,
          knobsPart(answer.knobs),
          el('details', {}, el('summary', {}, 'Assumptions'), el('ul', {}, answer.assumptions.map((/** @type {string} */ line) => el('li', {}, line))))].filter(part => part !== null);
}
