#!/usr/bin/python3
"""Tokens/s of a fp32 training step (forward, backward, clipping, AdamW) of a small Llama with PyTorch at its best on this machine.

    chrt -f 10 tests/torch/speed.py            all settings for a few steps each, then the best one for --steps
    chrt -f 10 tests/torch/speed.py --quick    what was best where this was written, without the search

Debian's PyTorch calls whatever libblas.so.3 is, so the BLAS library is chosen by LD_LIBRARY_PATH, its core type by
OPENBLAS_CORETYPE, threads are the cores. `apt-get install libopenblas0-openmp` gives the best library: OpenBLAS with threads of
its own (libopenblas0-pthread) competes with PyTorch's. Other things that were worth it: an allocator that keeps memory instead
of mapping large tensors anew each time, and attention's scale and mask inside the product. Each setting runs in a process of its own.
"""
import argparse
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import time
from typing import Callable, Dict, List, Optional, Tuple

LIBRARIES = '/usr/lib/*/{}/libblas.so.3'
BLAS_FOLDERS = ('openblas-openmp', 'openblas-pthread', 'blis-openmp')
CORE_TYPES = ('', 'SkylakeX', 'SapphireRapids', 'Haswell')
ATTENTIONS = ('baddbmm', 'sdpa', 'eager')
KEEP_MEMORY = {'MALLOC_MMAP_THRESHOLD_': str(8 << 30), 'MALLOC_TRIM_THRESHOLD_': str(16 << 30), 'MALLOC_TOP_PAD_': str(64 << 20)}
SHAPE = {'hidden_size': 256, 'num_hidden_layers': 8, 'num_attention_heads': 8, 'num_key_value_heads': 8, 'intermediate_size': 688,
         'vocab_size': 512}
WARM_UP = 3


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seq-len', type=int, default=512)
    parser.add_argument('--batch', type=int, default=4)
    parser.add_argument('--steps', type=int, default=15, help='measured steps of the best setting; the median counts')
    parser.add_argument('--threads', type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument('--blas', metavar='DIR', action='append', default=[], help='also try the libblas.so.3 in DIR')
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--json', action='store_true', help='only the best result, as one JSON line')
    parser.add_argument('--measure', choices=ATTENTIONS, help=argparse.SUPPRESS)  # this process is the one that measures
    return parser.parse_args()


# --- one setting, in this process --------------------------------------------------------------------------------------------------

def use_attention(kind: str) -> None:
    """Replaces the decoder's attention by one that calls fewer or faster kernels."""
    import decoder
    if kind != 'eager':
        decoder.Attention.forward = {'baddbmm': make_baddbmm(), 'sdpa': attend_sdpa}[kind]


def heads_of(attention, x, cosine, sine) -> tuple:
    import decoder
    q, k, v = (attention.heads(linear(x)).transpose(1, 2) for linear in (attention.q_proj, attention.k_proj, attention.v_proj))
    return decoder.rotate(q, cosine, sine), decoder.rotate(k, cosine, sine), v


def attend_sdpa(self, x, cosine, sine):
    from torch.nn.functional import _scaled_dot_product_attention
    out = _scaled_dot_product_attention(*heads_of(self, x, cosine, sine), None, 0.0, False, True)[0]
    return self.o_proj(out.transpose(1, 2).flatten(2))


def make_baddbmm() -> Callable:
    import torch
    masks: Dict[int, torch.Tensor] = {}

    def attend(self, x, cosine, sine):
        q, k, v = heads_of(self, x, cosine, sine)
        batch, heads, length, size = q.shape
        mask = masks.setdefault(length, torch.full((length, length), -math.inf).triu(1))
        q, k, v = (each.reshape(batch * heads, length, size) for each in (q, k, v))
        scores = torch.baddbmm(mask.expand(batch * heads, length, length), q, k.transpose(1, 2), alpha=1 / math.sqrt(size))
        out = (scores.softmax(-1) @ v).view(batch, heads, length, size)
        return self.o_proj(out.transpose(1, 2).flatten(2))
    return attend


def make_step(seq_len: int, batch: int) -> Tuple[Callable[[], None], int]:
    """A training step, and the number of parameters it trains."""
    import torch
    import decoder
    from make_model import make_config
    torch.manual_seed(1)
    model = decoder.Decoder(decoder.parse_config(make_config('llama', **SHAPE)))
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(weights, lr=1e-4, foreach=True)
    ids = torch.randint(0, SHAPE['vocab_size'], (batch, seq_len))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        (decoder.loss_sum(model(ids), ids) / (batch * (seq_len - 1))).backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
    return step, sum(weight.numel() for weight in weights)


def measure(args: argparse.Namespace) -> dict:
    import torch
    torch.set_num_threads(args.threads)
    use_attention(args.measure)
    step, parameters = make_step(args.seq_len, args.batch)
    times = []
    for index in range(WARM_UP + args.steps):
        begin = time.perf_counter()
        step()
        if index >= WARM_UP:
            times.append(time.perf_counter() - begin)
    median = statistics.median(times)
    return {'tokens_per_second': args.batch * args.seq_len / median, 'step_seconds': median, 'fastest_step_seconds': min(times),
            'slowest_step_seconds': max(times), 'steps': args.steps, 'threads': torch.get_num_threads(), 'parameters': parameters,
            'blas': loaded_blas(), 'core_type': os.environ.get('OPENBLAS_CORETYPE', 'detected'), 'attention': args.measure,
            'torch': torch.__version__}


def loaded_blas() -> str:
    """The library that products really go to. (Its LAPACK may bring another BLAS along, which nothing here calls.)"""
    with open('/proc/self/maps') as maps:
        files = {line.split()[-1] for line in maps if '/' in line}
    return ' '.join(sorted(file for file in files if os.path.basename(file).startswith('libblas.so')))


# --- the search --------------------------------------------------------------------------------------------------------------------

def blas_folders(extra: List[str]) -> List[str]:
    found = [os.path.dirname(path) for name in BLAS_FOLDERS for path in glob.glob(LIBRARIES.format(name))]
    return extra + found or ['']


def try_setting(args: argparse.Namespace, folder: str, core: str, attention: str, steps: int, keep: bool = True) -> Optional[dict]:
    environment = {name: value for name, value in os.environ.items() if name != 'OPENBLAS_CORETYPE'}
    environment.update(OMP_NUM_THREADS=str(args.threads), **(KEEP_MEMORY if keep else {}))
    if folder:
        environment['LD_LIBRARY_PATH'] = folder
    if core:
        environment['OPENBLAS_CORETYPE'] = core
    command = [sys.executable, __file__, '--measure', attention, '--steps', str(steps), '--seq-len', str(args.seq_len),
               '--batch', str(args.batch), '--threads', str(args.threads)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        print(f'{folder} {core} {attention}: {done.stderr.strip()[-300:]}', file=sys.stderr)
        return None
    return {**json.loads(done.stdout), 'folder': folder, 'keeps_memory': keep}


def show(result: dict) -> None:
    print(f'{result["tokens_per_second"]:8.0f} tokens/s  {result["step_seconds"]:.3f} s ({result["fastest_step_seconds"]:.3f} - '
          f'{result["slowest_step_seconds"]:.3f}, {result["steps"]} steps)  {result["blas"]}  core type {result["core_type"]}, '
          f'{result["threads"]} threads, {result["attention"]}{"" if result["keeps_memory"] else ", plain malloc"}', flush=True)


def search(args: argparse.Namespace) -> dict:
    """First library and core type, then the form of attention: the best of few steps each."""
    results: List[dict] = []

    def add(*setting: object, keep: bool = True) -> None:
        result = try_setting(args, *setting, steps=4, keep=keep)
        if result:
            results.append(result)
            if not args.json:
                show(result)

    for folder in blas_folders(args.blas):
        for core in CORE_TYPES if 'blis' not in folder else ('',):
            add(folder, core, ATTENTIONS[0])
    best = fastest(results)
    for attention in ATTENTIONS[1:]:
        add(best['folder'], core_of(best), attention)
    add(best['folder'], core_of(best), ATTENTIONS[0], keep=False)
    return fastest(results)


def fastest(results: List[dict]) -> dict:
    if not results:
        raise SystemExit('no setting ran: is python3-torch installed?')
    return max(results, key=lambda result: result['tokens_per_second'])


def core_of(result: dict) -> str:
    return '' if result['core_type'] == 'detected' else result['core_type']


def main() -> None:
    args = parse_arguments()
    if args.measure:
        print(json.dumps(measure(args)))
        return
    best = {'folder': blas_folders(args.blas)[0], 'core_type': 'SkylakeX', 'attention': 'baddbmm', 'keeps_memory': True}
    if not args.quick:
        best = search(args)
    result = try_setting(args, best['folder'], core_of(best), best['attention'], args.steps, best['keeps_memory'])
    if result is None:
        raise SystemExit(3)
    if args.json:
        print(json.dumps(result))
        return
    print(f'the best, measured again: PyTorch {result["torch"]}, {result["parameters"]:,} parameters, batch {args.batch} x {args.seq_len}')
    show(result)


if __name__ == '__main__':
    main()
