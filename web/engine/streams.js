// A WebAssembly module with its code sorted by kind: operators, locals, numbers of functions, offsets, constants by the operator that takes
// them. Brotli makes a sixth less of it. scripts/web.sh sorts (sort_code.mjs), startEngine (engine.js) puts together again.

/** Streams: what they hold is written without gaps, one after the other. */
export const kOperators = 0;
const kBlocks = 1, kBranches = 2, kGets = 3, kSets = 4, kTees = 5, kGlobals = 6, kCalls = 7, kTypes = 8, kLong = 9, kReals = 10, kLocals = 11, kRest = 12,
      kOffsets = 16,    // the first of one for each byte
      kConstants = 32;  // the first of one for each next operator
export const kNumStreams = kConstants + 256;

/** What stands behind each operator: a number (LEB128) of this stream, or what walk() knows of it. */
const kBehind = new Int8Array(256).fill(-1);
const kNothing = 13;
kBehind.fill(kNothing, 0x45, 0xc5);
kBehind.fill(kOffsets, 0x28, 0x3f);
for (const [stream, ...codes] of [
  [kNothing, 0x00, 0x01, 0x05, 0x0b, 0x0f, 0x19, 0x1a, 0x1b], [kBlocks, 0x02, 0x03, 0x04, 0x06], [kBranches, 0x07, 0x08, 0x09, 0x0c, 0x0d, 0x18], [kCalls, 0x10], [kTypes, 0x11],
  [kGets, 0x20], [kSets, 0x21], [kTees, 0x22], [kGlobals, 0x23, 0x24], [kRest, 0x0e, 0x3f, 0x40, 0xfc], [kConstants, 0x41], [kLong, 0x42], [kReals, 0x43, 0x44]])
  for (const code of codes) kBehind[code] = stream;

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

/** Locals of one function, the last used first; those that were not yet used follow in their order. */
class Recent {
  /** @type {number[]} */
  locals = [];
  /** @param {number} place */
  reach(place) {
    while (this.locals.length <= place) this.locals.push(this.locals.length);
  }
  /** @param {number} place @returns {number} the local there, now the first */
  take(place) {
    this.reach(place);
    const local = this.locals[place];
    for (let k = place; k > 0; --k) this.locals[k] = this.locals[k - 1];
    return this.locals[0] = local;
  }
  /** @param {number} local */
  place(local) {
    this.reach(local);
    return this.locals.indexOf(local);
  }
}

/**
 * Walks over the bodies of all functions: `begin` and `end` stand around each, whose size is theirs; `byte(stream)` and
 * `number(stream)` move what comes next and return it, `local(stream, recent)` a local, `hint()` how a place in memory is aligned,
 * which changes no answer and is not kept; `next()` is the next operator.
 * @param {number} numFunctions
 * @param {{begin: () => void, byte: (stream: number) => number, number: (stream: number) => number, local: (stream: number, recent: Recent) => void,
 *          hint: () => void, next: () => number, end: () => void}} move
 */
export function walk(numFunctions, move) {
  for (let i = 0; i < numFunctions; ++i) {
    move.begin();
    const recent = new Recent();
    for (let left = move.number(kLocals); left > 0; --left) {
      move.number(kLocals);
      move.byte(kLocals);
    }
    for (let depth = 1; depth > 0;) {
      const code = move.byte(kOperators);
      if (code === 0x0b || code === 0x18) --depth;  // delegate ends its try
      else if (code >= 0x02 && code <= 0x06 && code !== 0x05) ++depth;
      const stream = kBehind[code];
      if (stream === kNothing) continue;
      if (stream === kGets || stream === kSets || stream === kTees) {
        move.local(stream, recent);
      } else if (stream === kOffsets) {
        move.hint();
        for (let byte = kOffsets; move.byte(byte) >= 128;) ++byte;
      } else if (stream === kConstants) {
        move.number(kConstants + move.next());
      } else if (stream === kReals) {
        for (let left = code === 0x43 ? 4 : 8; left > 0; --left) move.byte(kReals);
      } else if (stream >= 0) {
        const value = move.number(stream);
        if (code === 0x11) move.number(kRest);
        if (code === 0x0e) for (let left = value + 1; left > 0; --left) move.number(kBranches);
        if (code !== 0xfc) continue;
        if (value > 11 || value === 8 || value === 9) throw new Error(`unknown operator 0xfc ${value}`);
        for (let left = value === 10 ? 2 : value === 11 ? 1 : 0; left > 0; --left) move.byte(kRest);
      } else {
        throw new Error(`unknown operator ${code}`);
      }
    }
    move.end();
  }
}

/** Pairs of operators that often follow each other are one byte, from here on; a pair may begin or end with another. */
export const kFirstPair = 0xc8, kNumPairs = 40;

/**
 * @param {Uint8Array} joined
 * @param {Uint8Array} pairs two bytes each
 * @param {number} size of the result
 */
function unjoined(joined, pairs, size) {
  const out = new Uint8Array(size);
  let at = 0;
  /** @param {number} code */
  const write = code => {
    const pair = 2 * (code - kFirstPair);
    if (pair < 0 || pair >= pairs.length) {
      out[at++] = code;
    } else {
      write(pairs[pair]);
      write(pairs[pair + 1]);
    }
  };
  for (let i = 0; i < joined.length; ++i) write(joined[i]);
  return out;
}

/**
 * The module that sort_code.mjs sorted.
 * @param {Uint8Array} sorted
 * @returns {Uint8Array}
 */
export function unsorted(sorted) {
  const header = new Input(sorted);
  const size = header.number(), before = header.number(), numFunctions = header.number(), numOperators = header.number();
  const lengths = Array.from({length: kNumStreams}, () => header.number()), pairs = sorted.subarray(header.at, header.at += 2 * kNumPairs);
  let at = header.at + before;
  const starts = lengths.map(length => new Input(sorted, (at += length) - length));
  starts[kOperators] = new Input(unjoined(sorted.subarray(starts[kOperators].at, starts[kOperators].at + lengths[kOperators]), pairs, numOperators));
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
    local: (stream, recent) => write(recent.take(starts[stream].number())),
    hint: () => { out[place++] = 0; },
    next: () => starts[kOperators].bytes[starts[kOperators].at],
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
