// node compress.mjs FILE COMPRESSED: brotli, which takes a third less than the gzip of npm packages.
import {readFileSync, writeFileSync} from 'node:fs';
import {brotliCompressSync, constants} from 'node:zlib';

const [file, compressed] = process.argv.slice(2);
const content = readFileSync(file);
writeFileSync(compressed, brotliCompressSync(content, {params: {
  [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24, [constants.BROTLI_PARAM_SIZE_HINT]: content.length}}));
