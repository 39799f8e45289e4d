"""Inside the Debian of chroot.sh: what the readers of exports share. An export is a folder /work/exports/PLAN/TARGET; a reader gives the values
that its program read, in our words, and whatever the program raises counts as a refusal."""
import contextlib
import json
import os
import pathlib
import sys
import traceback

EXPORTS = pathlib.Path('/work/exports')
SCHEDULERS = ('slurm', 'skypilot', 'kubeflow')  # their jobs start launch.sh of a trainer's files
TRAINER_FILES = {'sft.yaml': 'trl', 'axolotl.yaml': 'axolotl', 'llamafactory.yaml': 'llama-factory', 'torchtune.yaml': 'torchtune', 'training.json': 'transformers'}
PRECISION = {(True, False): 'bf16', (False, True): 'fp16', (False, False): 'no'}  # of autocast


def pretend_gpu(is_there=False):
    """Programs that ask are told that the card computes in bf16; with `is_there` also that there are eight. None computes here."""
    import torch
    if is_there:
        torch.cuda.is_available = lambda: True
        torch.cuda.current_device = lambda: 0
        torch.cuda.device_count = lambda: 8
    torch.cuda.is_bf16_supported = lambda *args, **kwargs: True
    torch.cuda.get_device_capability = lambda *args: (9, 0)
    import transformers.training_args as arguments
    import transformers.utils as utils
    for module in (arguments, utils):
        module.is_torch_bf16_gpu_available = lambda: True


def message(error):
    """The error's first lines, with its class and where our text does not matter: the last line of its own code."""
    text = ' '.join((str(error).strip() or 'no message').split())
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if '/programs/' in frame.filename]
    where = f' ({places[-1].filename.split("/programs/")[1].split("/", 1)[1]}:{places[-1].lineno})' if places else ''
    return f'{type(error).__name__}: {text[:400]}{where}'


@contextlib.contextmanager
def surroundings(variables):
    """os.environ with these variables, for a while."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def trainer_of(folder, target):
    """The program whose files an export holds: a scheduler's job has those of the plan's trainer beside it."""
    if target not in SCHEDULERS:
        return target
    found = [TRAINER_FILES[file.name] for file in folder.iterdir() if file.name in TRAINER_FILES]
    if len(found) != 1:
        raise RuntimeError(f"{folder.name} holds files of {', '.join(found) or 'no trainer'}")
    return found[0]


def run(readers, stand_ins, out):
    """`readers`: target to a function of folder and plan; a scheduler's job is read as its trainer's files are, but where it has a reader of its own."""
    with open(out, 'w') as file:
        for folder in sorted(EXPORTS.iterdir()):
            plan = json.loads((folder / 'plan.json').read_text())
            for target in dict.fromkeys((*readers, *SCHEDULERS)):
                if not (folder / target).exists():
                    continue
                read = readers.get(target) or readers.get(trainer_of(folder / target, target))
                if not read:
                    continue
                row = {'plan': folder.name, 'target': target}
                try:
                    os.chdir(folder / target)
                    with surroundings({}):
                        row['read'] = read(folder / target, plan)
                except (Exception, SystemExit) as error:  # noqa: BLE001
                    row['refused'] = message(error)
                file.write(json.dumps(row, default=str) + '\n')
                file.flush()
    print('stood in for:', ', '.join(sorted(stand_ins.used)) or 'nothing')
    sys.stdout.flush()
    os._exit(0)  # some programs leave threads
