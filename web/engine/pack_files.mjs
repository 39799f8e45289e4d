// Writes files of data/ as one JSON object, content by path: node pack_files.mjs DATA FOLDER/.ENDING...
import {readdirSync, readFileSync} from 'node:fs';
import {basename, dirname, join} from 'node:path';

const [data, ...wanted] = process.argv.slice(2);
const files = {};
// What no command reads of a published measurement: remarks and quotations are a third of the compressed file.
const shortened = text => text.replace(/"(?:note|quote_value)": "(?:[^"\\]|\\.)*", /g, '');
for (const pattern of wanted) {
  const folder = dirname(pattern), ending = basename(pattern);
  for (const name of readdirSync(join(data, folder)).filter(name => name.endsWith(ending)).sort())
    files[`${folder}/${name}`] = (name.endsWith('.jsonl') ? shortened : String)(readFileSync(join(data, folder, name), 'utf8'));
}
process.stdout.write(JSON.stringify(files));
