#!/usr/bin/env python3
"""What scripts/gpu_day.sh measured, judged.

    gpu_day_report.py --table DIR…          the table of all stages, for people
    gpu_day_report.py --missed DIR…         the same judgement as an exit code: 1 when something failed or missed its limit
    gpu_day_report.py --write ROOT DIR…     into the clone at ROOT: data/validation/own/gpu_day_{memory,speed}.jsonl, data/profiles/<GPU>.yaml,
                                            docs/gpu.md; prints what failed. A rehearsal is not written into this clone.

DIR: folders with stage-NN.jsonl; of a case that is in several, the last counts. Needs the standard library alone.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import sys
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NUM_STAGES = 13
NAMES = {1: 'start', 2: 'kernels', 3: 'calibrate', 4: 'losses', 5: 'memory', 6: 'speed', 7: '8B', 8: 'accelerate', 9: 'switches', 10: 'shared GPU', 11: 'mixtures',
         12: 'ZeRO-2', 13: 'block'}
# The limits of an answer that is right.
FP32_LOSS, BF16_LOSS = 1e-3, 1e-2   # largest relative error of a step's loss; bf16: or twice the peer's own spread
ALLOCATED, PROCESS, STEP = 0.03, 0.05, 0.10  # |predicted / measured - 1|; the step where the profile was calibrated
MIXTURE, MIXTURE_STEP = 0.15, 2.0    # of the peer's run with experts as one product: bytes, and the factor of a step
SPEED_FLOOR = 0.8                    # tokens/s over the peer's, at no more memory
GIB = 2**30
POINT_GPUS = {'H100 NVL': 'H100-NVL', 'H100 PCIe': 'H100-PCIE-80GB', 'H100': 'H100-SXM-80GB', 'H200': 'H200-SXM-141GB'}


@dataclass
class Row:
    """A line of the table. `verdict`: ok, MISSED, FAILED, skipped, or '' where nothing is claimed."""
    stage: int
    what: str
    figure: str
    verdict: str


def read(folders: List[str]) -> List[dict]:
    """Records of all stages, the latest of each case."""
    latest: Dict[tuple, dict] = {}
    for folder in dict.fromkeys(map(os.path.abspath, folders)):
        for stage in range(1, NUM_STAGES + 1):
            path = os.path.join(folder, f'stage-{stage:02d}.jsonl')
            for record in lines_of(path):
                latest[(stage, record['kind'], record.get('case'), record.get('who'))] = record
    return sorted(latest.values(), key=lambda record: record['stage'])


def lines_of(path: str) -> List[dict]:
    if not os.path.exists(path):
        return []
    with open(path, 'rb') as file:
        whole = file.read().decode(errors='replace').split('\n')[:-1]
    return [json.loads(line) for line in whole if line]


# --- judging -----------------------------------------------------------------------------------------------------------------------

def runs_of(records: List[dict], stage: int) -> Dict[str, Dict[str, dict]]:
    """By case, then by who ran it."""
    out: Dict[str, Dict[str, dict]] = {}
    for record in records:
        if record['kind'] == 'run' and record['stage'] == stage:
            out.setdefault(record['case'], {})[record['who']] = record
    return out


def worst(ours: List[float], theirs: List[float]) -> float:
    """Largest relative difference; infinite where one has a step more, or a figure is no number."""
    if len(ours) != len(theirs) or not ours:
        return float('inf')
    errors = [abs(a - b) / max(abs(b), 1e-12) for a, b in zip(ours, theirs)]
    return max(error if error == error else float('inf') for error in errors)


def verdict(is_good: bool) -> str:
    return 'ok' if is_good else 'MISSED'


def judge(records: List[dict]) -> List[Row]:
    rows = [of_check(record) for record in records if record['kind'] == 'check']
    rows += [Row(record['stage'], f'{record["case"]} ({record["who"]})', record.get('reason', ''), 'FAILED')
             for record in records if record['kind'] == 'run' and record['status'] != 'done']
    good = [record for record in records if record.get('status') == 'done']
    for case, runs in runs_of(good, 2).items():
        rows += of_losses(2, case, runs, 'cpu', 'fp32' in case)
    spread = spread_of(good)
    for case, runs in runs_of(good, 4).items():
        rows += of_losses(4, case, runs, 'peft', 'fp32' in case, spread)
    for stage in (4, 5, 6, 7, 9):
        for case, runs in runs_of(good, stage).items():
            if 'gpuplan' in runs:
                rows += of_prediction(stage, case, runs['gpuplan'])
    rows += of_speed(good, 6) + of_speed(good, 7) + of_switches(good) + of_mixtures(good) + of_zero_2(good) + of_block(good)
    ended = {record['stage'] for record in records if record['kind'] == 'end'}
    begun = {record['stage'] for record in records}
    rows += [Row(stage, 'the whole stage', 'begun, not finished' if stage in begun else 'not run', 'FAILED' if stage in begun else 'skipped')
             for stage in range(1, NUM_STAGES + 1) if stage not in ended]
    return sorted(rows, key=lambda row: row.stage)


def of_check(record: dict) -> Row:
    words = {'passed': 'ok', 'failed': 'FAILED', 'killed': 'FAILED', 'skipped': 'skipped'}
    text = record.get('reason') or f'{record.get("seconds", 0):.1f} s  {record.get("detail", "")}'
    return Row(record['stage'], record['case'], ' '.join(text.split())[:140], words[record['status']])


def spread_of(good: List[dict]) -> float:
    """What another attention kernel does to the peer's own losses."""
    runs = runs_of(good, 4).get('lora bf16', {})
    if 'peft' not in runs or 'peft, eager attention' not in runs:
        return 0.0
    return worst(runs['peft, eager attention']['losses'], runs['peft']['losses'])


def of_losses(stage: int, case: str, runs: Dict[str, dict], other: str, is_fp32: bool, spread: float = 0.0) -> List[Row]:
    if 'gpuplan' not in runs or other not in runs:
        return []
    error = worst(runs['gpuplan']['losses'], runs[other]['losses'])
    limit = FP32_LOSS if is_fp32 else max(BF16_LOSS, 2 * spread)
    text = f'worst of {len(runs["gpuplan"]["losses"])} steps {error:.1e} (limit {limit:.1e})'
    return [Row(stage, f'{case}: losses beside {other}', text, verdict(error <= limit))]


def of_prediction(stage: int, case: str, run: dict) -> List[Row]:
    error = run['report']['error']
    is_calibrated = '--profile' in run['command']
    parts = [('allocated', 'tensors_bytes', ALLOCATED), ('process', 'process_bytes', PROCESS), ('step', 'step_seconds', STEP)]
    texts, is_good = [], True
    for name, key, limit in parts:
        judged = name != 'step' or is_calibrated
        is_good &= not judged or abs(error[key]) <= limit
        texts.append(f'{name} {100 * error[key]:+.1f} %' + ('' if judged else ' (not calibrated)'))
    return [Row(stage, f'{case}: predicted over measured', ', '.join(texts), verdict(is_good))]


def of_speed(good: List[dict], stage: int) -> List[Row]:
    turns: Dict[str, List[Tuple[dict, dict]]] = {}
    for case, runs in runs_of(good, stage).items():
        if 'gpuplan' in runs and 'peft' in runs:
            turns.setdefault(case.split(', turn')[0], []).append((runs['gpuplan'], runs['peft']))
    rows = []
    for case, pairs in turns.items():
        ours = [run['report']['tokens_per_second'] for run, _ in pairs]
        theirs = [run['result']['tokens_per_second'] for _, run in pairs]
        ratio = statistics.median(a / b for a, b in zip(ours, theirs))
        text = f'{statistics.median(ours):,.0f} against {statistics.median(theirs):,.0f} tokens/s: {ratio:.2f} x (at least {SPEED_FLOOR})'
        rows.append(Row(stage, f'{case}: speed beside peft', text, verdict(ratio >= SPEED_FLOOR)))
        own, peer = (max(value) for value in zip(*((a['report']['measured']['tensors_bytes'], b['result']['allocated_bytes']) for a, b in pairs)))
        text = f'{own / GIB:.2f} against {peer / GIB:.2f} GiB allocated'
        rows.append(Row(stage, f'{case}: memory beside peft', text, verdict(own <= peer) if peer else ''))
    return rows


def of_switches(good: List[dict]) -> List[Row]:
    """What CUDA graphs gain, with biases (whose sums cuBLASLt's epilogues make) and without. Nothing is claimed of it."""
    steps: Dict[Tuple[str, str], List[float]] = {}
    for case, runs in runs_of(good, 9).items():
        if 'gpuplan' in runs:
            what, graphs, _ = case.split(', ')
            steps.setdefault((what, graphs), []).append(runs['gpuplan']['report']['measured']['step_seconds'])
    rows = []
    for what in sorted({what for what, _ in steps}):
        if (what, 'graphs') in steps and (what, 'no graphs') in steps:
            on, off = (statistics.median(steps[(what, graphs)]) for graphs in ('graphs', 'no graphs'))
            rows.append(Row(9, f'{what}: step with CUDA graphs and without', f'{1e3 * on:.2f} and {1e3 * off:.2f} ms: {off / on:.2f} x', ''))
    return rows


def of_mixtures(good: List[dict]) -> List[Row]:
    """Memory is judged where the experts are one product: a loop over stacked experts is predicted as one over modules."""
    rows, steps = [], {}
    for case, runs in runs_of(good, 11).items():
        if 'peft' not in runs or 'predicted' not in runs:
            continue
        measured, predicted = runs['peft']['result'], runs['predicted']['result']
        step = predicted['step_seconds'] / measured['step_seconds']
        steps[case] = (predicted['step_seconds'], measured['step_seconds'])
        memory = predicted['tensors_bytes'] / measured['allocated_bytes'] - 1 if measured['allocated_bytes'] else 0.0
        is_good = 1 / MIXTURE_STEP <= step <= MIXTURE_STEP and (abs(memory) <= MIXTURE or not case.endswith('one product'))
        rows.append(Row(11, f'{case}: predicted over measured', f'allocated {100 * memory:+.1f} %, step {step:.2f} x', verdict(is_good)))
    for method in ('lora', 'qlora'):
        loop, product = (steps.get(f'mixture {method}, {name}') for name in ('loop', 'one product'))
        if loop and product:
            text = f'{loop[1] / product[1]:.2f} x, predicted {loop[0] / product[0]:.2f} x'
            rows.append(Row(11, f'mixture {method}: a loop over one product', text, ''))
    return rows


def of_zero_2(good: List[dict]) -> List[Row]:
    steps = [runs['peft']['result']['step_seconds'] for _, runs in sorted(runs_of(good, 12).items()) if 'peft' in runs]
    if len(steps) != 2:
        return []
    beside, waited = steps
    return [Row(12, 'ZeRO-2: step with reductions beside compute and waited for', f'{1e3 * beside:.1f} and {1e3 * waited:.1f} ms: {waited / beside:.2f} x',
                verdict(waited >= 0.95 * beside))]


def of_block(good: List[dict]) -> List[Row]:
    rows = []
    for case, runs in runs_of(good, 13).items():
        result = runs['block']['result']
        if 'compiled_seconds' in result:
            eager, compiled = result['eager_seconds'], result['compiled_seconds']
            rows.append(Row(13, f'{case}: eager and compiled', f'{1e3 * eager:.2f} and {1e3 * compiled:.2f} ms: {eager / compiled:.2f} x', ''))
    return rows


def is_miss(row: Row) -> bool:
    return row.verdict in ('MISSED', 'FAILED')


def table(rows: List[Row]) -> str:
    width = min(64, max((len(row.what) for row in rows), default=0))
    lines = [f'{row.stage:>2} {NAMES[row.stage]:<10} {row.verdict:<7} {row.what:<{width}}  {row.figure}' for row in rows]
    counts = {word: sum(row.verdict == word for row in rows) for word in ('ok', 'MISSED', 'FAILED', 'skipped')}
    return '\n'.join(lines + [', '.join(f'{count} {word}' for word, count in counts.items())])


# --- writing -----------------------------------------------------------------------------------------------------------------------

def facts_of(records: List[dict]) -> dict:
    return next((record for record in records if record['kind'] == 'facts'), {})


def point_gpu(facts: dict) -> Optional[str]:
    return next((name for text, name in POINT_GPUS.items() if text in facts.get('nvidia_smi', '')), None)


def versions_text(facts: dict) -> str:
    peer = facts.get('peer', {})
    driver = (facts.get('nvidia_smi', '').split(', ') + ['', ''])[1]
    named = [f'{name} {peer[name]}' for name in ('torch', 'transformers', 'peft', 'cuda', 'nccl') if peer.get(name)]
    return ', '.join([facts.get('gpuplan', 'gpuplan'), f'driver {driver}', *named])


def flag(command: str, name: str, otherwise: str = '') -> str:
    found = re.search(rf'--{name}[ =]([^ ]+)', command)
    return found.group(1) if found else otherwise


def points(records: List[dict]) -> Tuple[List[dict], List[dict]]:
    """Memory and speed points, in the form of data/validation/README.md, of runs of a named model on a GPU."""
    facts, memory, speed = facts_of(records), [], []
    gpu = point_gpu(facts)
    if gpu is None:
        return [], []
    for run in records:
        if run['kind'] != 'run' or run['status'] != 'done' or run['stage'] < 4 or run['who'] not in ('gpuplan', 'peft'):
            continue
        if '--zero-2' in run['command']:  # of several GPUs
            continue
        model = next((name for name in ('llama-3.2-1b', 'llama-3-8b') if f'/{name} ' in run['command']), None)
        if model is None:
            continue
        common = common_fields(run, facts, gpu, model)
        if run['who'] == 'gpuplan' or run['result']['allocated_bytes']:  # a rehearsal's peer has no GPU
            memory.append({**common, 'id': common['id'] + '-memory', **memory_fields(run)})
        speed.append({**common, 'id': common['id'] + '-speed', **speed_fields(run, common)})
    return memory, speed


def common_fields(run: dict, facts: dict, gpu: str, model: str) -> dict:
    command, is_ours = run['command'], run['who'] == 'gpuplan'
    method = next(name for name in ('qlora', 'lora', 'full') if f'--{name}' in command or f'--method {name}' in command)
    precision = flag(command, 'precision', 'bf16-mixed')
    where = f'{run["stage"]}-{run["case"]}-{run["who"]}'
    return {
        'id': 'gpu-day-' + run['time'][:10] + '-' + re.sub(r'[^a-z0-9.]+', '-', where.lower()).strip('-'),
        'source': 'gpuplan GPU day' + (' (REHEARSAL on a fake GPU)' if run['rehearsal'] else ''), 'source_key': 'gpu_day',
        'source_ref': f'scripts/gpu_day.sh, {run["time"]}: {command}', 'versions': versions_text(facts), 'date': run['time'][:10],
        'model': model, 'method': method, 'quant': 'nf4-dq' if method == 'qlora' else None,
        'lora': None if method == 'full' else {'r': 8, 'alpha': 16, 'target_modules': 'all-linear'}, 'optimizer': 'adamw',
        'micro_batch_size': int(flag(command, 'micro-batch')), 'seq_len': int(flag(command, 'seq-len')), 'grad_accum': 1, 'attention': 'sdpa',
        'framework': 'native' if is_ours else 'transformers+peft (plain loop)', 'strategy': 'single', 'num_gpus': 1, 'gpu': gpu,
        'cpu_offload': False, 'trust': 'high', 'group': f'gpu-day-{model}-{run["who"]}',
        'norm': {'loss': 'plain', 'precision': precision, 'checkpointing': 'full' if '--checkpointing' in command else 'none', 'length': 'packed',
                 'framework': 'native' if is_ours else 'hf-loop', 'attention': 'flash2', 'software': 'handwritten' if is_ours else 'eager',
                 'matmul': None, 'offload': [], 'family': 'single', 'degrees': {}}}


def memory_fields(run: dict) -> dict:
    if run['who'] == 'gpuplan':
        measured = run['report']['measured']
        allocated, process = measured['tensors_bytes'], measured['process_bytes']
    else:
        allocated, process = run['result']['allocated_bytes'], run['result']['process_bytes']
    others = {'nvidia-smi': round(process / GIB, 4)} if process else {}
    return {'peak_memory_gib': round(allocated / GIB, 6), 'memory_metric': 'max_allocated', 'peak_alt_gib': others or None, 'outcome': 'ok',
            'boundary': None, 'gpu_mem_gib': None, 'fully_specified': bool(allocated) and is_whole_qlora(run), 'in_scope': True,
            'use_for_scoring': bool(allocated) and is_whole_qlora(run)}


def is_whole_qlora(run: dict) -> bool:
    """Not the peer's stand-in for 4 bits, which is right for losses alone."""
    return run['who'] == 'gpuplan' or run['result'].get('four_bits') in ('', 'bitsandbytes')


def speed_fields(run: dict, common: dict) -> dict:
    step = run['report']['measured']['step_seconds'] if run['who'] == 'gpuplan' else run['result']['step_seconds']
    tokens = common['micro_batch_size'] * common['seq_len']
    return {'spec_level': 'full' if is_whole_qlora(run) else 'partial', 'target': {'metric': 'step_time_s', 'value': step}, 'gpus_per_node': 1,
            'derived': {'tokens_per_step': tokens, 'step_time_s': step}, 'compile': False}


def page(records: List[dict], rows: List[Row]) -> str:
    facts = facts_of(records)
    dates = sorted({record['time'][:10] for record in records})
    lines = ['# On a real GPU', '', f'Measured by `scripts/gpu_day.sh` on {", ".join(dates)}: {facts.get("nvidia_smi", "no facts")}; '
             f'{versions_text(facts)}. Written by `scripts/gpu_day_report.py`; points are in `data/validation/own`.', '']
    if any(record['rehearsal'] for record in records):
        lines[2:2] = ['**A rehearsal on a fake GPU: no figure on this page says anything of a GPU.**', '']
    for stage in range(1, NUM_STAGES + 1):
        own = [row for row in rows if row.stage == stage]
        lines += [f'## {stage}. {NAMES[stage]}', '', '| what | figure | verdict |', '| --- | --- | --- |']
        lines += ['| ' + ' | '.join(text.replace('|', '\\|') for text in (row.what, row.figure, row.verdict)) + ' |' for row in own] + ['']
    lines += ['## Predicted and measured, by part', '', '| run | part | predicted | measured |', '| --- | --- | ---: | ---: |']
    for record in records:
        if record['kind'] == 'run' and record['status'] == 'done' and record['who'] == 'gpuplan' and record['stage'] >= 4:
            predicted, measured = record['report']['predicted'], record['report']['measured']
            lines += [f'| {record["case"]} | {part_name(key)} | {amount(key, predicted[key])} | {amount(key, measured[key])} |'
                      for key in predicted if key in measured]
    return '\n'.join(lines) + '\n'


def part_name(key: str) -> str:
    return key.replace('_bytes', '').replace('_seconds', '').replace('_', ' ')


def amount(key: str, value: float) -> str:
    return f'{value / GIB:.3f} GiB' if key.endswith('_bytes') else f'{1e3 * value:.3f} ms'


def write(root: str, folders: List[str], records: List[dict], rows: List[Row]) -> List[str]:
    """Writes what the header says; returns the files."""
    is_rehearsal = any(record['rehearsal'] for record in records)
    if is_rehearsal and os.path.realpath(root) == os.path.realpath(ROOT):
        raise SystemExit('gpu_day_report.py: these are results of a rehearsal; they are not written into this clone')
    for folder in ('data/validation/own', 'data/profiles', 'docs'):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    written = []
    memory, speed = points(records)
    for name, made in (('memory', memory), ('speed', speed)):
        if made:
            written.append(put(root, f'data/validation/own/gpu_day_{name}.jsonl', ''.join(json.dumps(point) + '\n' for point in made)))
    gpu = (point_gpu(facts_of(records)) or 'unknown').lower()
    for name in ('profile-quick.yaml', 'profile-full.yaml'):  # the full one replaces the quick one
        for folder in folders:
            if os.path.exists(os.path.join(folder, name)):
                target = os.path.join(root, 'data', 'profiles', f'{gpu}-measured.yaml')
                shutil.copyfile(os.path.join(folder, name), target)
                written.append(target)
    written.append(put(root, 'docs/gpu.md', page(records, rows)))
    return list(dict.fromkeys(written))


def put(root: str, name: str, text: str) -> str:
    path = os.path.join(root, name)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument('--table', action='store_true')
    what.add_argument('--missed', action='store_true')
    what.add_argument('--write', metavar='ROOT')
    parser.add_argument('folders', metavar='DIR', nargs='+')
    args = parser.parse_args()
    records = read(args.folders)
    rows = judge(records)
    if args.table:
        print(table(rows))
        return 0
    if args.missed:
        return 1 if any(is_miss(row) and row.figure != 'not run' for row in rows) else 0
    for path in write(args.write, args.folders, records, rows):
        print(path)
    failed = [row for row in rows if is_miss(row)]
    print(f'{len(failed)} failed or missed:' if failed else 'nothing failed')
    for row in failed:
        print(f'  stage {row.stage}, {row.what}: {row.figure}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
