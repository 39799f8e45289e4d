"""Plans of plans.txt, their exports for every program, what the readers of exports found in them, and its comparison with the plans."""
import collections
import json
import pathlib
import re
import shutil

import programs
from reading import SCHEDULERS

HERE = pathlib.Path(__file__).resolve().parent

TARGETS = ('accelerate', 'deepspeed', 'torchrun', 'transformers', 'trl', 'torchtune', 'axolotl', 'llama-factory', *SCHEDULERS)
# Each driver with the programs that it imports. LLaMA-Factory takes transformers up to 5.8; axolotl is of a month when another release was the newest: its is said beside the answer.
SHARED = ('transformers-5', 'hub-1', 'peft-0.20', 'accelerate')
READERS = {'read_accelerate': (*SHARED, 'trl', 'torchtune', 'axolotl', 'llama-factory'),  # which a job's launch.sh asks for their versions
           'read_trl': (*SHARED, 'trl'), 'read_deepspeed': (*SHARED, 'deepspeed'), 'read_torchtune': (*SHARED, 'torchtune'),
           'read_axolotl': (*SHARED, 'trl', 'deepspeed', 'axolotl'),
           'read_llama_factory': ('transformers-5.8', *SHARED[1:], 'trl', 'deepspeed', 'llama-factory')}
OPTIMIZERS = {'adamw-fused': ('adamw_torch_fused', 'torch.optim.AdamW'), 'adamw-foreach': ('adamw_torch', 'torch.optim.AdamW'),
              'adamw-8bit': ('adamw_8bit', 'adamw_bnb_8bit'), 'adamw-torchao-8bit': ('adamw_torch_8bit',),
              'paged-adamw-8bit': ('paged_adamw_8bit', 'bitsandbytes.optim.PagedAdamW8bit')}
ATTENTION = {'sdpa': ('sdpa',), 'flash': ('flash_attention_2', 'fa2'), 'eager': ('eager', 'disabled')}


def question_of(place, name, words):
    """The flags of a plan; `PROGRAM:path`, first among them, is an example file of that program, which is read by --from."""
    program, _, path = words[0].partition(':')
    if not path or program not in place.table:
        return words
    file = place.path('files', name, pathlib.Path(path).name)
    file.parent.mkdir(parents=True, exist_ok=True)
    row = place.table[program]
    shown = programs.git(programs.find_repository(place.programs, row), 'show', f'{row.version}:{path}')
    if shown.returncode != 0:
        raise RuntimeError(f'plans.txt: {name}: {row.repository} has no {path} at {row.version}')
    file.write_bytes(shown.stdout)
    return ['--from', str(file), *words[1:]]


def write_exports(place):
    """Gives, per target, the plans that gpuplan exports, and the reasons for which it does not. A file's plan goes to its own trainer, and to schedulers."""
    folder = place.path('exports')
    shutil.rmtree(folder, ignore_errors=True)
    refused = {target: {} for target in TARGETS}
    for line in (HERE / 'plans.txt').read_text().splitlines():
        if not line or line[0] == '#':
            continue
        name, *words = line.split()
        (folder / name).mkdir(parents=True)
        flags = question_of(place, name, words)
        done = place.call('estimate', *flags, '--force', '--save', str(folder / name / 'plan.json'))
        if done.returncode != 0:
            raise RuntimeError(f'plans.txt: {name}: {done.stderr}')
        carried = json.loads((folder / name / 'plan.json').read_text()).get('carried') or {}
        for target in (carried['trainer'], *SCHEDULERS) if carried.get('trainer') in TARGETS else TARGETS:
            done = place.call('export', str(folder / name / 'plan.json'), '--for', target, '--output', str(folder / name / target))
            if done.returncode not in (0, 1):
                raise RuntimeError(f'{name} for {target}: {done.stderr}')
            if done.returncode != 0:
                refused[target][name] = done.stderr.splitlines()[0].removeprefix('gpuplan: ')
    return refused


def expected(plan):
    """The plan in the words of the readers; a tuple holds all words that mean it."""
    recipe, strategy = plan['recipe'], plan['strategy']
    lora, quant, offload = recipe['lora'], recipe['quant'], recipe['offload']
    bits = {'nf4': 4, 'int8': 8}.get(quant['kind'], 16)
    found = {'micro_batch': recipe['micro_batch'], 'grad_accum': recipe['grad_accum'], 'seq_len': recipe['seq_len'], 'method': recipe['method'],
             'checkpointing': recipe['checkpointing'] != 'none', 'packing': 'packed' if recipe['packing'] == 'packed' else 'unpacked',
             'compile': recipe['torch_compile'], 'fp8': recipe['fp8_matmul'], 'base_bits': bits, 'processes': strategy['dp_shard'] * strategy['dp_replicate'],
             'engine': engine(strategy), 'offload_params': {'none': ('none', False), 'nvme': ('nvme',)}.get(offload['params'], ('cpu', True)),
             'optimizer': OPTIMIZERS.get(recipe['optimizer'], (recipe['optimizer'],)), 'attention': ATTENTION.get(recipe['attention'], (recipe['attention'],)),
             'model': plan['model']['id'], 'precision': precision(recipe),
             'engine_precision': precision({**recipe, 'fp8_matmul': False})[0]}  # DeepSpeed's file holds the 16 bits beside fp8
    if recipe['method'] != 'full':
        found.update(lora_rank=lora['rank'], lora_alpha=lora['alpha'], lora_dropout=lora['dropout'], lora_dora=lora['is_dora'],
                     lora_targets=(sorted(lora['targets']), ['all'] if lora['targets'] == ['all-linear'] else None), lora_saved=sorted(lora['modules_to_save']))
    return found


def precision(recipe):
    """Weights of 16 bits alone are computed without autocast."""
    if recipe['fp8_matmul']:
        return ('fp8',)
    return {'bf16-mixed': ('bf16',), 'bf16-true': ('pure bf16', 'no'), 'fp16-mixed': ('fp16',), 'fp32': ('fp32', 'no')}[recipe['precision']]


def engine(strategy):
    if strategy['name'].startswith('zero'):
        return f'zero{strategy["zero_stage"]}'
    return f'fsdp{strategy["fsdp_version"]}' if strategy['fsdp_version'] else 'ddp or one'


def is_left_to_script(folder, flag):
    """Says whether a comment of the files leaves a flag of the plan to the user's script."""
    comments = ' '.join(line for file in folder.iterdir() for line in file.read_text().splitlines() if "The rest of the plan is your script's:" in line)
    return re.search(rf'{flag}\b', comments) is not None


def differences(read, plan, folder):
    """Lines of what the program read otherwise."""
    wanted = expected(plan)
    if is_left_to_script(folder, '--fp8'):
        wanted['precision'] = (wanted['engine_precision'],)
    carried = (plan.get('carried') or {}).get('settings', {})
    wanted |= {key: float(carried[key]) for key in ('learning_rate',) if key in carried}
    lines = []
    if 'data' in read and not read['data']:
        lines.append('no data set is named')
    for key, value in read.items():
        if key not in wanted or value is None and key == 'attention':
            continue
        ways = wanted[key] if isinstance(wanted[key], tuple) else (wanted[key],)
        if not any(same(value, way) for way in ways):
            lines.append(f'{key}: {value}, the plan has {ways[0]}')
    return lines


def same(one, other):
    return float(one) == float(other) if isinstance(one, (int, float)) and isinstance(other, (int, float)) else one == other


def compare_exports(place, args):
    """An export passes that its program takes and reads as the plan says. A line per program, then one per cause."""
    refused = write_exports(place)
    causes, counted = collections.defaultdict(list), collections.Counter()
    failed = set()
    for driver, names in READERS.items():
        said, _ = (process := place.start(driver, names, f'/work/{driver}.jsonl')).communicate()
        if process.returncode != 0:
            raise RuntimeError(f'{driver}.py: {said[-3000:]}')
        print(f'{driver}: {said.splitlines()[-1]}')
        for row in map(json.loads, place.path(f'{driver}.jsonl').read_text().splitlines()):
            plan = json.loads(place.path('exports', row['plan'], 'plan.json').read_text())
            problems = [row['refused']] if 'refused' in row else differences(row['read'], plan, place.path('exports', row['plan'], row['target']))
            for problem in problems:
                causes[row['target'], 'refused' if 'refused' in row else 'read otherwise', problem].append(row['plan'])
                failed.add((row['target'], row['plan']))
    for target in TARGETS:
        exported = len([path for path in place.path('exports').glob(f'*/{target}')])
        counted['passed'] += exported - sum(name == target for name, _ in failed)
        print(f'{target:<14} {exported:2} exported, {len(refused[target]):2} not, as the plan cannot be said; '
              f'{sum(name == target for name, _ in failed):2} refused or read otherwise')
    for (target, kind, problem), plans in sorted(causes.items()):
        print(f'{target}: {kind}: {problem}\n    {" ".join(sorted(plans))}')
    return counted['passed'], len(failed)
