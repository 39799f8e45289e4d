#!/usr/bin/env python3
"""Mends example files of trainers with `gpuplan fix` and checks what came of it: a process for each file and machine.

    fix.py --gpuplan build/release/gpuplan --programs DIR [--number N] [--only TEXT] [--jobs N] [--list]

Takes N (200) of the files of examples.tsv that are understood and hold a trainer's settings, spread over all of them, each on one of four machines. What
must hold of each:

    the original is kept: `--write` leaves it beside the file, byte for byte;
    the printed diff, applied by `patch` to the original, gives what was written;
    every line that the diff takes away or adds holds a key that the answer names, or stands below one that is new;
    nothing changes where `estimate --from` says that it fits with 80 % or more;
    what was written fits with 80 % or more, by `estimate --from`, with the same model, method, context and sequences per optimizer step;
    nothing changes in a second call;
    where nothing helps, the answer says which --allow would, and with it the file fits; or that nothing does.

Ends with `N passed, N failed`. --list prints the outcome of each file.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import files  # noqa: E402
from files import programs  # noqa: E402

MACHINES = ('2x3090', '4090', '4xA6000', '8xA100-40')
LEAST = 0.8
NO_TRAINER = 'is no trainer'
KEPT = ('model', 'recipe.method', 'recipe.seq_len')


class Wrong(Exception):
    pass


def require(claim, text):
    if not claim:
        raise Wrong(text)


class Fixer(files.Asker):
    def call(self, folder, *words):
        done = subprocess.run([self.gpuplan, *words, '--offline'], cwd=folder, capture_output=True, text=True, env={**os.environ, 'COLUMNS': '100000'})
        return done.returncode, done.stdout, done.stderr

    def chance(self, folder, name, gpus, flags):
        """The probability that the best or the only strategy fits, and the question; None where it cannot be asked."""
        code, out, err = self.call(folder, 'estimate', '--from', name, '--gpus', gpus, '--json', *flags)
        if code not in (0, 1):
            return None, err
        answer = json.loads(out)
        rows = [row for row in answer['strategies'] if row.get('probability') is not None]
        return max((row['probability'] for row in rows), default=0), answer

    def prepare(self, example, folder):
        """The file and what it names, as a user has them."""
        file = folder / pathlib.PurePosixPath(example.path).name
        file.write_bytes(self.text_of(example))
        flags = ['--model', example.model] if example.model else []
        self.estimate_with_named(example, file, *flags)
        return file.name, flags

    def judge(self, example, gpus):
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            name, flags = self.prepare(example, folder)
            before, question = self.chance(folder, name, gpus, flags)
            if before is None:
                return 'not asked'
            code, out, err = self.call(folder, 'fix', name, '--gpus', gpus, '--write', *flags)
            if code == 2 and NO_TRAINER in err:
                return 'no trainer'
            require(code in (0, 1), f'exit {code}: {err.strip()}')
            return self.judge_answer(example, folder, name, gpus, flags, before, question, code, out)

    def judge_answer(self, example, folder, name, gpus, flags, before, question, code, out):
        original = self.text_of(example)
        lines = [' '.join(line.strip() for line in part.split('\n')) for part in re.split(r'\n(?=\S)', out.split('\n\n')[0].strip())]
        diff = out[out.index('\n--- ') + 1:] if '\n--- ' in out else ''
        diff = re.split(r'\n\n  ?- ', diff)[0] + '\n' if diff else ''
        if not diff:
            require((folder / name).read_bytes() == original, 'it changed without a diff')
            require(not (folder / (name + '.orig')).exists(), 'a backup of nothing')
            if before >= LEAST and 'if the host has' not in lines[0]:
                require(code == 0, f'exit {code} where it fits')
                return 'fits already'
            if 'if the host has' in lines[0]:
                require(code == 0, f'exit {code} where it fits if the host has the memory')
                return 'rests on the host'
            require(code == 1, f'exit {code} where it does not fit')
            return self.judge_permission(folder, name, gpus, flags, lines)
        require(code == 0, f'exit {code} with a diff')
        require(before < LEAST or re.search(r'num_processes|nproc|nnodes|num_machines|n_gpus|gpus_per_node|\bgpus\b|num_learners|num_engines', lines[2], re.IGNORECASE), f'a change where it fits with {before:.2f}')
        self.judge_diff(folder, name, original, lines, diff)
        after, changed = self.chance(folder, name, gpus, flags)
        require(after is not None, f'what was written is refused: {changed}')
        require(after >= LEAST, f'what was written fits with {after:.2f}')
        if re.search(r'\bglobal_batch_size\b', original.decode(errors='replace')):  # of all ranks, however many
            require(batches(question) & batches(changed), f'sequences of a step changed: {batches(question)} -> {batches(changed)}')
        for key in ('model', 'method', 'seq_len'):
            require(value_of(question, key) == value_of(changed, key), f'{key} changed')
        code, again, err = self.call(folder, 'fix', name, '--gpus', gpus, *flags)
        require(code == 0 and '\n--- ' not in again, f'a second call changes more: {again}{err}')
        return 'mended'

    def judge_diff(self, folder, name, original, lines, diff):
        written = (folder / name).read_bytes()
        if written != original:
            kept = folder / (name + '.orig')
            require(kept.exists() and kept.read_bytes() == original, 'the original is not kept')
        with tempfile.TemporaryDirectory() as place:
            (pathlib.Path(place) / name).write_bytes(original)
            done = subprocess.run(['patch', '-p0', '--binary', '--silent'], cwd=place, input=diff.encode(), capture_output=True)
            require(done.returncode == 0, f'patch: {done.stdout.decode()}{done.stderr.decode()}\n{diff}')
            require((pathlib.Path(place) / name).read_bytes() == written, 'patch gives another file')
        named = re.sub(r'^Change (one key|\d+ keys): ', '', lines[2]).split(', ')
        named = [re.split(r':? ', key)[0].rstrip(':') for key in named]
        keys, parents = [key.split('.')[-1] for key in named], [part for key in named for part in key.split('.')[:-1] or [key]]
        is_new, below = False, None
        diff_lines = diff.splitlines()
        for line in diff_lines:
            if line.startswith('--- '):
                is_new = '/dev/null' in line
            if not line or is_new or line[:3] in ('---', '+++') or line[0] not in '+-':
                below = None
                continue
            indent = len(line) - len(line[1:].lstrip()) - 1
            if below is not None and line[0] == '+' and indent >= below[0] and (indent > below[0] or line[1:].lstrip().startswith('- ')):
                continue  # of a key that is new
            if line[1:].lstrip().startswith('- ') and list_above(written.decode(), line[1:]) in keys + parents:
                continue  # one more of a list
            if line == '+' and name.endswith('.toml'):
                continue  # before a table that is new
            words = line[1:].replace('-', '_')
            if line[0] == '-' and any(longer.startswith('+' + line[1:].rstrip(' \\') + ' ') for longer in diff_lines):
                continue  # the line of a script that a flag is added to
            require(any(key.replace('-', '_') in words for key in keys + parents),
                    f'a line of no key that is named ({keys}): {line!r}')
            below = (indent,) if line[0] == '+' and line.rstrip().endswith(':') else None

    def judge_permission(self, folder, name, gpus, flags, lines):
        allowed = re.findall(r'--allow (\w+) would', lines[2])
        require(allowed or re.search('No change|cannot say what|on a smaller host', lines[2]), f'nothing is said: {lines[2]}')
        for word in allowed[:1]:
            code, out, err = self.call(folder, 'fix', name, '--gpus', gpus, '--allow', word, *flags)
            require(code == 0 and '\n--- ' in out, f'--allow {word} does not: {out}{err}')
        return 'with --allow' if allowed else 'not to be said' if 'cannot say' in lines[2] else 'nothing helps'


def batches(answer):
    return {row['global_batch'] for row in answer['strategies'] if not row.get('not_applicable')}


def list_above(text, item):
    """The key of the list in which the line stands."""
    indent = len(item) - len(item.lstrip())
    above = text.split('\n' + item + '\n')[0].split('\n')
    for line in reversed(above):
        if line.strip() and not line.lstrip().startswith(('- ', '#')) and len(line) - len(line.lstrip()) <= indent:
            return line.strip().split(':')[0]
    return ''


def value_of(answer, key):
    if key == 'model':
        return answer['model']['name']
    return answer['recipe'].get(key)


def chosen(number, only):
    all_files = [e for e in files.read_examples() if e.outcome in ('understood', 'model') and only in f'{e.repository}/{e.path}' and
                 not e.path.endswith('.ipynb') and 'deepspeed' not in e.path and 'accelerate' not in e.path]
    step = max(1, len(all_files) / number)
    return [all_files[int(i * step)] for i in range(min(number, len(all_files)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gpuplan', required=True)
    parser.add_argument('--programs', metavar='DIR', required=True)
    parser.add_argument('--number', type=int, default=200)
    parser.add_argument('--only', default='', help='files whose repository or path holds this text')
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--list', action='store_true')
    args = parser.parse_args()
    fixer, examples = Fixer(args), chosen(args.number, args.only)

    def ask(numbered):
        index, example = numbered
        try:
            return fixer.judge(example, MACHINES[index % len(MACHINES)]), ''
        except Wrong as problem:
            return 'wrong', str(problem)

    try:
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            answers = list(pool.map(ask, enumerate(examples)))
    except programs.Missing as problem:
        print(f'FAILED: {problem}\n0 passed, 1 failed')
        return 1
    for index, (example, (outcome, problem)) in enumerate(zip(examples, answers)):
        if args.list or problem:
            print(f'{"FAILED" if problem else outcome}: {example.repository}/{example.path} on {MACHINES[index % len(MACHINES)]}: {problem}')
    counts = collections.Counter(outcome for outcome, _ in answers)
    print('fix: ' + ', '.join(f'{n} {outcome}' for outcome, n in sorted(counts.items())))
    print(f'{len(answers) - counts["wrong"]} passed, {counts["wrong"]} failed')
    return 1 if counts['wrong'] else 0


if __name__ == '__main__':
    sys.exit(main())
