// Counts rows and tokens of data sets that stand in files, for data/datasets.yaml: the texts of a row joined, without a chat template.
// Prints name, rows, tokens of Llama 3 and of Llama 2, bytes.
//   npm install llama3-tokenizer-js@1.2.0 llama-tokenizer-js@1.2.2
//   node count_rows.mjs FILE...
import fs from 'node:fs';
import llama3 from 'llama3-tokenizer-js';
import llama2 from 'llama-tokenizer-js';

const TEXTS = ['value', 'content', 'text', 'instruction', 'input', 'output', 'prompt', 'completion', 'response', 'question', 'answer', 'system'];

/** Every text of a row that is trained on or read before it. */
function textsOf(row) {
  if (typeof row === 'string') return [row];
  if (Array.isArray(row)) return row.flatMap(textsOf);
  const out = [];
  for (const [key, value] of Object.entries(row ?? {})) {
    if (typeof value === 'string') { if (TEXTS.includes(key)) out.push(value); } else if (value && typeof value === 'object') out.push(...textsOf(value));
  }
  return out;
}

for (const file of process.argv.slice(2)) {
  const text = fs.readFileSync(file, 'utf8');
  const rows = text.trimStart().startsWith('[') ? JSON.parse(text) : text.split('\n').filter(line => line.trim()).map(line => JSON.parse(line));
  let three = 0, two = 0;
  for (const row of rows) {
    const joined = textsOf(row).filter(part => part).join('\n');
    three += llama3.encode(joined, { bos: false, eos: false }).length;
    two += llama2.encode(joined, false, true).length;
  }
  console.log([file, rows.length, three, two, fs.statSync(file).size].join('\t'));
}
