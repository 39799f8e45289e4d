#!/usr/bin/python3
"""Trains exported plans with PyTorch's own launcher, two processes on CPUs: by export and launch.sh, and by `gpuplan run --engine torchrun`.

    engine.py --gpuplan build/release/gpuplan

A line per case; the exit code is 1 when one failed.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from make_model import make_config, write_model
from tensor_file import read_tensors

STEPS = 6
PATIENCE = 120


def write_rows(path, vocab):
    """Rows of tokens that have an order to learn, the same every time."""
    with open(path, 'w') as file:
        for row in range(64):
            file.write(json.dumps({'input_ids': [(7 * row + 3 * i * (row % 5 + 1)) % vocab for i in range(80)]}) + '\n')


class Workshop:
    """A model, rows and plans in a folder of their own."""

    def __init__(self, folder, program):
        self.folder, self.program = folder, os.path.abspath(program)
        # what toys take is not to correct the user's estimates; the launcher's folder comes first
        self.environment = {**os.environ, 'GPUPLAN_PROFILE_DIR': os.path.join(folder, 'profiles'), 'PATH': self.launcher_folder() + ':/usr/bin:/bin'}
        config = make_config('llama')
        write_model(os.path.join(folder, 'model'), config, 1)
        write_rows(os.path.join(folder, 'rows.jsonl'), config['vocab_size'])

    def launcher_folder(self):
        """torchrun, or a program of that name that starts torch.distributed.run."""
        folder = os.path.join(self.folder, 'bin')
        os.makedirs(folder, exist_ok=True)
        if not os.path.exists('/usr/bin/torchrun'):
            with open(os.path.join(folder, 'torchrun'), 'w') as file:
                file.write('#!/usr/bin/python3\nimport runpy\nrunpy.run_module("torch.distributed.run", run_name="__main__")\n')
            os.chmod(os.path.join(folder, 'torchrun'), 0o755)
        return folder

    def call(self, *words, **options):
        return subprocess.run([self.program, *words], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              timeout=PATIENCE, **options)

    def plan(self, name, strategy, ranks, accum, method='--full'):
        done = self.call('estimate', '--model', 'model', method, '--gpus', f'{ranks}xcpu', '--strategy', strategy, '--framework', 'torch',
                         '--precision', 'fp32', '--seq-len', '64', '--micro-batch', '2', '--grad-accum', str(accum), '--save', name + '.json')
        require(done.returncode == 0, done.stderr)

    def start(self, name, steps=STEPS, *more):
        return [self.program, 'run', name + '.json', '--engine', 'torchrun', '--job', name, '--data', 'rows.jsonl', '--lr', '1e-3',
                '--max-steps', str(steps), *more]

    def run(self, name, *more):
        return subprocess.run(self.start(name, STEPS, *more), cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              timeout=PATIENCE)

    def lines(self, name, rank=0):
        with open(os.path.join(self.folder, name, 'metrics', f'rank-{rank}.jsonl')) as file:
            return [json.loads(line) for line in file if line.endswith('\n')]

    def losses(self, name):
        return [line['loss'] for line in self.lines(name) if line['event'] == 'step']


def require(condition, message):
    if not condition:
        raise AssertionError(message)


def near(ours, theirs, limit=1e-4):
    return len(ours) == len(theirs) and all(abs(a - b) <= limit * abs(b) for a, b in zip(ours, theirs))


def trains(shop, strategy):
    """Two processes give the losses of one; the report has what the files say."""
    shop.plan('one', 'single', 1, 4)
    shop.plan(strategy, strategy, 2, 2)
    for name in ('one', strategy):
        done = shop.run(name, '--json')
        require(done.returncode == 0, done.stderr[-3000:])
    report, losses = json.loads(done.stdout), shop.losses(strategy)
    require(len(losses) == STEPS and losses[-1] < losses[0], f'losses {losses}')
    require(near(losses, shop.losses('one')), f'{losses} are not those of one process, {shop.losses("one")}')
    require(report['steps'] == STEPS and report['exit_code'] == 0, report)
    require(report['first_loss'] == losses[0] and report['last_loss'] == losses[-1], report)
    require(report['measured']['step_seconds'] > 0 and report['measured']['process_bytes'] > 0, report)
    require([line['event'] for line in shop.lines(strategy, 1)][-1] == 'end', 'rank 1 did not say its end')


def exported(shop, strategy):
    """launch.sh of gpuplan export trains by itself."""
    import torch
    shop.plan(strategy, strategy, 2, 2)
    done = shop.call('export', strategy + '.json', '--for', 'torch', '--versions', 'torch=' + torch.__version__, '--output', 'exported')
    require(done.returncode == 0, done.stderr)
    done = subprocess.run(['exported/launch.sh', '--model', '../model', '--data', '../rows.jsonl', '--lr', '1e-3', '--max-steps', str(STEPS),
                           '--output', 'out'], cwd=shop.folder, env=shop.environment, capture_output=True, text=True, timeout=PATIENCE)
    require(done.returncode == 0, done.stderr[-3000:])
    require(done.stdout.count("'loss'") == STEPS, done.stdout)
    require(os.path.exists(os.path.join(shop.folder, 'exported/out/model.safetensors')), 'nothing was saved')


def adapters(shop):
    shop.plan('lora', 'ddp', 2, 1, '--lora=r=4')
    done = shop.run('lora', '--output', 'adapter')
    require(done.returncode == 0, done.stderr[-3000:])
    with open(os.path.join(shop.folder, 'adapter', 'adapter_config.json')) as file:
        require(json.load(file)['r'] == 4, 'another rank')
    saved = read_tensors(os.path.join(shop.folder, 'adapter', 'adapter_model.safetensors'))
    require(len(saved) == 2 * 7 * 2 and all(bool(t.abs().sum() > 0) for name, t in saved.items() if 'lora_B' in name), list(saved))


def killed(shop):
    """A rank that is killed is named, and the job ends with 3."""
    shop.plan('killed', 'ddp', 2, 2)
    process = subprocess.Popen(shop.start('killed', 100000), cwd=shop.folder, env=shop.environment, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        limit = time.monotonic() + PATIENCE
        while True:  # both ranks have begun and a step is done
            require(time.monotonic() < limit and process.poll() is None, 'no first step')
            time.sleep(0.1)
            try:
                if shop.losses('killed') and shop.lines('killed', 1):
                    break
            except FileNotFoundError:
                continue
        pids = [shop.lines('killed', rank)[0]['pid'] for rank in (0, 1)]
        os.kill(pids[1], signal.SIGKILL)
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
    require(process.returncode == 3, f'exit code {process.returncode}')
    require(f'rank 1 (process {pids[1]}) was killed by signal 9' in errors or f'rank 1 (process {pids[1]}) has died' in errors, errors[-2000:])
    require(not any(os.path.exists(f'/proc/{pid}') for pid in pids), 'a rank is left')


def fails(shop):
    """A script that fails: its words are passed on, the exit code is 3."""
    shop.plan('fails', 'ddp', 2, 2)
    with open(os.path.join(shop.folder, 'own.py'), 'w') as file:
        file.write('import os, sys\nprint("rank", os.environ["RANK"], sys.argv[1:], os.environ.get("HF_TOKEN"), flush=True)\nsys.exit(int(sys.argv[2]))\n')
    for code, expected in (('7', 3), ('0', 0)):
        done = subprocess.run([shop.program, 'run', 'fails.json', '--engine', 'torchrun', '--job', 'own', '--', 'own.py', 'a b;$(id)', code],
                              cwd=shop.folder, env={**shop.environment, 'HF_TOKEN': 'hf_secretsecret'}, capture_output=True, text=True,
                              timeout=PATIENCE)
        require(done.returncode == expected, f'exit code {done.returncode}: {done.stderr}')
        for rank in (0, 1):
            require(f"rank {rank} ['a b;$(id)', '{code}'] ***" in done.stderr, done.stderr)
        require('hf_secretsecret' not in done.stderr + done.stdout, 'a secret was shown')


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gpuplan', metavar='PROGRAM', required=True)
    return parser.parse_args()


CASES = {'ddp of 2 processes': lambda shop: trains(shop, 'ddp'), 'zero1 of 2 processes': lambda shop: trains(shop, 'zero1'),
         'launch.sh of an exported ddp plan': lambda shop: exported(shop, 'ddp'),
         'launch.sh of an exported zero1 plan': lambda shop: exported(shop, 'zero1'), 'lora under ddp': adapters,
         'a killed rank': killed, 'a script that fails': fails}


def main():
    args = parse_arguments()
    passed = 0
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(Workshop(folder, args.gpuplan))
                passed += 1
                print(f'{name:<42} ok', flush=True)
            except (AssertionError, OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError) as problem:
                print(f'{name:<42} FAILED  {type(problem).__name__}: {problem}', flush=True)
    print(f'{passed} passed, {len(CASES) - passed} failed')
    return 0 if passed == len(CASES) else 1


if __name__ == '__main__':
    sys.exit(main())
