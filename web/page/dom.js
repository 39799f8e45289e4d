// Elements from code. Text is always set as text: nothing that a file or a name holds becomes markup.

/**
 * @typedef {Node | string | number | null | undefined | false} Child
 */

/**
 * Makes an element: el('p.note', {id: 'x'}, 'text', el('b', {}, 'bold')). Properties that begin with "on" are listeners.
 * @param {string} name tag and classes
 * @param {Record<string, any>} [properties]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function el(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split('.');
  const made = document.createElement(tag);
  if (classes.length) made.className = classes.join(' ');
  fill(made, properties, children.flat());
  return made;
}

const kSvg = 'http://www.w3.org/2000/svg';

/**
 * The same in SVG.
 * @param {string} name @param {Record<string, any>} [properties] @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function svg(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split('.');
  const made = /** @type {SVGElement} */ (document.createElementNS(kSvg, tag));
  if (classes.length) made.setAttribute('class', classes.join(' '));
  fill(made, properties, children.flat());
  return made;
}

/** @param {Element} made @param {Record<string, any>} properties @param {Child[]} children */
function fill(made, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (key === 'value' || key === 'checked') /** @type {any} */ (made)[key] = value;
    else made.setAttribute(key, value === true ? '' : String(value));
  }
  for (const child of children)
    if (child !== null && child !== undefined && child !== false) made.append(child instanceof Node ? child : String(child));
}

/** @param {Element} parent @param {...(Child | Child[])} children */
export function put(parent, ...children) {
  parent.replaceChildren();
  fill(parent, {}, children.flat());
}

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/**
 * Gives a size by a style that the content security policy allows: set by script, not by markup.
 * @template {HTMLElement} T
 * @param {T} element @param {Record<string, string>} styles @returns {T}
 */
export function styled(element, styles) {
  for (const [name, value] of Object.entries(styles)) element.style.setProperty(name, value);
  return element;
}

/** @param {string} label @param {string} value @param {string} [note] */
export function figure(label, value, note = '') {
  return el('div.figure', {}, el('dt', {}, label), el('dd', {}, value, note && el('small', {}, note)));
}

/** @param {[string, string][]} facts names and what they are */
export function definitions(facts) {
  return el('dl.facts', {}, facts.map(([name, text]) => el('div', {}, el('dt', {}, name), el('dd', {}, text))));
}

/**
 * A table under its title, the first column as headings of the rows; nothing without rows. A row of two cells spans the others. On a narrow
 * screen a table of many columns has a line for each cell, with the column's title before it.
 * @param {string} title @param {string[]} titles of the columns @param {Child[][]} rows @param {string} [label] where no title is shown @param {string} [kind] a class
 */
export function tablePart(title, titles, rows, label = title, kind = 'numbers') {
  if (!rows.length) return null;
  const name = label || title, folds = titles.length > 3 ? '.folds' : '';
  return el('section', {}, title && el('h3', {}, title), el('div.wide', {tabindex: '0', role: 'region', 'aria-label': name}, el(`table.${kind}${folds}`, {},
    el('thead', {}, el('tr', {}, titles.map(text => el('th', {scope: 'col'}, text)))),
    el('tbody', {}, rows.map(([first, ...cells]) => {
      const isWhole = cells.length === 1 && titles.length > 2;
      return el('tr', {}, el('th', {scope: 'row'}, first),
                cells.map((child, i) => el('td', isWhole ? {colspan: titles.length - 1} : {'data-title': titles[i + 1]}, child)));
    })))));
}

/** Offers a file to save. @param {string} name @param {string} content */
export function download(name, content) {
  const address = URL.createObjectURL(new Blob([content], {type: 'application/octet-stream'}));
  const link = el('a', {href: address, download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

let hiding = 0;

/**
 * Says something to those who listen; to those who look, too, where nothing else on the page shows it.
 * @param {string} text @param {boolean} [isShown]
 */
export function announce(text, isShown = true) {
  const status = byId('status');
  status.textContent = text;
  status.className = isShown ? '' : 'unseen';
  clearTimeout(hiding);
  if (isShown) hiding = setTimeout(() => { status.className = 'unseen'; }, 4000);
}

/** @param {string} text @param {string} what said when it is copied */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    announce(`${what} copied`);
  } catch {
    announce(`${what} could not be copied: the browser forbids it`);
  }
}
