#!/usr/bin/env python3
"""How far off `gpuplan run` is: predicted against measured step time and memory over strategies, methods and CPU ranks.

    build/release/gpuplan calibrate --quick
    bench/run_matrix.py build/release/gpuplan [--ranks 1,2,4] [--methods full,lora,qlora] [--steps 12] [--rounds 3] [--json FILE]

Every row is one run of a Llama of 6.6M parameters with random weights and tokens, predicted with the profile that `gpuplan run` takes by
itself (GPUPLAN_PROFILE_DIR). What runs keep beside that profile would correct later rows: --cold hides it, so that every row is
predicted by the calibration alone. A busy machine shows as errors: measure on a quiet one. --rounds goes through all of it again and
again: every run counts as a run, and then, for each row, the medians over the rounds. The order of strategies is a matter of these.
"""
import argparse
import copy
import itertools
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from typing import Dict, List, Tuple

CONFIG = {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': 256, 'intermediate_size': 688, 'num_hidden_layers': 8,
          'num_attention_heads': 8, 'num_key_value_heads': 8, 'vocab_size': 512, 'max_position_embeddings': 2048, 'rms_norm_eps': 1e-5,
          'hidden_act': 'silu', 'tie_word_embeddings': False, 'torch_dtype': 'float32'}
STRATEGIES = ('mp', 'ddp', 'zero1', 'zero2', 'zero3', 'fsdp', 'fsdp-grad-op')
NEAR = 0.15        # a step predicted within this counts
DIFFERENT = 0.10   # strategies closer than this in time have no order


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('gpuplan')
    parser.add_argument('--ranks', default='1,2,4')
    parser.add_argument('--methods', default='full,lora,qlora')
    parser.add_argument('--strategies', default=','.join(STRATEGIES))
    parser.add_argument('--steps', type=int, default=12)
    parser.add_argument('--rounds', type=int, default=1)
    parser.add_argument('--seq-len', type=int, default=256)
    parser.add_argument('--micro-batch', type=int, default=2)
    parser.add_argument('--cold', action='store_true', help='no corrections by earlier runs, and none kept')
    parser.add_argument('--json', metavar='FILE', help='write every row here')
    return parser.parse_args()


def measure(args: argparse.Namespace, model: str, method: str, strategy: str, ranks: int, environment: Dict[str, str]) -> Dict:
    command = [args.gpuplan, 'run', '--model', model, '--init', 'random', f'--{method}', '--precision', 'fp32', '--gpus', f'{ranks}xcpu',
               '--strategy', strategy, '--seq-len', str(args.seq_len), '--micro-batch', str(args.micro_batch),
               '--max-steps', str(args.steps), '--json']
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    row = {'method': method, 'strategy': strategy, 'ranks': ranks}
    if done.returncode != 0:
        return {**row, 'problem': done.stderr.strip().splitlines()[-1]}
    report = json.loads(done.stdout)
    return {**row, **{key: report[key] for key in ('predicted', 'measured', 'error')}}


def line_of(row: Dict) -> str:
    name = f"{row['ranks']} x cpu  {row['method']:<6} {row['strategy']:<13}"
    if 'problem' in row:
        return f"{name} {row['problem']}"
    p, m, e = (row[key] for key in ('predicted', 'measured', 'error'))
    return (f"{name} step {1e3 * p['step_seconds']:8.1f} ms  {1e3 * m['step_seconds']:8.1f} ms  {100 * e['step_seconds']:+6.1f} %   "
            f"tensors {100 * e['tensors_bytes']:+5.1f} %  process {100 * e['process_bytes']:+6.1f} %")


def medians(rows: List[Dict]) -> List[Dict]:
    """One row for each configuration: its median step times, and what else its first run gave."""
    groups: Dict[tuple, List[Dict]] = {}
    for row in rows:
        groups.setdefault((row['ranks'], row['method'], row['strategy']), []).append(row)
    out = []
    for group in groups.values():
        row = copy.deepcopy(group[0])
        for key in ('predicted', 'measured'):
            row[key]['step_seconds'] = statistics.median(r[key]['step_seconds'] for r in group)
        row['error']['step_seconds'] = row['predicted']['step_seconds'] / row['measured']['step_seconds'] - 1
        out.append(row)
    return out


def wrong_orders(rows: List[Dict]) -> Tuple[int, List[str]]:
    """How many pairs of strategies, other things equal, differ in measured time, and which of them are predicted the other way round."""
    num_pairs, wrong = 0, []
    for a, b in itertools.combinations(rows, 2):
        if (a['method'], a['ranks']) != (b['method'], b['ranks']):
            continue
        measured, predicted = (a[key]['step_seconds'] / b[key]['step_seconds'] for key in ('measured', 'predicted'))
        if max(measured, 1 / measured) <= 1 + DIFFERENT:
            continue
        num_pairs += 1
        if (measured > 1) != (predicted > 1):
            wrong.append(f"{a['ranks']} x cpu {a['method']}: {a['strategy']} and {b['strategy']} "
                         f"(measured {measured:.2f}, predicted {predicted:.2f})")
    return num_pairs, wrong


def ratio_text(rows: List[Dict]) -> str:
    """Predicted over measured step time: the median, and the interval that holds it with 95 % (order statistics)."""
    ratios = sorted(row['predicted']['step_seconds'] / row['measured']['step_seconds'] for row in rows)
    n, rank = len(ratios), 0
    while n and sum(math.comb(n, k) for k in range(rank + 1)) <= 0.025 * 2 ** n:
        rank += 1
    text = f'{statistics.median(ratios):.3f}'
    return text + (f' ({ratios[rank - 1]:.3f} to {ratios[n - rank]:.3f})' if rank else ' (too few runs for an interval)')


def summarise(title: str, rows: List[Dict]) -> None:
    if not rows:
        return print(f'\n{title}: nothing ran')
    def within(key: str, limit: float) -> str:
        return f"{sum(abs(row['error'][key]) <= limit for row in rows)} of {len(rows)} within {100 * limit:g} %"
    errors = sorted(abs(row['error']['step_seconds']) for row in rows)
    print(f"\n{title}: step time: {within('step_seconds', NEAR)}; process memory: {within('process_bytes', 0.10)}; "
          f"tensors: {within('tensors_bytes', 0.03)}; persistent: {within('persistent_bytes', 0)}")
    print(f"  predicted over measured step time: {ratio_text(rows)}; median error {100 * statistics.median(errors):.1f} %, "
          f"largest {100 * errors[-1]:.1f} %")


def summarise_all(rows: List[Dict]) -> None:
    ran = [row for row in rows if 'problem' not in row]
    summarise('runs', ran)
    middle = medians(ran)
    if len(middle) < len(ran):
        summarise('medians of each configuration', middle)
    tell_order(middle)


def tell_order(rows: List[Dict]) -> None:
    num_pairs, wrong = wrong_orders(rows)
    print(f'order of strategies: right for {num_pairs - len(wrong)} of the {num_pairs} pairs that differ by more than 10 %'
          + ('' if not wrong else '; wrong: ' + '; '.join(wrong)))


def cold_environment(scratch: str) -> Dict[str, str]:
    """With the user's profiles, and without the runs beside them."""
    share = os.environ.get('XDG_DATA_HOME') or os.path.expanduser('~/.local/share')
    target = os.path.join(scratch, 'profiles')
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(os.environ.get('GPUPLAN_PROFILE_DIR') or os.path.join(share, 'gpuplan', 'profiles'), target,
                    ignore=shutil.ignore_patterns('*.runs.jsonl'))
    return {**os.environ, 'GPUPLAN_PROFILE_DIR': target}


def save(path: str, rows: List[Dict]) -> None:
    """After every run: one that is stopped loses nothing."""
    with open(path + '.part', 'w', encoding='utf-8') as file:
        json.dump(rows, file, indent=1)
    os.replace(path + '.part', path)


def main() -> None:
    args = parse_arguments()
    rows: List[Dict] = []
    with tempfile.TemporaryDirectory() as scratch:
        model = os.path.join(scratch, 'llama-6.6m')
        os.mkdir(model)
        with open(os.path.join(model, 'config.json'), 'w', encoding='utf-8') as file:
            json.dump(CONFIG, file)
        for _, ranks, method in itertools.product(range(args.rounds), args.ranks.split(','), args.methods.split(',')):
            for strategy in ['single'] if ranks == '1' else args.strategies.split(','):
                environment = cold_environment(scratch) if args.cold else dict(os.environ)
                rows.append(measure(args, model, method, strategy, int(ranks), environment))
                print(line_of(rows[-1]), flush=True)
                if args.json:
                    save(args.json, rows)
    summarise_all(rows)


if __name__ == '__main__':
    sys.exit(main())
