#!/usr/bin/python3
"""Runs `gpuplan run` and reference.py on the same models, tokens and flags, and compares losses, gradient norms and what is saved.

    compare.py --gpuplan build/release/gpuplan [--only TEXT] [--keep DIR]
    compare.py --self        reference.py in double precision stands in for gpuplan: what rounding alone does

A line per case with the largest relative error of each; the exit code is 1 when one is over its limit or a run failed. Saved
tensors are compared by their updates: ||ours - theirs|| / ||theirs - start||, the worst tensor's.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Dict, List, Optional

import torch

import reference
from adapters import PREFIX, parse_lora
from make_model import make_config, write_adapter, write_completions, write_model, write_pairs, write_score, write_tokens
from tensor_file import Tensors, read_folder

STEPS = 20
SEQ_LEN = 64
SEED = 7
TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Limits:
    """The largest relative errors that pass. Issue 6 asks for 1e-3 of losses; this is ten times stricter, because weight decay on
    norms, another eps or beta2, or no double quantisation move them by 1e-4 to 4e-4 only, and fp32 rounding by less than 1e-6."""
    loss: float = 1e-4
    grad_norm: float = 1e-3
    lr: float = 1e-6
    saved: float = 1e-2


# bf16 keeps 8 bits: a product's sums may be rounded at other places, and 20 steps of Adam carry that on.
BF16 = Limits(loss=1e-2, grad_norm=1e-1, saved=0.3)
# A pair's loss is the difference of two answers: rounding to bf16 alone moves it by some 5 % (--self).
BF16_PAIRS = Limits(loss=1e-1, grad_norm=1e-1, saved=0.3)
# Weights of bf16 near 1 move in steps of 0.008, more than a learning rate: which of them move is chance.
BF16_WEIGHTS = Limits(loss=2e-2, grad_norm=1e-1, saved=float('inf'))


@dataclass(frozen=True)
class Case:
    name: str
    kind: str                                     # of make_model.py
    method: str = 'full'                          # full, lora, qlora
    flags: Dict[str, str] = field(default_factory=dict)  # as both programs spell them
    lora: str = 'r=8,alpha=16'
    strategy: str = 'single'
    ranks: int = 1
    precision: str = 'fp32'
    changes: Dict[str, object] = field(default_factory=dict)  # of config.json
    dtype: torch.dtype = torch.float32            # of the model's file
    limits: Limits = Limits()
    trained_for: str = 'sft'                      # --method of both programs
    reference: Optional[str] = None               # --ref of gpuplan; precomputed: the file has its log-probs, and the old ones


def flags(**values: object) -> Dict[str, str]:
    return {name.replace('_', '-'): str(value) for name, value in values.items()}


# Each architecture, method and rule at least once; what is alike in many models is not repeated.
CASES = [
    Case('llama full', 'llama'),
    Case('llama full, accumulation 2, linear, decay', 'llama', flags=flags(grad_accum=2, schedule='linear', warmup=4, weight_decay=0.1)),
    Case('llama full, cosine, clip 0.1', 'llama', flags=flags(schedule='cosine', warmup=5, clip=0.1)),
    Case('llama full, no clipping, one row', 'llama', flags=flags(clip=0, micro_batch=1)),
    Case('llama full, odd sizes', 'llama-odd', flags=flags(seq_len=37, micro_batch=3)),
    Case('llama full, weights of bf16', 'llama', dtype=torch.bfloat16),
    Case('llama tied, heads not shared', 'llama-tied-mha', flags=flags(weight_decay=0.1)),
    Case('llama biases', 'llama-biases', flags=flags(weight_decay=0.1)),
    Case('llama linear rope', 'llama-linear-rope'),
    Case('llama 3 rope', 'llama3-rope', flags=flags(schedule='cosine')),
    Case('mistral, sliding window', 'mistral'),
    Case('qwen2', 'qwen2', flags=flags(weight_decay=0.1, grad_accum=2)),
    Case('qwen3', 'qwen3', flags=flags(schedule='linear', warmup=2)),
    Case('llama lora', 'llama', 'lora'),
    Case('llama lora, q and v, accumulation 2', 'llama', 'lora', flags(grad_accum=2, schedule='cosine', warmup=3, weight_decay=0.1),
         lora='r=4,alpha=16,targets=q_proj+v_proj'),
    Case('llama lora, odd sizes', 'llama-odd', 'lora', flags(seq_len=37, micro_batch=3), lora='r=3,alpha=5'),
    Case('mistral lora', 'mistral', 'lora', flags(schedule='linear')),
    Case('qwen2 lora', 'qwen2', 'lora', flags(clip=0.1)),
    Case('qwen3 lora', 'qwen3', 'lora'),
    Case('llama qlora', 'llama', 'qlora'),
    Case('llama qlora, accumulation 2, cosine', 'llama', 'qlora', flags(grad_accum=2, schedule='cosine', warmup=3, weight_decay=0.1)),
    Case('llama biases qlora', 'llama-biases', 'qlora', flags(clip=0.1)),
    Case('llama qlora, odd sizes', 'llama-odd', 'qlora', flags(seq_len=37, micro_batch=3)),
    Case('qwen3 qlora, weights of bf16', 'qwen3', 'qlora', flags(schedule='linear'), dtype=torch.bfloat16),
    Case('llama full, checkpointing', 'llama', flags=flags(checkpointing='full')),
    Case('llama lora, checkpointing', 'llama', 'lora', flags(checkpointing='full')),
    Case('llama full, ddp of 2', 'llama', flags=flags(grad_accum=2), strategy='ddp', ranks=2),
    Case('qwen2 full, fsdp of 2', 'qwen2', flags=flags(weight_decay=0.1), strategy='fsdp', ranks=2),
    Case('llama qlora, zero2 of 2', 'llama', 'qlora', strategy='zero2', ranks=2),
    Case('llama full, dpo', 'llama', trained_for='dpo'),
    Case('qwen2 full, dpo, accumulation 2, beta 0.5', 'qwen2',
         flags=flags(grad_accum=2, beta=0.5, weight_decay=0.1, lr=1e-3), trained_for='dpo'),
    Case('llama lora, dpo, checkpointing', 'llama', 'lora', flags(checkpointing='full', schedule='linear'), trained_for='dpo'),
    Case('llama lora, dpo, cut answers', 'llama-odd', 'lora', flags(seq_len=37, micro_batch=3), trained_for='dpo'),
    Case('llama qlora, dpo', 'llama', 'qlora', trained_for='dpo'),
    Case('llama full, dpo, ddp of 2', 'llama', strategy='ddp', ranks=2, trained_for='dpo'),
    Case('llama lora, dpo, fsdp of 2', 'llama', 'lora', strategy='fsdp', ranks=2, trained_for='dpo'),
    Case('llama full, dpo, fsdp of 2', 'llama', strategy='fsdp', ranks=2, trained_for='dpo'),
    Case('llama full, dpo, zero3 of 2', 'llama', strategy='zero3', ranks=2, trained_for='dpo'),
    Case('llama full, dpo, bf16-mixed', 'llama', flags=flags(lr=3e-4), precision='bf16-mixed', limits=BF16_PAIRS, trained_for='dpo'),
    Case('llama lora, dpo, bf16-mixed', 'llama', 'lora', precision='bf16-mixed', limits=BF16, trained_for='dpo'),
    Case('llama full, reward', 'llama', flags=flags(beta=1, lr=3e-4), trained_for='reward'),
    Case('llama lora, reward, accumulation 2', 'llama', 'lora', flags(grad_accum=2, beta=1, lr=3e-4), trained_for='reward'),
    Case('mistral full, reward, zero2 of 2', 'mistral', flags=flags(beta=1, lr=3e-4), strategy='zero2', ranks=2, trained_for='reward'),
    Case('llama full, reward, bf16-mixed', 'llama', flags=flags(beta=1, lr=3e-4), precision='bf16-mixed', limits=BF16_PAIRS,
         trained_for='reward'),
    Case('llama full, grpo', 'llama', flags=flags(beta=0.04), trained_for='grpo'),
    Case('llama lora, grpo, accumulation 2', 'llama', 'lora', flags(grad_accum=2, beta=0.5), trained_for='grpo'),
    Case('llama full, grpo, given log-probs', 'llama', flags=flags(beta=0.3), trained_for='grpo', reference='precomputed'),
    Case('qwen3 lora, grpo, given log-probs, ddp of 2', 'qwen3', 'lora', flags(beta=0.04), strategy='ddp', ranks=2, trained_for='grpo',
         reference='precomputed'),
    Case('llama full, grpo, fsdp of 2', 'llama', flags=flags(beta=0.04), strategy='fsdp', ranks=2, trained_for='grpo'),
    Case('llama full, bf16-mixed', 'llama', precision='bf16-mixed', limits=BF16),
    Case('llama full, bf16-true', 'llama', precision='bf16-true', limits=BF16_WEIGHTS),
    Case('llama lora, bf16-mixed', 'llama', 'lora', precision='bf16-mixed', limits=BF16),
    Case('llama qlora, bf16-mixed', 'llama', 'qlora', precision='bf16-mixed', limits=BF16),
]

DEFAULTS = flags(seq_len=SEQ_LEN, micro_batch=2, grad_accum=1, max_steps=STEPS, lr=3e-3, schedule='constant', warmup=0,
                 weight_decay=0, clip=1)
OF_GPUPLAN_ALONE = ('checkpointing',)  # changes memory and time, not what is computed


# --- the two programs --------------------------------------------------------------------------------------------------------------

@dataclass
class Run:
    """What a program made of a case."""
    lines: List[dict]
    saved: Tensors


def prepare(case: Case, folder: str) -> None:
    """model/, the data and, unless everything is trained, adapter/ in `folder`."""
    config = make_config(case.kind, **case.changes)
    write_model(os.path.join(folder, 'model'), config, SEED, dtype=case.dtype)
    if case.trained_for == 'sft':
        write_tokens(os.path.join(folder, 'tokens.bin'), 12000, config['vocab_size'], SEED)
    elif case.trained_for == 'grpo':
        write_completions(os.path.join(folder, 'answers.jsonl'), 100, config['vocab_size'], SEED, case.reference == 'precomputed')
    else:
        write_pairs(os.path.join(folder, 'answers.jsonl'), 100, config['vocab_size'], SEED)
    if case.trained_for == 'reward':
        write_score(os.path.join(folder, 'model'), config, SEED)
    if case.method != 'full':
        write_adapter(os.path.join(folder, 'adapter'), config, parse_lora(case.lora), SEED)


def shared_arguments(case: Case, folder: str) -> List[str]:
    """What both programs are told."""
    data = 'tokens.bin' if case.trained_for == 'sft' else 'answers.jsonl'
    out = ['--model', os.path.join(folder, 'model'), '--data', os.path.join(folder, data), '--precision', case.precision]
    out += ['--method', case.trained_for] if case.trained_for != 'sft' else []
    for name, value in {**DEFAULTS, **case.flags}.items():
        if name not in OF_GPUPLAN_ALONE:
            out += ['--' + name, value]
    return out + (['--adapter', os.path.join(folder, 'adapter')] if case.method != 'full' else [])


def method_arguments(case: Case) -> List[str]:
    # a frozen base in fp32, as the reference keeps it, unless the case is about bf16
    base = ',base=fp32' if case.method == 'lora' and case.precision == 'fp32' else ''
    return ['--full'] if case.method == 'full' else [f'--{case.method}={case.lora}{base}']


def run_reference(case: Case, folder: str, precision: Optional[str] = None) -> Run:
    output = os.path.join(folder, 'reference' + (precision or ''))
    arguments = shared_arguments(case, folder) + method_arguments(case) + ['--ranks', str(case.ranks), '--save', output, '--threads', '1']
    if precision:
        arguments += ['--precision', precision]
    lines = list(reference.run(reference.parse_arguments(arguments)))
    return Run(lines, read_saved(case, output))


def run_gpuplan(case: Case, folder: str, program: str) -> Run:
    output, metrics = os.path.join(folder, 'gpuplan'), os.path.join(folder, 'metrics.jsonl')
    command = [program, 'run'] + shared_arguments(case, folder) + method_arguments(case) + [
        '--gpus', f'{case.ranks}xcpu', '--strategy', case.strategy, '--no-shuffle', '--metrics', metrics, '--output', output]
    command += ['--ref', case.reference] if case.reference else []
    for name in OF_GPUPLAN_ALONE:
        command += ['--' + name, case.flags[name]] if name in case.flags else []
    environment = {**os.environ, 'GPUPLAN_PROFILE_DIR': os.path.join(folder, 'profiles')}  # what toys take is not to correct the user's estimates
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f'exit code {done.returncode}: {done.stderr.strip()[-2000:]}\n    {" ".join(command)}')
    with open(metrics) as file:
        return Run([json.loads(line) for line in file], read_saved(case, output))


def read_saved(case: Case, folder: str) -> Tensors:
    return read_folder(folder, 'model' if case.method == 'full' else 'adapter_model')


# --- comparing ---------------------------------------------------------------------------------------------------------------------

def worst(ours: Run, theirs: Run, key: str) -> float:
    """Largest relative error of a figure over the steps; infinite when the steps are not the same, or a figure is not a number."""
    if [line['step'] for line in ours.lines] != [line['step'] for line in theirs.lines]:
        return float('inf')
    errors = [abs(a[key] - b[key]) / max(abs(b[key]), 1e-12) for a, b in zip(ours.lines, theirs.lines)]
    return max((error if error == error else float('inf') for error in errors), default=float('inf'))


def worst_saved(ours: Tensors, theirs: Tensors, start: Tensors) -> float:
    """Largest error of a tensor's update, as a part of that update. ValueError when names or shapes differ."""
    if {name: tensor.shape for name, tensor in ours.items()} != {name: tensor.shape for name, tensor in theirs.items()}:
        raise ValueError('the tensors that were saved have other names or shapes')
    errors = []
    for name, tensor in theirs.items():
        update = (tensor.double() - start[name].double()).norm()
        error = (ours[name].double() - tensor.double()).norm() / update.clamp_min(1e-12)
        errors.append(float(error.nan_to_num(float('inf'))))
    return max(errors)


def compare(case: Case, folder: str, program: Optional[str]) -> Dict[str, float]:
    """The largest relative errors, by the names of Limits. Without a program: double precision against single."""
    prepare(case, folder)
    theirs = run_reference(case, folder)
    ours = run_gpuplan(case, folder, program) if program else run_reference(case, folder, 'fp64')
    start = read_saved(case, os.path.join(folder, 'model' if case.method == 'full' else 'adapter'))
    if case.trained_for == 'reward' and case.method != 'full':
        start[PREFIX + 'score.weight'] = read_folder(os.path.join(folder, 'model'))['score.weight']
    return {**{key: worst(ours, theirs, key) for key in ('loss', 'grad_norm', 'lr')},
            'saved': worst_saved(ours.saved, theirs.saved, start)}


def is_within(errors: Dict[str, float], limits: Limits) -> bool:
    return all(errors[key] <= getattr(limits, key) for key in errors)


def judge(case: Case, folder: str, program: Optional[str]) -> bool:
    """Prints a line; whether the case passed."""
    try:
        errors = compare(case, folder, program)
    except (RuntimeError, OSError, KeyError, ValueError, subprocess.TimeoutExpired) as problem:
        print(f'{case.name:<42} FAILED  {type(problem).__name__}: {problem}', flush=True)
        return False
    passed = is_within(errors, case.limits)
    figures = ' '.join(f'{errors[key]:>9.1e}{" " if errors[key] <= getattr(case.limits, key) else "!"}' for key in errors)
    print(f'{case.name:<42} {figures} {"ok" if passed else "MISSED"}', flush=True)
    return passed


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    program = parser.add_mutually_exclusive_group(required=True)
    program.add_argument('--gpuplan', metavar='PROGRAM')
    program.add_argument('--self', action='store_true')
    parser.add_argument('--only', metavar='TEXT', default='', help='cases with TEXT in their names')
    parser.add_argument('--keep', metavar='DIR', help='a folder for what the runs read and write; else it is removed')
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    cases = [case for case in CASES if args.only in case.name]
    print(f'{"largest relative error over " + str(STEPS) + " steps":<42} {"loss":>9}  {"grad norm":>9}  {"lr":>9}  {"saved":>9}')
    num_passed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for index, case in enumerate(cases):
            num_passed += judge(case, os.path.join(args.keep or scratch, f'{index:02d}'), args.gpuplan)
    print(f'{num_passed} passed, {len(cases) - num_passed} failed')
    return 0 if cases and num_passed == len(cases) else 1


if __name__ == '__main__':
    sys.exit(main())
