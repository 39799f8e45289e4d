// The drawing of a machine, each link as broad as it is used, the busiest one marked. The drawing is the program's.
import {percent} from './format.js';
import {el} from './dom.js';

/** @typedef {{link: string, busy: number, utilization: number}} Link */

/** "GPU 0 → NVSwitch (NVLink)" as its ends, in the order of their names. @param {string} name */
function endsOf(name) {
  return name.replace(/ \([^()]*\)$/, '').split(' → ').sort().join('|');
}

/** @param {string} drawing <svg> of the program @param {Link[]} links busiest first @returns {HTMLElement | null} */
export function topologyPart(drawing, links) {
  // Colours are the style sheet's: they say how much a link is used, not what it is, so that the legend of kinds goes.
  const read = drawing ? new DOMParser().parseFromString(drawing.replace(/<style>[^<]*<\/style>/, ''), 'image/svg+xml').documentElement : null;
  if (!read || read.localName !== 'svg') return null;
  const picture = document.importNode(read, true);
  picture.querySelectorAll('script, path:not([data-a]), .rate.start').forEach(part => part.remove());
  /** @type {Map<string, Link>} */
  const byEnds = new Map();
  for (const link of links) if (!byEnds.has(endsOf(link.link))) byEnds.set(endsOf(link.link), link);
  const busiest = links[0] && endsOf(links[0].link);
  for (const path of picture.querySelectorAll('path[data-a]')) {
    const ends = [path.getAttribute('data-a') ?? '', path.getAttribute('data-b') ?? ''].sort().join('|'), link = byEnds.get(ends);
    const title = path.querySelector('title');
    if (link && title) title.textContent += `, in use ${percent(link.busy)} of the step, ${percent(link.utilization)} of its capacity`;
    path.classList.add(ends === busiest ? 'busiest' : link ? 'used' : 'unused');
  }
  const words = links[0] ? `Busiest: ${links[0].link}, in use ${percent(links[0].busy)} of the step, ${percent(links[0].utilization)} of its capacity. The broadest line is the busiest link, thin ones are hardly used.` : 'No link is used for longer than a moment.';
  picture.setAttribute('aria-label', `The machine and its links. ${words}`);
  return el('section', {'aria-labelledby': 'machine'}, el('h3', {id: 'machine'}, 'The machine'),
            el('div.wide.machine', {tabindex: '0', role: 'region', 'aria-label': 'Drawing of the machine'}, picture),
            el('p.hint', {}, words));
}
