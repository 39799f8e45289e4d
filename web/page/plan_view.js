// Draws what to rent: the frontier of `gpuplan plan` as a chart of time and cost that one can point at, and as a table.
import {bytes, chance, digits, dollars, gib, seconds} from './format.js';
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
  if (all.length < 2) return [low + (high - low) * 0.15, (low + high) / 2, high - (high - low) * 0.15];
  return all.length > most ? all.filter((_, i) => i % Math.ceil(all.length / most) === 0) : all;
}

/** @param {number[]} values @param {number} begin @param {number} end */
function logScale(values, begin, end) {
  const low = Math.min(...values) / 1.15, high = Math.max(...values) * 1.15;
  const place = (/** @type {number} */ value) => begin + (Math.log(value) - Math.log(low)) / (Math.log(high) - Math.log(low)) * (end - begin);
  return {low, high, place};
}

/** By time and cost; on own GPUs, which cost nothing here, by time and memory. @param {Plan[]} plans @param {(plan: Plan) => void} choose @param {Plan | null} best */
function chart(plans, choose, best) {
  const width = Math.min(kWidest, Math.max(320, innerWidth - 32));  // text of a drawing that is made smaller cannot be read
  const hasCosts = plans.every(plan => plan.cost_usd > 0);
  const heightOf = (/** @type {Plan} */ plan) => hasCosts ? plan.cost_usd : plan.process_bytes;
  const heightWords = (/** @type {number} */ value) => hasCosts ? dollars(value) : bytes(value);
  const x = logScale(plans.map(plan => plan.training_seconds), kLeft, width - kRight);
  const y = logScale(plans.map(heightOf), kHeight - kBottom, kTop);
  const same = (/** @type {Plan} */ plan) => best && plan.command === best.command;
  const hours = ticks(x.low / 3600, x.high / 3600, width / 90).map(value => value * 3600);
  return svg('svg.chart', {viewBox: `0 0 ${width} ${kHeight}`, role: 'group', 'aria-label': `Plans by time and ${hasCosts ? 'cost' : 'memory'}`},
             hours.map(value => svg('g', {}, svg('line.grid', {x1: x.place(value), x2: x.place(value), y1: kTop, y2: kHeight - kBottom}),
               svg('text.tick', {x: x.place(value), y: kHeight - kBottom + 16, 'text-anchor': 'middle'}, seconds(value)))),
             ticks(y.low, y.high).map(value => svg('g', {}, svg('line.grid', {x1: kLeft, x2: width - kRight, y1: y.place(value), y2: y.place(value)}),
               svg('text.tick', {x: kLeft - 6, y: y.place(value) + 4, 'text-anchor': 'end'}, heightWords(value)))),
             svg('text.tick', {x: (kLeft + width) / 2, y: kHeight - 4, 'text-anchor': 'middle'}, 'time of the training'),
             plans.map(plan => svg(`circle.plan${same(plan) ? '.best' : ''}`, {
               cx: x.place(plan.training_seconds), cy: y.place(heightOf(plan)), r: same(plan) ? 9 : 6, tabindex: 0, role: 'button',
               'aria-label': `${nameOf(plan)}: ${seconds(plan.training_seconds)}, ${heightWords(heightOf(plan))}`,
               onclick: () => choose(plan), onfocus: () => choose(plan), onmouseenter: () => choose(plan)},
               svg('title', {}, nameOf(plan)))));
}

/** @param {Plan} plan @param {(command: string) => void} copyCommand */
function planDetails(plan, copyCommand) {
  return [el('h3', {}, nameOf(plan)),
          el('p', {}, `${seconds(plan.training_seconds)} (${seconds(plan.training_seconds * plan.time_range[0])} to ${seconds(plan.training_seconds * plan.time_range[1])})` +
            (plan.cost_usd ? `, ${dollars(plan.cost_usd)}` : '') +
            `, GiB: ${memoryOf(plan)}; fits with ${chance(plan.probability)}`),
          plan.reason && el('p', {}, plan.reason),
          plan.price_date && el('p.hint', {}, `Price of ${plan.price_date}: ${plan.price_source ?? 'source not known'}`),
          el('pre.command', {tabindex: '0'}, plan.command),
          el('button', {type: 'button', onclick: () => copyCommand(plan.command)}, 'Copy the command')];
}

/** @param {string} title @param {Plan[]} plans @param {(plan: Plan) => void} choose */
function table(title, plans, choose) {
  return tablePart(title, ['Plan', 'Time', 'Cost', 'GiB', 'Fits'], plans.map(plan => [
    el('button.link', {type: 'button', onclick: () => choose(plan)}, nameOf(plan)), seconds(plan.training_seconds),
    plan.cost_usd ? dollars(plan.cost_usd) : '–', memoryOf(plan), chance(plan.probability)]));
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
  const drawn = plans.filter(plan => plan.training_seconds > 0);
  if (answer.recommended) choose(answer.recommended);
  return [el(`section.verdict.${answer.recommended ? 'good' : 'bad'}`, {'aria-labelledby': 'verdict'},
             el('h2', {id: 'verdict'}, answer.recommended ? `${answer.recommended.vendor ? 'Rent' : 'Use'} ${nameOf(answer.recommended)}` : 'No plan meets what you ask'),
             el('p', {}, answer.answer), answer.why_none ? el('p', {}, answer.why_none) : null, el('p.hint', {}, `${answer.searched.plans.toLocaleString('en-US')} plans searched`)),
          drawn.length > 1 ? chart(drawn, choose, answer.recommended) : null, details,
          table('Plans that nothing beats', plans, choose), table('Best of each kind of GPU', answer.by_gpu, choose),
          answer.would_do?.length ? el('section', {}, el('h3', {}, 'What would do'), el('ul', {}, answer.would_do.map((/** @type {any} */ row) =>
            el('li', {}, `${row.change}: ${row.plan}`)))) : null,
          knobsPart(answer.knobs),
          el('details', {}, el('summary', {}, 'Assumptions'), el('ul', {}, answer.assumptions.map((/** @type {string} */ line) => el('li', {}, line))))].filter(part => part !== null);
}
