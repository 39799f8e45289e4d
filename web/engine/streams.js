// A WebAssembly module with its code sorted by kind: operators, numbers of locals, of functions, offsets, constants.
// Brotli makes a thirteenth less of it. scripts/web.sh sorts (sort_code.mjs), startEngine (engine.js) puts together again.

/** Streams: what they hold is written without gaps, one after the other. */
const kOperators = 0, kBlocks = 1, kBranches = 2, kGets = 3, kSets = 4, kTees = 5, kGlobals = 6, kCalls = 7, kTypes = 8, kLoads = 9, kStores = 10,
      kSmall = 11, kLong = 12, kReals = 13, kLocals = 14, kRest = 15;
export const kNumStreams = 16;

/** @type {number[]} */
const kNone = [];
/** What stands behind each operator: numbers of these streams (LEB128), `-n` for n bytes. @type {(number[] | undefined)[]} */
const kBehind = [];
for (let code = 0x45; code <= 0xc4; ++code) kBehind[code] = kNone;
for (let code = 0x28; code <= 0x35; ++code) kBehind[code] = [kRest, kLoads];
for (let code = 0x36; code <= 0x3e; ++code) kBehind[code] = [kRest, kStores];
for (const code of [0x00, 0x01, 0x05, 0x0b, 0x0f, 0x19, 0x1a, 0x1b]) kBehind[code] = kNone;
for (const code of [0x02, 0x03, 0x04, 0x06]) kBehind[code] = [kBlocks];
for (const code of [0x07, 0x08, 0x09, 0x0c, 0x0d, 0x18]) kBehind[code] = [kBranches];
Object.assign(kBehind, {0x10: [kCalls], 0x11: [kTypes, kRest], 0x20: [kGets], 0x21: [kSets], 0x22: [kTees], 0x23: [kGlobals], 0x24: [kGlobals],
                        0x3f: [kRest], 0x40: [kRest], 0x41: [kSmall], 0x42: [kLong], 0x43: [-4], 0x44: [-8]});

/** Bytes that are read from the front. */
export class Input {
  /** @param {Uint8Array} bytes */
  constructor(bytes, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }
  number() {
    let value = 0, shift = 1;
    for (;;) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * shift;
      if (byte < 128) return value;
      shift *= 128;
    }
  }
}

/**
 * Walks over the bodies of all functions: `begin` and `end` stand around each, whose size is theirs; `byte(stream)` and
 * `number(stream)` move what comes next and return it.
 * @param {number} numFunctions
 * @param {{begin: () => void, byte: (stream: number) => number, number: (stream: number) => number, end: () => void}} move
 */
export function walk(numFunctions, move) {
  for (let i = 0; i < numFunctions; ++i) {
    move.begin();
    for (let left = move.number(kLocals); left > 0; --left) {
      move.number(kLocals);
      move.byte(kLocals);
    }
    for (let depth = 1; depth > 0;) {
      const code = move.byte(kOperators);
      if (code === 0x0b || code === 0x18) --depth;  // delegate ends its try
      else if (code >= 0x02 && code <= 0x06 && code !== 0x05) ++depth;
      const behind = kBehind[code];
      if (behind) {
        for (const stream of behind) {
          if (stream >= 0) move.number(stream);
          else for (let count = stream; count < 0; ++count) move.byte(kReals);
        }
      } else if (code === 0x0e) {
        for (let left = move.number(kRest) + 1; left > 0; --left) move.number(kBranches);
      } else if (code === 0xfc) {
        const second = move.number(kRest);
        if (second > 11 || second === 8 || second === 9) throw new Error(`unknown operator 0xfc ${second}`);
        for (let left = second === 10 ? 2 : second === 11 ? 1 : 0; left > 0; --left) move.byte(kRest);
      } else {
        throw new Error(`unknown operator ${code}`);
      }
    }
    move.end();
  }
}

/**
 * The module that sort_code.mjs sorted.
 * @param {Uint8Array} sorted
 * @returns {Uint8Array}
 */
export function unsorted(sorted) {
  const header = new Input(sorted);
  const size = header.number(), before = header.number(), numFunctions = header.number();
  const inputs = Array.from({length: kNumStreams}, () => header.number()), starts = inputs.map(() => new Input(sorted));
  let at = header.at + before;
  inputs.forEach((length, stream) => { starts[stream].at = at; at += length; });
  const out = new Uint8Array(size);
  out.set(sorted.subarray(header.at, header.at + before));
  let place = before;
  /** @param {number} value */
  const write = value => {
    for (; value >= 128; value = Math.floor(value / 128)) out[place++] = value % 128 + 128;
    out[place++] = value;
  };
  let begin = place;
  const kRoom = 5;  // for the size of a body, which is known behind it
  walk(numFunctions, {
    begin: () => {
      begin = place;
      place += kRoom;
    },
    byte: stream => out[place++] = starts[stream].bytes[starts[stream].at++],
    number: stream => {
      const input = starts[stream], first = input.at, value = input.number();
      for (let k = first; k < input.at; ++k) out[place++] = sorted[k];
      return value;
    },
    end: () => {
      const length = place - begin - kRoom;
      place = begin;
      write(length);
      out.copyWithin(place, begin + kRoom, begin + kRoom + length);
      place += length;
    },
  });
  out.set(sorted.subarray(at), place);
  return out;
}
