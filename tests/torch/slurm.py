#!/usr/bin/python3
"""Trains plans with `gpuplan run --engine slurm` under a Slurm controller of its own, on two machines that are both this one.

    slurm.py --gpuplan build/release/gpuplan

The controller, two slurmd and munged listen on 127.0.0.1 and 127.0.0.2, keep everything in a folder that is removed, and
are ended. slurmd needs root; without it the exit code is 77. A line per case; the exit code is 1 when one failed.
"""
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from engine import PATIENCE, STEPS, Workshop, near, parse_arguments, require

PROGRAMS = ('munged', 'slurmctld', 'slurmd', 'sbatch', 'srun', 'scancel', 'squeue', 'sinfo', 'scontrol')
NODES = ('127.0.0.1', '127.0.0.2')
# A card that is asked for and not there: the script of plain PyTorch then computes on CPUs.
MACHINES = 'name: two machines\ngpu: t4\ngpus_per_node: 1\nnum_nodes: 2\ninter:\n  network: 10 GbE\n  nics: {count: 1, gbit_s: 10}\n'
SECRET = 'hf_secretsecret'

CONFIG = '''ClusterName=gpuplan
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}/state
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
KillWait=2
ReturnToService=2
NodeName=127.0.0.[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[2]}] CPUs=2 Gres=gpu:1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
'''


def three_free_ports():
    """The first of three in a row that nobody listens on."""
    for first in range(26817, 30000, 3):
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + 3):
                    held.enter_context(socket.socket()).bind(('127.0.0.1', port))
            except OSError:
                continue
        return range(first, first + 3)
    raise OSError('no free ports')


class Controller:
    """munged, slurmctld and two slurmd in a folder of their own."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix='gpuplan-slurm-')
        self.environment = {'SLURM_CONF': os.path.join(self.folder, 'slurm.conf')}

    def path(self, name):
        return os.path.join(self.folder, name)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        os.mkdir(self.path('state'))
        with open(os.open(self.path('munge.key'), os.O_WRONLY | os.O_CREAT, 0o600), 'wb') as file:
            file.write(os.urandom(128))
        with open(self.path('slurm.conf'), 'w') as file:
            file.write(CONFIG.format(host=socket.gethostname().split('.')[0], folder=self.folder, ports=three_free_ports()))
        with open(self.path('gres.conf'), 'w') as file:
            file.write('NodeName=127.0.0.[1-2] Name=gpu File=/dev/null\n')
        os.chmod(self.folder, 0o755)  # munged refuses a socket that others could not reach
        self.call('munged', '--force', '--key-file=' + self.path('munge.key'), '--socket=' + self.path('munge.sock'),
                  '--pid-file=' + self.path('munged.pid'), '--log-file=' + self.path('munged.log'), '--seed-file=' + self.path('munged.seed'))
        self.call('slurmctld')
        for node in NODES:
            self.call('slurmd', '-N', node)
        limit = time.monotonic() + 120
        while self.call('sinfo', '-h', '-N', '-o', '%t').split() != ['idle', 'idle']:
            require(time.monotonic() < limit, 'the nodes do not come up: ' + self.log())
            time.sleep(0.2)

    def call(self, *words):
        done = subprocess.run(words, env={**os.environ, **self.environment}, capture_output=True, text=True, timeout=PATIENCE)
        require(done.returncode == 0, f'{words[0]}: {done.stderr}{done.stdout}{self.log()}')
        return done.stdout

    def log(self):
        out = ''
        for name in sorted(os.listdir(self.folder)):
            if name.endswith('.log'):
                with open(self.path(name), errors='replace') as file:
                    out += f'\n{name}:\n' + file.read()[-1500:]
        return out

    def pids(self):
        for name in [f'slurmd-{node}.pid' for node in NODES] + ['slurmctld.pid', 'munged.pid']:
            with contextlib.suppress(OSError, ValueError), open(self.path(name)) as file:
                yield int(file.read())

    def __exit__(self, *_):
        with contextlib.suppress(AssertionError, OSError, subprocess.SubprocessError):
            self.call('scancel', '--full', '--user=root')
        pids = list(self.pids())
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        limit = time.monotonic() + 120
        while any(os.path.exists(f'/proc/{pid}') for pid in pids) and time.monotonic() < limit:
            time.sleep(0.1)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


class SlurmShop(Workshop):
    def __init__(self, folder, program, controller):
        super().__init__(folder, program)
        self.environment.update(controller.environment)
        self.environment['PATH'] += ':/usr/sbin:/sbin'
        self.controller = controller
        with open(os.path.join(folder, 'machines.yaml'), 'w') as file:
            file.write(MACHINES)

    def two_machines(self, name):
        done = self.call('estimate', '--model', 'model', '--full', '--cluster', 'machines.yaml', '--strategy', 'ddp', '--framework', 'torch',
                         '--precision', 'fp32', '--seq-len', '64', '--micro-batch', '2', '--grad-accum', '2', '--save', name + '.json')
        require(done.returncode == 0, done.stderr)

    def start(self, name, steps=STEPS, *more):
        words = super().start(name, steps, *more)
        words[words.index('torchrun')] = 'slurm'
        return words


def alone(shop):
    """The losses of one process, without Slurm."""
    shop.plan('one', 'single', 1, 4)
    words = Workshop.start(shop, 'one')
    done = subprocess.run(words, cwd=shop.folder, env=shop.environment, capture_output=True, text=True, timeout=PATIENCE)
    require(done.returncode == 0, done.stderr[-3000:])
    return shop.losses('one')


def trains(shop, name):
    done = shop.run(name)
    require(done.returncode == 0, done.stderr[-3000:] + shop.controller.log())
    require(near(shop.losses(name), alone(shop)), f'{shop.losses(name)} are not those of one process')
    require(shop.lines(name, 1)[-1]['event'] == 'end', 'rank 1 did not say its end')


def two_machines(shop):
    """A task on each machine, joined by torchrun over the name that scontrol gives."""
    shop.two_machines('machines')
    trains(shop, 'machines')


def one_machine(shop):
    shop.plan('ranks', 'ddp', 2, 2)
    trains(shop, 'ranks')


def own_script(shop):
    """Arguments arrive as they are, secrets are in no file and in no output, the exit code says what failed."""
    shop.two_machines('own')
    with open(os.path.join(shop.folder, 'own.py'), 'w') as file:
        file.write('import os, sys\nprint("node", os.environ["SLURM_NODEID"], sys.argv[1:], flush=True)\n'
                   f'assert sys.argv[4] == "{SECRET}"\nsys.exit(int(sys.argv[2]))\n')
    for code, expected in (('7', 3), ('0', 0)):
        done = subprocess.run([shop.program, 'run', 'own.json', '--engine', 'slurm', '--job', 'own', '--', 'own.py', 'a b;$(id)', code,
                               '--hub_token', SECRET], cwd=shop.folder, env={**shop.environment, 'HF_TOKEN': SECRET}, capture_output=True,
                              text=True, timeout=PATIENCE)
        require(done.returncode == expected, f'exit code {done.returncode}: {done.stderr}{shop.controller.log()}')
        for node in (0, 1):
            require(f"node {node} ['a b;$(id)', '{code}', '--hub_token', '***']" in done.stderr, done.stderr)
        require(SECRET not in done.stderr + done.stdout, 'a secret was shown')
    job = os.path.join(shop.folder, 'own', 'job.sbatch')
    with open(job) as file:
        require(SECRET not in file.read(), 'a secret is in the job file')
    require(os.stat(job).st_mode & 0o077 == 0, 'others can read the job file')


def interrupted(shop):
    """Ctrl-C cancels the job."""
    shop.two_machines('endless')
    process = subprocess.Popen(shop.start('endless', 100000), cwd=shop.folder, env=shop.environment, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        limit = time.monotonic() + PATIENCE
        while not os.path.exists(os.path.join(shop.folder, 'endless', 'metrics', 'rank-0.jsonl')) or not shop.losses('endless'):
            require(time.monotonic() < limit and process.poll() is None, 'no first step')
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        while shop.controller.call('squeue', '-h'):
            require(time.monotonic() < limit, 'the job goes on')
            time.sleep(0.2)
    finally:
        if process.poll() is None:
            process.kill()
    require(process.returncode not in (0, None), f'exit code {process.returncode}')


CASES = {'ddp on two machines': two_machines, 'ddp of two ranks on one': one_machine, 'a script with secrets': own_script,
         'an interrupted job': interrupted}


def why_not():
    if os.geteuid() != 0:
        return 'slurmd needs root'
    missing = [name for name in PROGRAMS if not shutil.which(name, path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')]
    return f'{", ".join(missing)} not installed' if missing else ''


def main():
    args = parse_arguments()
    if why_not():
        print('skipped, ' + why_not())
        return 77
    os.environ['PATH'] += ':/usr/sbin:/sbin'
    passed = 0
    with Controller() as controller:
        for name, case in CASES.items():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    case(SlurmShop(folder, args.gpuplan, controller))
                    passed += 1
                    print(f'{name:<42} ok', flush=True)
                except (AssertionError, OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError) as problem:
                    print(f'{name:<42} FAILED  {type(problem).__name__}: {problem}', flush=True)
    print(f'{passed} passed, {len(CASES) - passed} failed')
    return 0 if passed == len(CASES) else 1


if __name__ == '__main__':
    sys.exit(main())
