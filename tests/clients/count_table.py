"""What counts.py finds under each pair of transformers and PEFT, as the table tests/models/meta_counts.json, and its comparison with that."""
import datetime
import json
import pathlib

TABLE = pathlib.Path(__file__).resolve().parents[1] / 'models' / 'meta_counts.json'
STACKS = {'transformers-4': 'hub-0', 'transformers-5': 'hub-1'}
ADAPTERS = ('peft-0.18', 'peft-0.20')
# Machines on which every model fits; PEFT refuses LoRA of all linear layers of some.
QUESTION = ['--full', '--gpus', '64xB200', '--strategy', 'zero3', '--micro-batch', '1', '--checkpointing', 'full']
COMMAND = './check --clients DIR; tests/clients/clients.py --only counts --write renews it'


def write_configs(place, models):
    """The config.json of each model as plans have it: of those of the table, where none are named. Gives the names."""
    folder = place.path('configs')
    folder.mkdir(exist_ok=True)
    listed = [model['name'] for model in json.loads(place.call('models', '--json').stdout)['models'] if model.get('is_modelled', True)]
    names = [name for name in listed if name in (models or read_table()['models'])]
    for name in names:
        if (folder / f'{name}.json').exists():
            continue
        plan = place.path('plan.json')
        for length in ('2048', '512', '8192'):  # an encoder takes no 2,048, an image of idefics3 is 2,873
            done = place.call('estimate', '--model', name, *QUESTION, '--seq-len', length, '--force', '--save', str(plan))
            if done.returncode == 0:
                break
        if done.returncode != 0:
            raise RuntimeError(f'no plan for {name}: {done.stderr}')
        config = json.loads(plan.read_text())['model']['config']
        (folder / f'{name}.json').write_text(json.dumps(config, indent=1, sort_keys=True))
    return names


def count(place, names):
    """Per model and transformers, what was found, with `trainable` by PEFT; and what was stood in for."""
    version = {name: place.table[name].version.removeprefix('v') for name in (*STACKS, *ADAPTERS)}
    found, stood_in = {name: {} for name in names}, set()
    for adapters in ADAPTERS:  # two at once: each takes one processor
        running = {stack: place.start('counts', [stack, hub, adapters, 'accelerate'], '/work/configs', f'/work/{stack}-{adapters}.jsonl',
                                      'trainable' if adapters != ADAPTERS[0] else 'trainable,four_bit', *names)
                   for stack, hub in STACKS.items()}
        for stack, process in running.items():
            said, _ = process.communicate()
            if process.returncode != 0:
                raise RuntimeError(f'counts.py under {stack} and {adapters}: {said[-3000:]}')
            stood_in.update(line for line in said.splitlines() if line.startswith('stood in for'))
            with open(place.path(f'{stack}-{adapters}.jsonl')) as file:
                for row in map(json.loads, file):
                    merge(found[row.pop('model')].setdefault(version[stack], {}), row, version[adapters])
    return found, sorted(stood_in)


def merge(into, row, peft):
    trained = row.pop('trainable', row.pop('trainable_error', None))
    into.update(row)
    if trained is not None:
        into.setdefault('trainable', {})[peft] = trained


def read_table():
    return json.loads(TABLE.read_text()) if TABLE.exists() else {'made': {}, 'models': {}}


def write_table(place, found):
    """A line per model and version of transformers. Models that were not counted now stay."""
    table = read_table()
    table['models'].update(found)
    table['made'] = {'date': datetime.date.today().isoformat(), 'command': COMMAND, 'torch': '2.6.0 of Debian 13, meta device',
                     'accelerate': place.table['accelerate'].version.removeprefix('v'), 'lora': 'r=16, target_modules="all-linear"',
                     'four_bit': "weights that transformers' own rule gives to bitsandbytes under load_in_4bit"}
    lines = []
    for name, versions in sorted(table['models'].items()):
        rows = ',\n'.join(f'  {json.dumps(version)}: {json.dumps(row, sort_keys=True)}' for version, row in sorted(versions.items()))
        lines.append(f' {json.dumps(name)}: {{\n{rows}}}')
    TABLE.write_text(f'{{"made": {json.dumps(table["made"], indent=1)},\n"models": {{\n' + ',\n'.join(lines) + '}}\n')


def compare_counts(place, args):
    """A model passes whose counts are those of the table under every version."""
    names = write_configs(place, args.models)
    found, stood_in = count(place, names)
    print('\n'.join(stood_in))
    if args.write:
        write_table(place, found)
    known = read_table()['models']
    different = [name for name in names if found[name] != known.get(name)]
    for name in different:
        print(f'{name}: found {json.dumps(found[name], sort_keys=True)}\n  the table has {json.dumps(known.get(name), sort_keys=True)}')
    made = sum('parameters' in row for versions in found.values() for row in versions.values())
    print(f'{len(names)} models counted under {len(STACKS)} versions of transformers and {len(ADAPTERS)} of PEFT, {made} of {2 * len(names)} could be made')
    return len(names) - len(different), len(different)
