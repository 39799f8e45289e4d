#!/usr/bin/env python3
"""Asks gpuplan about the example files of trainers and launchers: `estimate --from FILE --gpus 8xH100`, a process for each file.

    files.py --gpuplan build/release/gpuplan --programs DIR [--only TEXT] [--jobs N] [--write]

DIR holds git repositories, as for tests/clients. examples.tsv lists every file with the outcome that is expected: a line `= repository commit`, then

    understood  PATH               it is answered as it stands
    model       PATH  NAME         it names no model that the catalogue has, and is answered with --model NAME
    refused     PATH  KIND  TEXT   it is refused, and TEXT is part of the reason

KIND of a refusal that is right: `nothing` (nothing is trained), `program` (the program itself stops), `missing` (a file that it names is not there),
`machine` (no GPU of NVIDIA, or the host's processor computes), `open` (a script's value that only a run shows, or code of a model's own that decides what is trained), `subject` (no
language model is trained: one that sees, hears, speaks or draws). Of one that is a lack of gpuplan: `method` (another method, head or kind of adapters), `parallel` (tensor, pipeline,
context and expert parallelism that the reader or the planner has not for the trainer), `unbuilt` (something else, such as a loop that a script writes itself). Files that a script names are put beside it.
Behind these words may stand `asked=FLAGS`: what the file does not say, and the answer's own refusal asks for (--method dpo), or the number of GPUs that it states; and `unknown=KEY,KEY`:
keys that stay unknown, as the program itself does not know them; all others are known. DeepSpeed's files among them that a trainer ships give the same answer where they are not there (data/ecosystem/shipped_files.yaml).
Counts apart what is fine-tuning, preference tuning and reinforcement learning, by the names in path and reason. Ends with `N passed, N failed`. --write renews examples.tsv from what is
answered, with the models and kinds that stand there; new refusals become `unbuilt`.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / 'clients'))
import programs  # noqa: E402

LIST = HERE / 'examples.tsv'
USUAL_MODEL = 'llama-3.1-8b'
NO_MODEL = re.compile('names no model|names the model|neither in the catalogue|unknown model|may mean|no model of this name')
UNKNOWN = re.compile(r'not known to gpuplan and not counted: ([^\n]*)')
IMPOSSIBLE = re.compile(r'Not applicable: \S+ \((.*?)\)(?:,|\n).*?^(?:\S+ is not|Nothing is) possible here', re.S | re.M)  # the planner's refusal
NAMED = re.compile(r'names (\S+), which is not there|give it too: --from (\S+)')
SCRIPTS = ('.sh', '.slurm', '.py', '.ipynb')
MOST_NAMED = 4
RIGHT = ('nothing', 'program', 'missing', 'machine', 'open', 'subject')
# Words of a path, or of a refusal, that tell what is trained for; the first that fits counts, and else it is fine-tuning.
TASKS = (
    ('reinforcement learning', 'grpo ppo rloo gspo dapo sapo gmpo gpg cispo remax reinforce rlvr rl gkd opd opsd gfpo ebft retool rollout multiturn sglang_multiturn router_replay '
                               'fully_async_policy one_step_off_policy async swe xpo nash online openenv'),
    ('preference tuning', 'dpo kto orpo cpo simpo apo mpo bco tpo rm reward prm preference pref pm'),
)
Example = collections.namedtuple('Example', 'repository commit outcome path model kind reason unknown asked')


def read_examples():
    examples, repository, commit = [], '', ''
    for line in LIST.read_text().splitlines():
        words = line.split('\t')
        unknown = words.pop().removeprefix('unknown=') if words[-1].startswith('unknown=') else ''
        asked = words.pop().removeprefix('asked=') if words[-1].startswith('asked=') else ''
        if line.startswith('= '):
            _, repository, commit = line.split()
        elif words[0] == 'refused':
            examples.append(Example(repository, commit, 'refused', words[1], '', words[2], words[3], unknown, asked))
        elif words[0] in ('understood', 'model'):
            examples.append(Example(repository, commit, words[0], words[1], words[2] if len(words) > 2 else '', '', '', unknown, asked))
        elif line and line[0] != '#':
            raise SystemExit(f'{LIST}: not an outcome: {line}')
    return examples


class Asker:
    def __init__(self, args):
        self.gpuplan, self.folder = str(pathlib.Path(args.gpuplan).resolve()), args.programs
        self.repositories = {}

    def text_of(self, example):
        key = example.repository, example.commit
        if key not in self.repositories:
            program = programs.Program('', example.repository, example.commit, '', '')
            self.repositories[key] = programs.find_repository(self.folder, program)
        done = programs.git(self.repositories[key], 'show', f'{example.commit}:{example.path}')
        if done.returncode != 0:
            raise programs.Missing(f'{example.repository} at {example.commit} has no {example.path}')
        return done.stdout

    def estimate(self, file, *flags):
        gpus = () if '--gpus' in flags else ('--gpus', '8xH100')
        words = [self.gpuplan, 'estimate', '--from', file.name, *gpus, '--offline', '--explain', *flags]
        done = subprocess.run(words, cwd=file.parent, capture_output=True, text=True, env={**os.environ, 'COLUMNS': '100000'})
        return done.returncode, done.stdout, done.stderr

    def add_named(self, example, named, folder):
        """Puts a file that a script names beside it; False where the repository has none."""
        key = example.repository, example.commit
        if named.startswith('$') and '/' in named and self.add_named(example, re.sub(r'^\$[^/]*/', '', named), folder):  # below a folder that only a run knows
            return True
        for above in list(pathlib.PurePosixPath(example.path).parents):
            path = os.path.normpath(above / named)
            done = programs.git(self.repositories[key], 'show', f'{example.commit}:{path}')
            if done.returncode == 0:
                (folder / pathlib.PurePosixPath(named).name).write_bytes(done.stdout)
                return True
        return False

    def estimate_with_named(self, example, file, *flags):
        for _ in range(MOST_NAMED):
            code, answer, problem = self.estimate(file, *flags)
            named = NAMED.search(problem)
            if code in (0, 1) or not named or file.suffix not in (*SCRIPTS, '.yaml') or not self.add_named(example, named[1] or named[2], file.parent):
                break
        return code, answer, problem

    def ask(self, example):
        """The outcome, the model that made it, the first line of the reason, and the keys that stay unknown."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / pathlib.PurePosixPath(example.path).name  # alone, as a user has it
            file.write_bytes(self.text_of(example))
            outcome, model = 'understood', ''
            asked = example.asked.split()
            code, answer, problem = self.estimate_with_named(example, file, *asked)
            if code not in (0, 1) and NO_MODEL.search(problem):
                outcome, model = 'model', example.model or USUAL_MODEL
                code, answer, problem = self.estimate_with_named(example, file, '--model', model, *asked)
        if code not in (0, 1):
            return 'refused', '', problem.splitlines()[0].removeprefix('gpuplan: '), ''
        if impossible := IMPOSSIBLE.search(re.sub(r'\n {4,}', ' ', answer)):
            return 'refused', '', impossible[1], ''
        unknown = UNKNOWN.search(re.sub(r'\n {4,}', ' ', answer))
        return outcome, model, '', unknown.group(1) if unknown else ''


# A trainer's file that names the DeepSpeed file {}, by repository and folder; ms-swift names it by a word.
NAMING = {
    ('axolotl-ai-cloud/axolotl', 'deepspeed_configs'): 'base_model: llama-3.1-8b\nsequence_len: 2048\nbf16: true\ndeepspeed: deepspeed_configs/{}.json\n',
    ('hiyouga/LLaMA-Factory', 'examples/deepspeed'): 'model_name_or_path: llama-3.1-8b\nfinetuning_type: full\nbf16: true\ndeepspeed: examples/deepspeed/{}.json\n',
    ('modelscope/ms-swift', 'swift/config'): 'model: llama-3.1-8b\ntuner_type: full\nmax_length: 2048\ndeepspeed: {}\n',
    ('huggingface/accelerate', 'examples/deepspeed_config_templates'):
        'compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {{deepspeed_config_file: {}.json}}\n',
}


def compare_shipped(asker, example):
    """What differs between an answer with the file and one without it; empty where nothing does, None for files that no trainer ships."""
    path = pathlib.PurePosixPath(example.path)
    naming = NAMING.get((example.repository, str(path.parent)))
    if not naming or path.suffix != '.json' or example.outcome == 'refused':
        return None
    flags = () if 'llama-3.1-8b' in naming else ('--model', USUAL_MODEL)
    answers = []
    for is_there in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / 'trainer.yaml'
            file.write_text(naming.format(path.stem))
            if is_there:
                (file.parent / (path.name if '.json' in naming else path.stem)).write_bytes(asker.text_of(example))
            code, answer, problem = asker.estimate(file, *flags)
            answers.append((code, answer.split('\nAssumptions')[0], problem))
    if answers[0][0] not in (0, 1):
        return f'cannot be read where a trainer names it: {answers[0][2].splitlines()[0]}'
    return '' if answers[0] == answers[1] else f'is answered otherwise where it is not there: {answers[1][2] or "other figures"}'


def judge(example, got):
    """What is wrong; empty where nothing is."""
    outcome, _, reason, unknown = got
    if outcome != example.outcome:
        return f'{outcome} instead of {example.outcome}{": " + reason if reason else ""}'
    if outcome == 'refused' and example.reason not in reason:
        return f'refused otherwise: {reason}'
    keys = ','.join(key.split(' (')[0] for key in re.split(r', (?![^(]*\))', unknown))
    return f'keys stay unknown: {keys}' if keys != example.unknown else ''


def rewrite(examples, answers):
    out, place = [line for line in LIST.read_text().splitlines() if line.startswith('#')], None
    for example, (outcome, model, reason, _) in zip(examples, answers):
        if place != (example.repository, example.commit):
            place = example.repository, example.commit
            out.append(f'= {place[0]} {place[1]}')
        if outcome == 'refused':
            name = pathlib.PurePosixPath(example.path).name
            kept = example.outcome == 'refused' and example.reason in reason
            text = example.reason if kept else re.sub('^' + re.escape(name) + r'(:\d+)*: ', '', reason)[:70].strip()
            words = ['refused', example.path, example.kind or 'unbuilt', text]
        else:
            words = [outcome, example.path, model]
        words += [example.asked and 'asked=' + example.asked, outcome != 'refused' and example.unknown and 'unknown=' + example.unknown]
        out.append('\t'.join(word for word in words if word))
    LIST.write_text('\n'.join(out) + '\n')


def task_of(example):
    words = set(re.split('[^a-z_]+', f'{example.repository} {example.path} {example.reason}'.lower().replace('-', '_')))
    words |= {part for word in words for part in word.split('_')}
    return next((task for task, names in TASKS if words & set(names.split())), 'fine-tuning')


def summarise_tasks(examples, answers):
    """Understood of those that can be: what is refused rightly is no lack of ours."""
    by = collections.defaultdict(collections.Counter)
    for example, (outcome, *_) in zip(examples, answers):
        group = 'understood' if outcome != 'refused' else 'right' if example.kind in RIGHT else 'lack'
        for name in (task_of(example), 'all'):
            by[name][group] += 1
    for name, counts in sorted(by.items(), key=lambda item: (item[0] == 'all', item[0])):
        can_be = counts['understood'] + counts['lack']
        print(f'{name}: {counts["understood"]} understood of {can_be} that can be ({100 * counts["understood"] / max(1, can_be):.0f} %); {counts["right"]} refused rightly')


def summarise(examples, answers):
    by = collections.defaultdict(collections.Counter)
    for example, (outcome, *_) in zip(examples, answers):
        kind = f'refused: {example.kind or "unbuilt"}' if outcome == 'refused' else outcome
        for name in (example.repository, 'all'):
            by[name][kind] += 1
    for name, counts in sorted(by.items(), key=lambda item: (item[0] == 'all', item[0])):
        total = sum(counts.values())
        understood = counts['understood'] + counts['model']
        print(f'{name}: {understood} of {total} ({100 * understood / total:.0f} %): ' + ', '.join(f'{n} {kind}' for kind, n in sorted(counts.items())))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gpuplan', required=True)
    parser.add_argument('--programs', metavar='DIR', required=True)
    parser.add_argument('--only', default='', help='files whose repository or path holds this text')
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--write', action='store_true')
    args = parser.parse_args()
    examples = [e for e in read_examples() if args.only in f'{e.repository}/{e.path}']
    asker, failed = Asker(args), 0
    try:
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            answers = list(pool.map(asker.ask, examples))
            shipped = list(pool.map(lambda example: compare_shipped(asker, example), examples))
    except programs.Missing as problem:
        print(f'FAILED: {problem}\n0 passed, 1 failed')
        return 1
    for example, got in zip(examples, answers):
        if wrong := judge(example, got):
            failed += 1
            print(f'FAILED: {example.repository}/{example.path}: {wrong}')
    for example, wrong in zip(examples, shipped):
        if wrong:
            failed += 1
            print(f'FAILED: {example.repository}/{example.path}: {wrong}')
    if args.write and not args.only:
        rewrite(examples, answers)
    summarise(examples, answers)
    summarise_tasks(examples, answers)
    total = len(examples) + sum(wrong is not None for wrong in shipped)
    print(f'{total - failed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
