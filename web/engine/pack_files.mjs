// Writes the files of a folder of data/ as one JSON object, content by path: node pack_files.mjs DATA FOLDER ENDING
import {readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';

const [data, folder, ending] = process.argv.slice(2);
const names = readdirSync(join(data, folder)).filter(name => name.endsWith('.' + ending)).sort();
const files = Object.fromEntries(names.map(name => [`${folder}/${name}`, readFileSync(join(data, folder, name), 'utf8')]));
process.stdout.write(JSON.stringify(files));
