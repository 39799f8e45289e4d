// Amounts as people read them: three digits, binary units for memory. The figures themselves come from the program.

const kBinary = /** @type {const} */ (['B', 'KiB', 'MiB', 'GiB', 'TiB']);

/** @param {number} value three digits, no trailing zeros beyond them @returns {string} */
export function digits(value) {
  if (value === 0) return '0';
  const size = Math.floor(Math.log10(Math.abs(value)));
  if (size >= 3) return Math.round(value).toLocaleString('en-US');
  return value.toFixed(Math.max(0, Math.min(4, 2 - size)));
}

/** @param {number} value @returns {string} */
export function bytes(value) {
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < kBinary.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${digits(value)} ${kBinary[unit]}`;
}

/** @param {number} value @returns {string} */
export function gib(value) {
  return digits(value / 2 ** 30);
}

/** @type {readonly (readonly [number, string])[]} */
const kTimes = [[3600 * 47.95, 'days'], [60 * 99.5, 'h'], [99.5, 'min'], [1, 's'], [1e-3, 'ms'], [1e-6, 'µs']];
const kSecondsOf = /** @type {Record<string, number>} */ ({days: 86400, h: 3600, min: 60, s: 1, ms: 1e-3, 'µs': 1e-6});

/** @param {number} value @returns {string} */
export function seconds(value) {
  if (value === 0) return '0 s';
  const row = kTimes.find(([from]) => value >= from) ?? [0, 'µs'];
  return `${digits(value / kSecondsOf[row[1]])} ${row[1]}`;
}

/** A time with its range in the same unit and as exact: "48.9 min (41.2–57.6)". @param {number} value @param {number} low @param {number} high */
export function secondsRange(value, low, high) {
  const [amount, unit] = seconds(value).split(' '), scale = kSecondsOf[unit] ?? 1, decimals = amount.split('.')[1]?.length ?? 0;
  return `${seconds(value)} (${(low / scale).toFixed(decimals)}–${(high / scale).toFixed(decimals)})`;
}

/** @param {number} value @returns {string} */
export function dollars(value) {
  return '$' + (value >= 1000 ? Math.round(value).toLocaleString('en-US') : value.toFixed(2));
}

/** A cost with its range, whose ends have three digits. @param {number} value @param {number} low @param {number} high */
export function dollarsRange(value, low, high) {
  const end = (/** @type {number} */ cost) => cost < 100 ? dollars(cost) : '$' + Math.round(cost).toLocaleString('en-US');
  return `${dollars(value)} (${end(low)}–${end(high)})`;
}

/** @param {number} share @returns {string} */
export function percent(share) {
  return share > 0 && share < 0.005 ? '< 1 %' : `${Math.round(share * 100)} %`;
}

/** A probability, which is never quite 0 or 1. @param {number} share @returns {string} */
export function chance(share) {
  return share >= 0.995 ? 'over 99 %' : share < 0.01 ? 'under 1 %' : percent(share);
}

/** @param {number} count @returns {string} */
export function count(count) {
  return Math.round(count).toLocaleString('en-US');
}

/** @param {string} name a key such as "workspace" @returns {string} */
export function words(name) {
  return name.replaceAll('_', ' ');
}

/** What a process holds where it may run: without cache that gives way where the card is full. @param {any} row with process_bytes or peak_bytes, needed_bytes, usable_bytes @param {boolean} mayRun @returns {number} */
export function heldBytes(row, mayRun) {
  const process = row.process_bytes ?? row.peak_bytes;
  return mayRun ? Math.min(process, Math.max(row.usable_bytes, row.needed_bytes)) : process;
}
