// The page in headless Chromium: typing, choosing, dropping a file, sharing an address, cancelling, keyboard alone, at three widths, light and dark.
// node browser.mjs TOOLS PAGE-ADDRESS-OR-SITE-FOLDER PICTURES [NATIVE-ANSWERS]
import {execFileSync} from 'node:child_process';
import {createServer} from 'node:http';
import {existsSync, mkdirSync, readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {extname, join, normalize, resolve} from 'node:path';

const [tools, where, pictures, native] = process.argv.slice(2);
const load = createRequire(resolve(tools, 'package.json'));
const {chromium} = load('playwright-core');
const axe = readFileSync(load.resolve('axe-core/axe.min.js'), 'utf8');
const kTypes = {'.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8',
                '.json': 'application/json', '.wasm': 'application/wasm', '.bin': 'application/octet-stream'};
const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(path => existsSync(path));

let numPassed = 0, numFailed = 0;
function check(what, holds, note = '') {
  holds ? ++numPassed : ++numFailed;
  console.log(`${holds ? 'ok' : 'FAILED'}: ${what}${note ? ` (${note})` : ''}`);
}

function serveFolder(folder) {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, 'http://x').pathname)).replace(/\/$/, '/index.html'), file = join(folder, path);
    if (!existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, {'Content-Type': kTypes[extname(file)] ?? 'application/octet-stream'}).end(readFileSync(file));
  });
  return new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve({address: `http://127.0.0.1:${server.address().port}/`, close: () => server.close()})));
}

const site = where.startsWith('http') ? {address: where, close() {}} : await serveFolder(where);
const browser = await chromium.launch({executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']});
mkdirSync(pictures, {recursive: true});
const own = new URL(site.address).origin;

async function newPage(options = {}) {
  const context = await browser.newContext({viewport: {width: 1400, height: 1000}, acceptDownloads: true, ...options});
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], {origin: own});
  const page = await context.newPage();
  page.said = [];
  page.elsewhere = [];
  page.on('console', message => { if (['error', 'warning'].includes(message.type())) page.said.push(message.text()); });
  page.on('pageerror', error => page.said.push(String(error)));
  page.on('request', request => { if (!/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== own) page.elsewhere.push(request.url()); });
  page.setDefaultTimeout(120_000);
  return page;
}

/** Asks the page again and again: what a page waits for by itself is an eval, which its security policy forbids. */
async function until(page, holds, given, every = 50) {
  for (const end = Date.now() + 120_000; !(await page.evaluate(holds, given));) {
    if (Date.now() > end) throw new Error(`never true: ${holds} of ${JSON.stringify(given)}`);
    await page.waitForTimeout(every);
  }
}

const verdict = page => page.locator('#verdict').innerText();
async function untilVerdict(page, pattern) {
  await until(page, text => new RegExp(text, 'i').test(document.querySelector('#verdict')?.textContent ?? ''), pattern);
}

async function answersWhileTyping() {
  const page = await newPage();
  await page.goto(site.address);
  await untilVerdict(page, 'llama-3-8b');
  check('the first answer is there', /fits/.test(await verdict(page)), await verdict(page));
  await page.fill('#field-model', 'qwen2.5-7b');
  await untilVerdict(page, 'qwen2.5-7b');
  check('another model gives another answer, and is in the address', page.url().includes('model=qwen2.5-7b'));
  await page.fill('#field-model', 'no such model');
  await page.waitForSelector('.verdict.wrong');
  check('a wrong name is refused in the words of the program', /no such model/i.test(await page.locator('.verdict.wrong').innerText()));
  await page.fill('#field-model', 'llama-3.1-70b');
  await page.check('input[value=full]');
  await untilVerdict(page, '70b');
  await page.waitForSelector('.chosen-flags');
  check('what the program chose by itself is said', /--offload/.test(await page.locator('.chosen-flags').innerText()), await page.locator('.chosen-flags').innerText());
  await page.evaluate(() => { location.hash = '#model=llama-3.1-70b&method=full&num=1&more=--as-given'; });
  await page.waitForSelector('.verdict.bad');
  check('70 B on one A6000, as given, does not fit', /does not fit|unlikely/.test(await verdict(page)), await verdict(page));
  check('nothing is said on the console', page.said.length === 0, page.said.join('; '));
  check('nothing is asked of elsewhere', page.elsewhere.length === 0, page.elsewhere.join(' '));
  await page.context().close();
}

async function figuresAreThoseOfTheProgram() {
  if (!native) return;
  const page = await newPage();
  await page.goto(site.address + '#model=qwen2.5-7b&card=H100&num=2&method=full');
  await untilVerdict(page, 'qwen');
  const words = ['estimate', '--gpus', '2xH100', '--model', 'qwen2.5-7b', '--full', '--json'];
  const answer = JSON.parse(execFileSync(native, {input: JSON.stringify({arguments: words}) + '\n', maxBuffer: 1 << 28}).toString());
  const read = JSON.parse(answer.out), row = read.strategies.find(one => one.name === read.recommended.strategy);
  const shown = await page.locator('section.verdict').innerText();
  check('the tokens per second on the page are those of --json', shown.includes(Math.round(row.tokens_per_second).toLocaleString('en-US')), shown.replace(/\s+/g, ' ').slice(0, 160));
  check('the memory on the page is that of --json', shown.includes((row.process_bytes / 2 ** 30).toPrecision(3)));
  await page.context().close();
}

async function addressesAreShared() {
  const page = await newPage(), address = site.address + '#model=llama-3.2-1b&card=4090&num=1&method=qlora&rank=32&seq=4096&batch=2';
  await page.goto(address);
  await untilVerdict(page, 'llama-3.2-1b');
  check('an address brings back the whole form', await page.inputValue('#field-seq') === '4096' && await page.isChecked('input[value=qlora]') && await page.inputValue('#field-rank') === '32');
  await page.click('text=Copy the command');
  const command = await page.evaluate(() => navigator.clipboard.readText());
  check('the command is copied', command === 'gpuplan estimate --gpus 1x4090 --model llama-3.2-1b --qlora r=32 --seq-len 4096 --micro-batch 2', command);
  await page.click('text=Copy as Markdown');
  await until(page, async () => (await navigator.clipboard.readText()).startsWith('|'));
  check('the table is copied as Markdown', true);
  await page.context().close();
}

async function hintsAreApplied() {
  const page = await newPage();
  await page.goto(site.address + '#model=llama3-8b&card=A100-80GB&num=8&method=full&checkpointing=full');
  await untilVerdict(page, 'llama');
  const apply = page.locator('.hints button').first(), before = page.url();
  if (await apply.count()) {
    await apply.click();
    await until(page, address => location.href !== address, before);
    check('a hint is applied by a click', true, page.url().split('#')[1]);
  } else check('a hint is applied by a click', false, 'no hint');
  await page.context().close();
}

async function stepIsSimulated() {
  const page = await newPage();
  await page.goto(site.address + '#view=step&model=llama-3.2-1b&card=A6000&num=2');
  await page.click('text=Simulate a step');
  await page.waitForSelector('.timeline canvas');
  check('a step has a timeline and what it waits for', await page.locator('.shares li').count() > 0);
  const told = page.locator('section[aria-labelledby=timeline] p.told'), canvas = page.locator('section[aria-labelledby=timeline] canvas');
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 32);
  check('a span is told where one points', /GPU 0/.test(await told.innerText()), await told.innerText());
  await page.locator('section[aria-labelledby=timeline] .timeline').focus();
  await page.keyboard.press('+');
  check('memory over the step has its categories', await page.locator('section[aria-labelledby=over-step] .kinds li').count() > 3);
  check('the machine is drawn with its busiest link', await page.locator('.machine path.busiest').count() === 1, await page.locator('section[aria-labelledby=machine] .hint').innerText());
  await page.screenshot({path: join(pictures, 'step.png'), fullPage: true});
  await page.goto(site.address + '#view=rent&model=llama-3.1-70b&method=full&rows=200000');
  await page.click('text=Search what to rent');
  await page.click('text=Cancel');
  check('a search is cancelled', await page.locator('text=Search what to rent').isVisible());
  await page.click('text=Search what to rent');
  await page.waitForSelector('.verdict #verdict');
  const points = await page.locator('circle.plan').count();
  check('the frontier is drawn', points >= 1 || await page.locator('.chosen').count() > 0, `${points} plans`);
  if (points) {
    await page.locator('circle.plan').last().focus();
    check('a plan is told by keyboard', (await page.locator('.chosen pre').innerText()).startsWith('gpuplan'));
  }
  await page.screenshot({path: join(pictures, 'rent.png'), fullPage: true});
  check('nothing is said on the console there', page.said.length === 0, page.said.join('; '));
  await page.context().close();
}

async function pipelinesAreDrawn() {
  const page = await newPage();
  await page.goto(site.address + '#view=step&model=llama3-8b&card=H100&num=8&method=full&framework=megatron&accum=8&more=--strategy+single+--pp+4+--tp+2');
  await page.click('text=Simulate a step');
  const schedule = page.locator('section[aria-labelledby=schedule]');
  await schedule.locator('canvas').scrollIntoViewIfNeeded();
  const box = await schedule.locator('canvas').boundingBox();
  await page.mouse.move(box.x + 128 + (box.width - 136) * 0.02, box.y + 15);
  const first = await schedule.locator('p.told').innerText();
  check('the schedule tells the micro-batch of a stage', /^Stage 0: forward of micro-batch 0/.test(first), first);
  await page.mouse.move(box.x + 128 + (box.width - 136) * 0.005, box.y + 15 + 3 * 34);
  const waits = await schedule.locator('p.told').innerText();
  check('the last stage waits at first', /^Stage 3 waits until/.test(waits), waits);
  await page.screenshot({path: join(pictures, 'pipeline.png'), fullPage: true});
  check('nothing is said on the console of a pipeline', page.said.length === 0, page.said.join('; '));
  await page.context().close();
}

async function methodsHaveTheirFields() {
  const page = await newPage();
  await page.goto(site.address + '#model=qwen2.5-7b&card=H100&num=8&method=full&strategy=zero3');
  await untilVerdict(page, 'qwen');
  check('no field of another method is shown', await page.locator('#field-answers').count() === 0);
  await page.selectOption('#field-for', 'grpo');
  await page.fill('#field-completion', '400,1024');
  await page.fill('#field-answers', '8');
  await until(page, () => /--completion-len 400,1024/.test(document.querySelector('pre.command')?.textContent ?? ''));
  check('a method that generates has its phases', (await page.locator('section[aria-labelledby=memory] tbody').last().innerText()).split('\n').length > 2,
        await page.locator('pre.command').innerText());
  check('and they are drawn on lanes of training, engine and memory', (await page.locator('.phase-lane > span').allInnerTexts()).join(' ') === 'training engine memory');
  await page.screenshot({path: join(pictures, 'grpo.png'), fullPage: true});
  await page.selectOption('#field-for', 'dpo');
  await page.selectOption('#field-ref', 'precomputed');
  await until(page, () => /--ref precomputed/.test(document.querySelector('pre.command')?.textContent ?? ''));
  check('what another method alone takes is not asked any more', !/completion|generations/.test(await page.locator('pre.command').innerText()), await page.locator('pre.command').innerText());
  await page.context().close();
}

async function programsAsk() {
  if (!where.startsWith('http')) return;
  const ask = async (path, options) => {
    const reply = await fetch(new URL(path, site.address), options);
    return {status: reply.status, text: await reply.text()};
  };
  const described = JSON.parse((await ask('api/openapi.json')).text);
  check('the requests are described', described.openapi === '3.1.0' && described.paths['/api/estimate'].get.parameters.some(one => one.name === 'gpus'), Object.keys(described.paths).join(' '));
  const asked = await ask('api/estimate?model=llama3-8b&lora=r%3D8&gpus=4xA6000');
  check('a command is asked by its address', asked.status === 200 && JSON.parse(asked.text).model.name === 'llama-3-8b');
  const wrong = await ask('api/estimate?model=lama3-8b&gpus=4xA6000');
  check('wrong input is status 400 with the message', wrong.status === 400 && /lama3-8b/.test(wrong.text), wrong.text.trim());
  const posted = await ask('api/models', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{}'});
  check('a command is asked with a body', posted.status === 200 && JSON.parse(posted.text).models.length > 100);
}

async function filesAreMended() {
  const page = await newPage();
  await page.goto(site.address + '#view=file&card=3090&num=2');
  const config = readFileSync(new URL('../golden/inputs/axolotl.yaml', import.meta.url), 'utf8');
  await page.setInputFiles('#file', {name: 'axolotl.yaml', mimeType: 'text/yaml', buffer: Buffer.from(config)});
  await page.waitForSelector('.diff');
  check('a trainer\'s file gets its verdict and a diff', (await page.locator('.diff .added').count()) > 1, await verdict(page));
  check('the heading is a whole sentence', /GiB(, [0-9]+ % likely)?\)$/.test(await verdict(page)), await verdict(page));
  const [saved] = await Promise.all([page.waitForEvent('download'), page.click('text=/^Save /')]);
  check('the changed file is saved', readFileSync(await saved.path(), 'utf8').includes('gradient_checkpointing: true'), saved.suggestedFilename());
  await page.screenshot({path: join(pictures, 'file.png'), fullPage: true});
  await page.goto(site.address + '#view=fit');
  await untilVerdict(page, 'fits');
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.items.add(new File([JSON.stringify({architectures: ['LlamaForCausalLM'], model_type: 'llama', hidden_size: 2048, intermediate_size: 8192, num_attention_heads: 32,
                                             num_key_value_heads: 8, num_hidden_layers: 16, vocab_size: 128256, tie_word_embeddings: true})], 'config.json'));
    document.body.dispatchEvent(new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: data}));
  });
  await page.waitForSelector('.given');
  await untilVerdict(page, 'config');
  check('a dropped config.json is the model', /config/.test(page.url()), await verdict(page));
  await page.context().close();
}

async function exportsAreSaved() {
  const page = await newPage();
  await page.goto(site.address);
  await untilVerdict(page, 'llama');
  await page.selectOption('#target', 'accelerate');
  const [saved] = await Promise.all([page.waitForEvent('download'), page.click('text=Save the files')]);
  check('files of a trainer are saved', readFileSync(await saved.path(), 'utf8').length > 50, saved.suggestedFilename());
  await page.context().close();
}

async function keyboardAlone() {
  const page = await newPage();
  await page.goto(site.address);
  await untilVerdict(page, 'llama');
  await page.keyboard.press('Tab');
  check('the first key leads to the answer', await page.evaluate(() => document.activeElement?.className === 'skip'));
  const seen = new Set();
  for (let i = 0; i < 60; ++i) {
    await page.keyboard.press('Tab');
    seen.add(await page.evaluate(() => document.activeElement?.id || document.activeElement?.textContent?.slice(0, 20) || ''));
  }
  check('fields, views, cards and copies are reached by keys', ['field-model', 'field-card', 'field-framework', 'Inside a step'].every(name => seen.has(name)), `${seen.size} stops`);
  await page.context().close();
}

async function looksWell(page, name, width, colorScheme) {
  await page.waitForTimeout(300);
  await page.screenshot({path: join(pictures, `${name}-${width}-${colorScheme}.png`), fullPage: true});
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(`${name}: nothing is wider than ${width} px, ${colorScheme}`, wide <= 0, `${wide} px`);
  await page.evaluate(`${axe}; undefined`);
  const found = await page.evaluate(() => globalThis.axe.run(document, {resultTypes: ['violations']}));
  check(`${name}: axe at ${width} px, ${colorScheme}: no violation`, found.violations.length === 0, found.violations.map(v => `${v.id}: ${v.nodes.length} ${v.nodes[0].target}`).join('; '));
}

async function looks() {
  for (const width of [390, 768, 1400])
    for (const colorScheme of ['light', 'dark']) {
      const page = await newPage({viewport: {width, height: 900}, colorScheme});
      await page.goto(site.address + '#model=llama3-8b&card=A6000&num=4&method=full&checkpointing=full');
      await untilVerdict(page, 'llama');
      await looksWell(page, 'fit', width, colorScheme);
      await page.goto(site.address + '#view=step&model=llama3-8b&card=H100&num=4&method=full&framework=megatron&accum=4&more=--strategy+single+--pp+4');
      await page.click('text=Simulate a step');
      await page.waitForSelector('section[aria-labelledby=schedule] canvas');
      await looksWell(page, 'step', width, colorScheme);
      await page.goto(site.address + '#view=rent&model=llama-3.2-1b&rows=20000');
      await page.click('text=Search what to rent');
      await untilVerdict(page, 'Rent');
      await looksWell(page, 'rent', width, colorScheme);
      const height = await page.evaluate(() => document.querySelector('.chart .tick')?.getBoundingClientRect().height ?? 0);
      check(`rent: what the chart says can be read at ${width} px`, height >= 10, `${height.toFixed(1)} px high`);
      await page.context().close();
    }
}

async function speed() {
  const page = await newPage();
  await page.goto(site.address);
  await untilVerdict(page, 'llama');
  const times = [];
  for (let i = 0; i < 12; ++i) {
    const begin = await page.evaluate(() => performance.now());
    await page.fill('#field-seq', String(2048 + 128 * (i + 1)));
    await until(page, seq => document.querySelector('pre.command')?.textContent?.includes(`--seq-len ${seq}`), 2048 + 128 * (i + 1), 5);
    times.push(await page.evaluate(() => performance.now()) - begin);
  }
  console.log(`keystroke to answer: median ${times.sort((a, b) => a - b)[6].toFixed(0)} ms of ${times.length}`);
  await page.context().close();
}

const cases = [answersWhileTyping, figuresAreThoseOfTheProgram, addressesAreShared, hintsAreApplied, stepIsSimulated, pipelinesAreDrawn, methodsHaveTheirFields, programsAsk, filesAreMended, exportsAreSaved, keyboardAlone, looks, speed];
for (const run of cases) {
  try {
    await run();
  } catch (error) {
    check(run.name, false, String(error).split('\n').slice(0, 3).join(' '));
  }
}
await browser.close();
site.close();
console.log(`${numPassed} passed, ${numFailed} failed`);
process.exitCode = numFailed ? 1 : 0;
