// The form: one control per field of the state. What can be chosen comes from the program's own listing of its flags.
import {el} from './dom.js';
import {keyOfFlag} from './state.js';

/** @typedef {import('./state.js').State} State */
/** @typedef {{name: string, help: string, values: string[]}} Flag */

/** What `gpuplan completion json` lists, as far as the page asks. */
export class Listing {
  /** @param {any} read */
  constructor(read) {
    /** @type {Map<string, Map<string, Flag>>} */
    this.commands = new Map(read.commands.map((/** @type {any} */ command) =>
      [command.name, new Map(command.flags.map((/** @type {any} */ flag) => [flag.name, flag]))]));
    this.machines = new Set(this.values('estimate', '--cluster'));
    /** @type {{name: string, title: string, flags: string[]}[]} */
    this.methods = read.methods;
  }
  /** Flags of other methods, which mean nothing for this one. @param {string} name @returns {string[]} */
  otherFlags(name) {
    const own = this.methods.find(method => method.name === name)?.flags ?? [];
    return [...new Set(this.methods.flatMap(method => method.flags))].filter(flag => !own.includes(flag));
  }
  /** @param {string} command @param {string} flag @returns {string[]} */
  values(command, flag) {
    return this.commands.get(command)?.get(flag)?.values ?? [];
  }
  /** @param {string} flag @returns {string} */
  help(flag) {
    return this.commands.get('estimate')?.get(flag)?.help ?? '';
  }
}

/** @typedef {{state: State, listing: Listing, isOpen: boolean, change: (key: string, value: string) => void}} Form */

/** @param {string} label @param {HTMLElement} control @param {string} [help] */
function labelled(label, control, help = '') {
  const id = `field-${control.getAttribute('name')}`;
  control.id = id;
  if (help) control.title = help;
  return el('div.field', {}, el('label', {for: id}, label), control);
}

/** @param {Form} form @param {string} key @param {string} label @param {Record<string, any>} [properties] @param {string} [help] */
function text(form, key, label, properties = {}, help = '') {
  return labelled(label, el('input', {name: key, value: form.state[key], spellcheck: 'false', ...properties,
                                      oninput: (/** @type {any} */ event) => form.change(key, event.target.value)}), help);
}

/** @param {Form} form @param {string} key @param {string} label @param {string} flag @param {string} usual */
function choice(form, key, label, flag, usual) {
  const values = form.listing.values('estimate', flag).filter(value => /^[\w.+-]+$/.test(value));
  const all = form.state[key] && !values.includes(form.state[key]) ? [...values, form.state[key]] : values;
  return labelled(label, el('select', {name: key, onchange: (/** @type {any} */ event) => form.change(key, event.target.value)},
                            el('option', {value: ''}, usual),
                            all.map(value => el('option', {value, selected: value === form.state[key]}, value))),
                  form.listing.help(flag));
}

/** @param {string} id @param {Iterable<string>} values */
function suggestions(id, values) {
  return el('datalist', {id}, [...values].map(value => el('option', {value})));
}

/** @param {Form} form */
function methodField(form) {
  const names = [['full', 'Full'], ['lora', 'LoRA'], ['qlora', 'QLoRA']];
  return el('fieldset.method', {}, el('legend', {}, 'Method'), names.map(([value, label]) =>
    el('label', {}, el('input', {type: 'radio', name: 'method', value, checked: form.state.method === value,
                                 onchange: () => form.change('method', value)}), label)));
}

/** @param {Form} form @returns {Node[]} */
function modelFields(form) {
  if (!form.state.config)
    return [text(form, 'model', 'Model', {list: 'models'}, 'A name of the catalogue. Drop a config.json anywhere on the page for another one.')];
  return [el('p.field.given', {}, 'Model: the config.json that you gave. ',
             el('button', {type: 'button', onclick: () => form.change('config', '')}, 'Use a name instead'))];
}

/** The choice of the method of training. @param {Form} form */
function purposeField(form) {
  const [usual, ...others] = form.listing.methods, title = (/** @type {{name: string, title: string}} */ method) => `${method.name}: ${method.title}`;
  return labelled('Trained for', el('select', {name: 'for', onchange: (/** @type {any} */ event) => form.change('for', event.target.value)},
    el('option', {value: ''}, title(usual)),
    others.map(method => el('option', {value: method.name, selected: method.name === form.state.for}, title(method)))), form.listing.help('--method'));
}

/** Names of fields; a flag without one here is shown as itself. @type {Record<string, [string, string]>} */
const kMethodFields = {
  '--ref': ['Reference', ''], '--teacher': ['Teacher', 'a model'], '--teacher-topk': ['Highest logits of the teacher', 'all'],
  '--student-share': ['Steps on the student\'s answers', '1'], '--critic': ['Critic', 'the model once more'], '--reward-model': ['Reward model', 'the trainer\'s'],
  '--generations': ['Answers to a prompt', 'the trainer\'s'], '--prompt-len': ['Tokens of a prompt', '512'], '--completion-len': ['Tokens of an answer', '400,1024'],
  '--rollout-engine': ['Engine', 'vllm:util=0.3'], '--updates': ['Updates', '1'], '--iterations': ['Iterations', '1'], '--reward-time': ['Judging takes', '0s'],
};

/** The fields of the method that is chosen. @param {Form} form @returns {(HTMLElement | null)[]} */
function methodFields(form) {
  const method = form.listing.methods.find(one => one.name === form.state.for);
  return (method?.flags ?? []).map(flag => {
    const key = keyOfFlag(flag), [label, placeholder] = kMethodFields[flag] ?? [flag, ''];
    if (!key) return null;
    return form.listing.values('estimate', flag).length && !placeholder ? choice(form, key, label, flag, 'as usual') : text(form, key, label, {placeholder}, form.listing.help(flag));
  });
}

/** @param {Form} form */
function furtherFields(form) {
  return el('details', {open: form.isOpen}, el('summary', {}, 'More'), el('div.fields', {},
    text(form, 'accum', 'Gradient accumulation', {inputmode: 'numeric', placeholder: '1'}, form.listing.help('--grad-accum')),
    text(form, 'epochs', 'Epochs', {inputmode: 'decimal', placeholder: '1'}, form.listing.help('--epochs')),
    text(form, 'versions', 'Versions', {placeholder: 'transformers=4.57'}, form.listing.help('--versions')),
    text(form, 'more', 'Further flags', {placeholder: '--optimizer adamw-8bit'}, 'As on the command line; gpuplan estimate --help lists them'),
    el('div.field', {}, el('label', {for: 'paste'}, 'Paste a config.json'),
       el('textarea', {id: 'paste', rows: 2, spellcheck: 'false', onchange: (/** @type {any} */ event) => form.change('config', event.target.value.trim())}))));
}

/** @param {Form} form @param {string} view @returns {Node[]} */
export function formParts(form, view) {
  const lists = [suggestions('models', form.listing.values('estimate', '--model')),
                 suggestions('cards', [...form.listing.values('estimate', '--gpu'), ...form.listing.machines])];
  const cards = [text(form, 'num', 'GPUs', {inputmode: 'numeric', size: 4}, 'How many'),
                 text(form, 'card', 'Card or machine', {list: 'cards'}, 'A card, or a machine of the catalogue')];
  const wishes = [text(form, 'budget', 'Budget in USD', {inputmode: 'decimal', placeholder: 'none'}, 'All of the training for this much'),
                  text(form, 'deadline', 'Ready within', {placeholder: '12h'}, 'All of the training within this time')];
  if (view === 'file') return [...lists, el('div.fields', {}, cards)];
  return [...lists, el('div.fields', {}, modelFields(form), methodField(form),
    form.state.method === 'full' ? null : text(form, 'rank', 'Rank', {inputmode: 'numeric', placeholder: '8'}, 'r of the adapters'),
    view === 'rent' ? wishes : cards,
    purposeField(form), methodFields(form),
    choice(form, 'framework', 'Trainer', '--framework', 'none'),
    text(form, 'seq', 'Sequence length', {inputmode: 'numeric', placeholder: '2048'}, form.listing.help('--seq-len')),
    view === 'rent' ? null : text(form, 'batch', 'Micro batch', {inputmode: 'numeric', placeholder: '1'}, form.listing.help('--micro-batch')),
    choice(form, 'checkpointing', 'Checkpointing', '--checkpointing', 'as usual'),
    text(form, 'rows', 'Rows of data', {inputmode: 'numeric', placeholder: '10000'}, form.listing.help('--rows'))),
    furtherFields(form)];
}
