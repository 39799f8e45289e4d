#!/usr/bin/python3
"""Tokens/s of a fp32 step of a Llama of 6.6M parameters: `gpuplan run` and PyTorch at its best, alternating in one run.

    bench/cpu_speed.py build/release/gpuplan [--rounds 3] [--quick]     needs python3-torch and libopenblas0-openmp (apt)

Refuses to compare where PyTorch multiplies with the reference BLAS, which is some twenty times slower than OpenBLAS.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

from run_matrix import CONFIG  # the same model; speed.py has its shape

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPEED = os.path.join(ROOT, 'tests', 'torch', 'speed.py')


def gpuplan_speed(program: str, model: str, seq_len: int, batch: int, steps: int) -> float:
    command = [program, 'run', '--model', model, '--init', 'random', '--full', '--precision', 'fp32', '--gpus', '1xcpu', '--seq-len', str(seq_len),
               '--micro-batch', str(batch), '--max-steps', str(steps), '--json']
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)['tokens_per_second']


def torch_speed(seq_len: int, batch: int, quick: bool, blas: list) -> dict:
    command = ['/usr/bin/python3', SPEED, '--seq-len', str(seq_len), '--batch', str(batch), '--json'] + (['--quick'] if quick else [])
    for folder in blas:
        command += ['--blas', folder]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def require_fast_blas(libraries: str) -> None:
    """`libraries`: the files of libblas.so that PyTorch has loaded. Debian's reference BLAS lies in a folder 'blas'; none: PyTorch brings its own."""
    folders = [os.path.basename(os.path.dirname(path)) for path in libraries.split()]
    if folders and all(folder == 'blas' for folder in folders):
        raise SystemExit(f'PyTorch uses the reference BLAS ({libraries}), so the comparison would mean nothing: apt-get install libopenblas0-openmp')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('gpuplan')
    parser.add_argument('--seq-len', type=int, default=512)
    parser.add_argument('--batch', type=int, default=4)
    parser.add_argument('--steps', type=int, default=15)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--quick', action='store_true', help="PyTorch's settings that were best elsewhere, without the search")
    parser.add_argument('--blas', metavar='DIR', action='append', default=[], help='also try the libblas.so.3 in DIR')
    args = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as model:
        with open(os.path.join(model, 'config.json'), 'w', encoding='utf-8') as file:
            json.dump(CONFIG, file)
        for i in range(args.rounds):
            ours = gpuplan_speed(args.gpuplan, model, args.seq_len, args.batch, args.steps)
            theirs = torch_speed(args.seq_len, args.batch, args.quick or i > 0, args.blas)
            require_fast_blas(theirs['blas'])
            ratios.append(ours / theirs['tokens_per_second'])
            settings = ', '.join(f'{key} {theirs[key]}' for key in ('torch', 'blas', 'core_type', 'threads', 'attention'))
            print(f"gpuplan {ours:.0f} tokens/s ({len(os.sched_getaffinity(0))} threads), PyTorch {theirs['tokens_per_second']:.0f} ({settings}): "
                  f'{ratios[-1]:.2f} x', flush=True)
    print(f'median {statistics.median(ratios):.2f} x')


if __name__ == '__main__':
    main()
