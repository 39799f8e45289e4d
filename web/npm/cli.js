#!/usr/bin/env node
// gpuplan on the command line of any system: the program's arguments, the files that they name, its outputs and exit code.
import {closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, renameSync, statSync, writeSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {answer} from './index.js';

const kMostBytes = 64 << 20, kMostFiles = 500;

/** A file, or the files of a folder that describe a model, under the names by which the arguments know them. */
function collect(path, files) {
  let status;
  try {
    status = statSync(path);
  } catch {
    return;
  }
  if (status.isFile() && status.size <= kMostBytes) files[path] = readFileSync(path, 'utf8');
  if (!status.isDirectory()) return;
  for (const entry of readdirSync(path, {withFileTypes: true}).slice(0, kMostFiles))
    if (entry.isFile() && /\.(json|ya?ml|py|sh|txt|jsonl)$/.test(entry.name)) collect(join(path, entry.name), files);
}

/** Files that the arguments may name: words, and what stands behind an equals sign or between commas. */
function filesOf(words) {
  const files = {};
  for (const word of words)
    for (const part of [word, word.slice(word.indexOf('=') + 1), ...word.split(',')]) if (part && part.length < 4096 && !part.includes('\0')) collect(part, files);
  return files;
}

function writeAll(descriptor, text) {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(descriptor, bytes, at);
    } catch (error) {
      if (error.code === 'EPIPE') return;
      if (error.code !== 'EAGAIN') throw error;
    }
  }
}

/** All of a file or nothing: beside it first, then in its place. */
function save(path, content) {
  mkdirSync(dirname(path) || '.', {recursive: true});
  if (existsSync(path) && !statSync(path).isFile()) throw new Error(`${path}: is no file`);
  const beside = `${path}.gpuplan-${process.pid}`, file = openSync(beside, 'wx');
  try {
    writeAll(file, content);
  } finally {
    closeSync(file);
  }
  renameSync(beside, path);
}

const words = process.argv.slice(2);
const input = words.includes('-') ? readFileSync(0, 'utf8') : '';
const files = filesOf(words);
const variables = Object.fromEntries(['NO_COLOR', 'LANG'].filter(name => process.env[name]).map(name => [name, process.env[name]]));
const answered = await answer({arguments: words, files, variables, input, width: Math.min(400, Math.max(40, process.stdout.columns ?? 100))});
try {
  for (const [path, content] of Object.entries(answered.written)) save(path, content);
  writeAll(2, answered.err);
  writeAll(1, answered.out);
  process.exitCode = answered.code;
} catch (error) {
  writeAll(2, `gpuplan: ${error.message}\n`);
  process.exitCode = 3;
}
