#!/usr/bin/env python3
"""One stage of scripts/gpu_day.sh, which sets the environment: gpu_day_stage.py NUMBER.

Each result is a JSON line of $OUT/stage-NN.jsonl, written at once. Kinds: facts, check (passed, failed or skipped with a reason), run (a
training run of gpuplan or of the peer), end. A case that has its line, here or in $GPU_DAY_EARLIER, is not run again. What is judged, and by
which limits, is in gpu_day_report.py; here things are only run. Needs the standard library alone.
"""
import ctypes
import datetime
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from typing import Dict, List, Optional

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT, EARLIER, WORK = os.environ['OUT'], os.environ['GPU_DAY_EARLIER'], os.environ['GPU_DAY_WORK']
PROGRAM = os.environ['GPU_DAY_PROGRAM']
TESTS = os.environ.get('GPU_DAY_TESTS', '')
PEER = [os.environ.get('GPU_DAY_PYTHON', 'python3'), os.path.join(ROOT, 'scripts', 'gpu_day_peer.py')]
SMALL = bool(os.environ.get('GPU_DAY_SMALL'))  # a rehearsal: tiny shapes on fake GPUs
DEADLINE = time.monotonic() + float(os.environ.get('GPU_DAY_STAGE_SECONDS', '600')) - 3
AGAIN = ('killed', 'failed', 'skipped') if os.environ.get('GPU_DAY_AGAIN') else ('killed',)  # what such cases came to is no result
GPU_IDS = {'H100 NVL': 'h100-nvl', 'H100 PCIe': 'h100-pcie', 'H100': 'h100-sxm', 'H200': 'h200-sxm'}

LLAMA_3 = {'rope_type': 'llama3', 'factor': 32.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0, 'original_max_position_embeddings': 8192}
BASE = {'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'vocab_size': 128256, 'rms_norm_eps': 1e-5, 'rope_theta': 500000.0,
        'hidden_act': 'silu', 'attention_bias': False, 'mlp_bias': False, 'torch_dtype': 'bfloat16', 'initializer_range': 0.02,
        'bos_token_id': 1, 'eos_token_id': 2}
SHAPES: Dict[str, dict] = {
    'llama-3.2-1b': {**BASE, 'hidden_size': 2048, 'intermediate_size': 8192, 'num_hidden_layers': 16, 'num_attention_heads': 32,
                     'num_key_value_heads': 8, 'head_dim': 64, 'tie_word_embeddings': True, 'max_position_embeddings': 131072,
                     'rope_scaling': LLAMA_3},
    # four layers of it, for fp32
    'four-layers': {**BASE, 'hidden_size': 2048, 'intermediate_size': 8192, 'num_hidden_layers': 4, 'num_attention_heads': 32,
                    'num_key_value_heads': 8, 'head_dim': 64, 'tie_word_embeddings': True, 'max_position_embeddings': 8192},
    'llama-3-8b': {**BASE, 'hidden_size': 4096, 'intermediate_size': 14336, 'num_hidden_layers': 32, 'num_attention_heads': 32,
                   'num_key_value_heads': 8, 'tie_word_embeddings': False, 'max_position_embeddings': 8192},
    # a bias on q, k and v, as qwen2 has them, and the same without
    'biased': {**BASE, 'model_type': 'qwen2', 'architectures': ['Qwen2ForCausalLM'], 'hidden_size': 2048, 'intermediate_size': 8192,
               'num_hidden_layers': 16, 'num_attention_heads': 32, 'num_key_value_heads': 8, 'tie_word_embeddings': True,
               'max_position_embeddings': 8192, 'use_sliding_window': False},
    # six layers of the kind of qwen3-30b-a3b, with half of its experts
    'mixture': {**BASE, 'model_type': 'qwen3_moe', 'architectures': ['Qwen3MoeForCausalLM'], 'hidden_size': 2048, 'intermediate_size': 6144,
                'moe_intermediate_size': 768, 'num_experts': 64, 'num_experts_per_tok': 8, 'norm_topk_prob': True, 'decoder_sparse_step': 1,
                'mlp_only_layers': [], 'num_hidden_layers': 6, 'num_attention_heads': 32, 'num_key_value_heads': 4, 'head_dim': 128,
                'tie_word_embeddings': False, 'max_position_embeddings': 8192},
    'tiny': {**BASE, 'hidden_size': 64, 'intermediate_size': 96, 'num_hidden_layers': 2, 'num_attention_heads': 4, 'num_key_value_heads': 2,
             'vocab_size': 256, 'tie_word_embeddings': False, 'max_position_embeddings': 512},
}


# --- results -----------------------------------------------------------------------------------------------------------------------

class Journal:
    def __init__(self, stage: int):
        self.stage = stage
        self.path = os.path.join(OUT, f'stage-{stage:02d}.jsonl')
        self.records = [record for folder in dict.fromkeys((EARLIER, OUT)) for record in read_lines(os.path.join(folder, f'stage-{stage:02d}.jsonl'))]
        if os.path.exists(self.path):
            drop_torn_line(self.path)

    def has(self, kind: str, case: str, who: str = '') -> bool:
        """Whether this case has a result that stands."""
        return any((r['kind'], r.get('case'), r.get('who', '')) == (kind, case, who) and r.get('status') not in AGAIN for r in self.records)

    def add(self, kind: str, **fields) -> None:
        record = {'kind': kind, 'stage': self.stage, 'time': datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds'),
                  'rehearsal': SMALL, **fields}
        self.records.append(record)
        with open(self.path, 'a') as file:
            file.write(json.dumps(record) + '\n')
            file.flush()
            os.fsync(file.fileno())
        brief = {key: record[key] for key in ('case', 'who', 'status', 'reason') if record.get(key)}
        print(f'-- {kind} {brief}', flush=True)


def read_lines(path: str) -> List[dict]:
    if not os.path.exists(path):
        return []
    with open(path, 'rb') as file:
        lines = file.read().decode(errors='replace').split('\n')
    return [json.loads(line) for line in lines[:-1] if line]  # what follows the last line's end was torn off by a kill


def drop_torn_line(path: str) -> None:
    with open(path, 'rb+') as file:
        file.truncate(file.read().rfind(b'\n') + 1)


# --- commands ----------------------------------------------------------------------------------------------------------------------

class Done:
    def __init__(self, code: int, out: str, err: str, seconds: float):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def reason(self) -> str:
        lines = [line for line in (self.err.strip() or self.out.strip()).splitlines() if line]
        return f'exit code {self.code}: ' + ' | '.join(lines[-3:])[-600:]


def left() -> float:
    return DEADLINE - time.monotonic()


def call(command: List[str], limit: float, **environment: str) -> Done:
    """Runs a command in a process group of its own, which ends at the limit or with the stage. Code 124: it ran into the limit."""
    limit = max(1.0, min(limit, left()))
    print(f'$ {" ".join(command)}', flush=True)
    begin = time.monotonic()
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors='replace',
                                   env={**os.environ, **environment}, start_new_session=True, preexec_fn=die_with_parent)
    except OSError as problem:
        return Done(127, '', str(problem), 0.0)
    RUNNING.append(process)
    try:
        out, err = process.communicate(timeout=limit)
        code = process.returncode
    except subprocess.TimeoutExpired:
        stop(process)
        out, err = process.communicate()
        code = 124
    RUNNING.remove(process)
    done = Done(code, out, err, time.monotonic() - begin)
    most = 300 if out.startswith('{') else 3000  # what is JSON is kept as a result
    print((out if len(out) < most else out[:most // 3] + '\n…\n' + out[-most // 2:]).rstrip())
    if err:
        print(err[-2000:].rstrip())
    print(f'   exit code {code}, {done.seconds:.1f} s', flush=True)
    return done


RUNNING: List[subprocess.Popen] = []


def die_with_parent() -> None:
    """In a child: nothing is left on the GPU when the stage is killed, even by SIGKILL."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def stop(process: subprocess.Popen) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def stop_all(*_) -> None:
    for process in RUNNING:
        stop(process)
    os._exit(143)


def libraries() -> Dict[str, str]:
    own = [part for part in (os.environ.get('GPU_DAY_LIBRARIES', ''), os.environ.get('LD_LIBRARY_PATH', '')) if part]
    return {'LD_LIBRARY_PATH': ':'.join(own)} if own else {}


def gpuplan(arguments: List[str], limit: float, **environment: str) -> Done:
    return call([PROGRAM] + arguments, limit, **{**libraries(), **environment})


def memory_checked(tool: str, command: List[str], limit: float) -> Done:
    return call(['compute-sanitizer', '--tool', tool, '--error-exitcode', '99'] + command, limit, **libraries())


def check(journal: Journal, case: str, run, passes=lambda done: done.code == 0, detail=lambda done: '') -> None:
    """A check that `run()` makes; passed, failed, or skipped where the tool is not here."""
    if journal.has('check', case):
        return
    done = run()
    if done.code == 127:
        journal.add('check', case=case, status='skipped', reason=done.err)
    elif done.code == 124:
        journal.add('check', case=case, status='killed' if left() < 2 else 'failed', reason=f'not done in {done.seconds:.0f} s', seconds=done.seconds)
    else:
        passed = passes(done)
        journal.add('check', case=case, status='passed' if passed else 'failed', reason='' if passed else done.reason(), detail=detail(done),
                    seconds=done.seconds)


# --- models, training --------------------------------------------------------------------------------------------------------------

def shape_of(name: str) -> dict:
    """Of a rehearsal: two tiny layers, with biases where they are the point."""
    if not SMALL:
        return SHAPES[name]
    kept = {key: SHAPES[name][key] for key in ('model_type', 'architectures')}
    if 'num_experts' in SHAPES[name]:
        few = {'num_experts': 4, 'num_experts_per_tok': 2, 'moe_intermediate_size': 32, 'head_dim': 16}
        kept.update({key: few.get(key, SHAPES[name][key]) for key in (*few, 'norm_topk_prob', 'decoder_sparse_step', 'mlp_only_layers')})
    return {**SHAPES['tiny'], **kept}


def config_folder(name: str) -> str:
    """A folder with config.json alone: for random weights."""
    folder = os.path.join(WORK, 'configs', name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, 'config.json'), 'w') as file:
        json.dump(shape_of(name), file)
    return folder


def made_model(journal: Journal, name: str, limit: float) -> Optional[str]:
    """A folder with weights, adapter/ and tokens.bin, which both programs start from; None where it could not be made."""
    folder = os.path.join(WORK, 'models', name)
    if os.path.exists(os.path.join(folder, 'complete')):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    config = os.path.join(config_folder(name), 'config.json')
    done = call(PEER + ['make', '--config', config, '--output', folder, '--tokens', str(40000 if SMALL else 400000)], limit)
    good = done.code == 0
    journal.add('check', case=f'model {name}', status='passed' if good else 'killed' if left() < 2 else 'failed',
                reason='' if good else done.reason(), seconds=done.seconds)
    if not good:
        return None
    with open(os.path.join(folder, 'complete'), 'w'):
        pass
    return folder


def scaled(steps: int, seq_len: int, micro_batch: int) -> List[str]:
    if SMALL:
        steps, seq_len, micro_batch = min(steps, 4), 32, min(micro_batch, 2)
    return ['--max-steps', str(steps), '--seq-len', str(seq_len), '--micro-batch', str(micro_batch)]


def profile() -> List[str]:
    """The best calibration so far, in a copy that no earlier run has corrected: `run` keeps what it learns beside a profile."""
    used = os.path.join(WORK, 'calibrated.yaml')
    for name in ('profile-full.yaml', 'profile-quick.yaml'):
        for folder in (OUT, EARLIER):
            if os.path.exists(os.path.join(folder, name)):
                shutil.copyfile(os.path.join(folder, name), used)
                if os.path.exists(used + '.runs.jsonl'):
                    os.remove(used + '.runs.jsonl')
                return ['--profile', used]
    return []


def run_ours(journal: Journal, case: str, model: str, method: str, shape: List[str], limit: float, extra: Optional[List[str]] = None,
             gpus: str = 'local', who: str = 'gpuplan') -> None:
    if journal.has('run', case, who):
        return
    metrics = os.path.join(WORK, f'metrics-{os.getpid()}.jsonl')
    arguments = ['run', '--model', model, f'--{method}', '--gpus', gpus, '--strategy', 'single', *shape, '--no-shuffle', '--metrics', metrics,
                 '--json', *(profile() if gpus == 'local' else []), *(extra or [])]
    done = gpuplan(arguments, limit)
    if done.code != 0:
        record_failure(journal, case, who, done, ['gpuplan'] + arguments)
        return
    steps = read_lines(metrics)
    journal.add('run', case=case, who=who, status='done', command='gpuplan ' + ' '.join(arguments), seconds=done.seconds,
                losses=[line['loss'] for line in steps], steps_seconds=[line['step_seconds'] for line in steps],
                report=json.loads(done.out))


def run_theirs(journal: Journal, case: str, model: str, method: str, shape: List[str], limit: float, extra: Optional[List[str]] = None,
               who: str = 'peft', launcher: Optional[List[str]] = None) -> None:
    if journal.has('run', case, who):
        return
    arguments = ['train', '--model', model, '--method', method, *shape, *(extra or [])]
    done = call((launcher or PEER) + arguments, limit)
    if done.code != 0:
        record_failure(journal, case, who, done, PEER[1:] + arguments)
        return
    result = json.loads(done.out.strip().splitlines()[-1])
    journal.add('run', case=case, who=who, status='done', command='gpu_day_peer.py ' + ' '.join(arguments), seconds=done.seconds,
                losses=result.pop('losses'), steps_seconds=result.pop('steps_seconds'), result=result)


def record_failure(journal: Journal, case: str, who: str, done: Done, command: List[str]) -> None:
    is_stage_over = left() < 2 and done.code == 124
    journal.add('run', case=case, who=who, status='killed' if is_stage_over else 'failed', command=' '.join(command), reason=done.reason(),
                seconds=done.seconds)


# --- stages ------------------------------------------------------------------------------------------------------------------------

def start(journal: Journal) -> None:
    if not journal.has('facts', 'machine'):
        smi = call(['nvidia-smi', '--query-gpu=name,driver_version,memory.total,memory.used,pcie.link.gen.max,pcie.link.width.max,clocks.max.sm',
                    '--format=csv,noheader'], 20)
        nvcc = call(['nvcc', '--version'], 20)
        peer = call(PEER + ['versions'], 50)
        version = gpuplan(['--version'], 20)
        journal.add('facts', case='machine', nvidia_smi=smi.out.strip(), nvcc=(re.findall(r'release ([0-9.]+)', nvcc.out) or [''])[0],
                    peer=json.loads(peer.out.strip().splitlines()[-1]) if peer.code == 0 else {'failed': peer.reason()},
                    gpuplan=version.out.strip(), glibc=os.confstr('CS_GNU_LIBC_VERSION'), libraries=os.environ.get('GPU_DAY_LIBRARIES', ''))
    tiny = config_folder('tiny')
    hello = ['run', '--model', tiny, '--init', 'random', '--lora', '--gpus', 'local', '--strategy', 'single', *scaled(4, 64, 2)]
    check(journal, 'a few steps of a tiny model', lambda: gpuplan(hello, 40))
    check(journal, 'the same under memcheck', lambda: memory_checked('memcheck', [PROGRAM] + hello, 45),
          detail=lambda done: last_line(done, 'ERROR SUMMARY'))


def last_line(done: Done, text: str) -> str:
    return ([line.strip() for line in (done.out + done.err).splitlines() if text in line] or [''])[-1]


KERNELS_UNDER = [  # tool, test cases: small shapes of every kernel
    ('memcheck', 'training:*'), ('memcheck', 'attention of training*'), ('racecheck', 'training: *sum*,training: gradients of RMS*'),
    ('racecheck', 'attention of training gives*'), ('initcheck', 'training: zero*,training: AdamW*'), ('synccheck', 'attention of training gives*')]


def kernels(journal: Journal) -> None:
    filters = ['-tc=training: zero*'] if SMALL else []
    check(journal, 'kernels, products, streams and graphs against float64', lambda: call([TESTS] + filters, 90, **libraries()),
          detail=lambda done: last_line(done, 'test cases:'))
    for method in ('full', 'lora', 'qlora'):
        for precision in ('fp32', 'bf16-mixed'):
            for gpus in ('local', '1xcpu'):
                run_ours(journal, f'gpu against cpu: {method} {precision}', config_folder('tiny'), method, scaled(6, 64, 2), 30,
                         ['--init', 'random', '--precision', precision], gpus, 'gpuplan' if gpus == 'local' else 'cpu')
    for tool, cases in KERNELS_UNDER[:1] if SMALL else KERNELS_UNDER:
        check(journal, f'{tool}: {cases}', lambda: memory_checked(tool, [TESTS, *(filters or [f'-tc={cases}'])], 60),
              detail=lambda done: last_line(done, 'SUMMARY'))


def calibrate(journal: Journal) -> None:
    for name, flags in (('quick', ['--quick']), ('full', [])):
        if journal.has('check', f'calibrate {name}'):
            continue
        if SMALL:  # a fake GPU's products take minutes
            flags = ['--quick', '--only', 'copy' if name == 'quick' else 'copy,dispatch']
        written = os.path.join(WORK, f'profile-{name}.yaml')
        check(journal, f'calibrate {name}', lambda: gpuplan(['calibrate', '--device', 'cuda', *flags, '--output', written], 100 if name == 'quick' else 600),
              detail=lambda done: done.err.strip().splitlines()[-2] if len(done.err.strip().splitlines()) > 1 else '')
        if os.path.exists(written):
            shutil.copyfile(written, os.path.join(OUT, f'profile-{name}.yaml'))


LOSS_CASES = [  # case, model, method, precision, attention of the peer
    ('lora bf16', 'llama-3.2-1b', 'lora', 'bf16-mixed'), ('full bf16', 'llama-3.2-1b', 'full', 'bf16-mixed'),
    ('qlora bf16', 'llama-3.2-1b', 'qlora', 'bf16-mixed'), ('full fp32', 'four-layers', 'full', 'fp32'), ('lora fp32', 'four-layers', 'lora', 'fp32')]


def losses(journal: Journal) -> None:
    for case, name, method, precision in LOSS_CASES:
        folder = made_model(journal, name, 60)
        if folder is None:
            continue
        shape = scaled(20, 512, 4)
        adapter = ['--adapter', os.path.join(folder, 'adapter')] if method != 'full' else []
        shared = ['--data', os.path.join(folder, 'tokens.bin'), '--precision', precision, '--lr', '1e-4', *adapter]
        ours = method + ('=base=fp32' if method != 'full' and precision == 'fp32' else '')
        run_ours(journal, case, folder, ours, shape, 60, shared + ['--token-dtype', 'uint32', '--schedule', 'constant'])
        run_theirs(journal, case, folder, method, shape, 60, shared)
        if case == 'lora bf16':  # what another attention kernel does to the peer itself is the spread
            run_theirs(journal, case, folder, method, shape, 60, shared + ['--attention', 'eager'], 'peft, eager attention')


MEMORY_CASES = [  # case, method, sequence, micro batch, flags
    ('lora, 4 x 2048', 'lora', 2048, 4, []), ('lora, 8 x 2048, checkpointing', 'lora', 2048, 8, ['--checkpointing', 'full']),
    ('full, 2 x 2048', 'full', 2048, 2, []), ('full, 1 x 8192, checkpointing', 'full', 8192, 1, ['--checkpointing', 'full']),
    ('qlora, 2 x 4096', 'qlora', 4096, 2, []), ('full, 2 x 1024, bf16-true', 'full', 1024, 2, ['--precision', 'bf16-true'])]


def memory(journal: Journal) -> None:
    for case, method, seq_len, micro_batch, flags in MEMORY_CASES:
        run_ours(journal, case, config_folder('llama-3.2-1b'), method, scaled(5, seq_len, micro_batch), 45, ['--init', 'random', *flags])


def speed(journal: Journal) -> None:
    """Each program in turn, so that a clock that drifts meets both."""
    folder = config_folder('llama-3.2-1b')
    for turn in (1, 2):
        for method in ('lora', 'full'):
            shape = scaled(12, 2048, 4)
            run_ours(journal, f'{method}, 4 x 2048, turn {turn}', folder, method, shape, 45, ['--init', 'random'])
            run_theirs(journal, f'{method}, 4 x 2048, turn {turn}', folder, method, shape, 45, ['--init', 'random'])


def eight_b(journal: Journal) -> None:
    folder = config_folder('llama-3-8b')
    for method in ('lora', 'qlora'):
        shape = scaled(8, 2048, 1)
        run_ours(journal, f'8b {method}, 1 x 2048', folder, method, shape, 70, ['--init', 'random'])
        if method == 'lora':
            run_theirs(journal, f'8b {method}, 1 x 2048', folder, method, shape, 60, ['--init', 'random'])


def accelerate_engine(journal: Journal) -> None:
    case = 'run --engine accelerate'
    if journal.has('check', case):
        return
    if '--engine' not in gpuplan(['run', '--help'], 20).out:
        journal.add('check', case=case, status='skipped', reason='this gpuplan has no --engine')
        return
    python = call([PEER[0], '-c', 'import accelerate, sys; print(sys.executable)'], 40)
    if python.code != 0:
        journal.add('check', case=case, status='skipped', reason='accelerate is not installed here')
        return
    folder = made_model(journal, 'llama-3.2-1b', 60)
    if folder is None:
        return
    plan, shape = os.path.join(WORK, 'plan.json'), scaled(10, 512, 4)
    saved = gpuplan(['estimate', '--model', folder, '--lora', '--gpus', 'local', '--strategy', 'single', '--framework', 'hf-loop', *shape[2:],
                     '--save', plan], 30)
    if saved.code != 0:
        journal.add('check', case=case, status='failed', reason=saved.reason())
        return
    script = [PEER[1], 'train', '--model', folder, '--method', 'lora', '--data', os.path.join(folder, 'tokens.bin'), '--log', *shape]
    check(journal, case, lambda: gpuplan(['run', plan, '--engine', 'accelerate', '--job', os.path.join(WORK, 'accelerate-job'), '--', *script], 70,
                                        PATH=os.path.dirname(python.out.strip()) + ':' + os.environ['PATH']),
          detail=lambda done: done.out[-3000:])


def switches(journal: Journal) -> None:
    shape = scaled(30, 512, 1)
    for name, what in (('llama-3.2-1b', 'no bias'), ('biased', 'bias epilogues')):
        for turn in (1, 2):
            for graphs, flags in (('graphs', []), ('no graphs', ['--no-cuda-graphs'])):
                run_ours(journal, f'{what}, {graphs}, turn {turn}', config_folder(name), 'lora', shape, 25, ['--init', 'random', *flags])


def gpu_id() -> str:
    name = call(['nvidia-smi', '--query-gpu=name', '--format=csv,noheader'], 20).out
    return next((key for text, key in GPU_IDS.items() if text in name), '')


def shared_gpu(journal: Journal) -> None:
    """Two processes as torchrun starts them, both on GPU 0. NCCL before 2.30 refuses that."""
    case = 'two ranks on one GPU'
    if journal.has('check', case):
        return
    arguments = ['run', '--model', config_folder('tiny'), '--init', 'random', '--full', '--gpus', f'2x{gpu_id()}', *scaled(4, 64, 2)]
    ranks: List[subprocess.Popen] = []
    secret = secrets.token_hex(16)  # by which they know each other
    for rank in ('0', '1'):
        environment = {**os.environ, **libraries(), 'RANK': rank, 'WORLD_SIZE': '2', 'LOCAL_RANK': rank, 'LOCAL_WORLD_SIZE': '2',
                       'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': '29511', 'GPUPLAN_SECRET': secret}
        ranks.append(subprocess.Popen([PROGRAM] + arguments + ['--strategy', 'fsdp'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True, preexec_fn=die_with_parent))
    RUNNING.extend(ranks)
    begin, texts = time.monotonic(), []
    for process in ranks:
        try:
            texts.append(''.join(process.communicate(timeout=max(1.0, min(45.0, left())))))
        except subprocess.TimeoutExpired:
            stop(process)
            texts.append(''.join(process.communicate()) + ' (stopped at its limit)')
        RUNNING.remove(process)
    print('\n'.join(texts), flush=True)
    refusal = re.search(r'NCCL \S+ refuses several ranks on one GPU', ''.join(texts))
    good = all(process.returncode == 0 for process in ranks)
    journal.add('check', case=case, status='passed' if good else 'skipped' if refusal else 'failed', seconds=time.monotonic() - begin,
                reason='' if good else refusal.group(0) if refusal else ' | '.join(text.strip()[-300:] for text in texts))


def installed() -> Dict[str, str]:
    """Versions of the peer's packages; without one whose import failed."""
    done = call(PEER + ['versions'], 50)
    found = json.loads(done.out.strip().splitlines()[-1]) if done.code == 0 else {}
    return {name: text for name, text in found.items() if isinstance(text, str) and not text.startswith('none')}


def predict(journal: Journal, case: str, model: str, method: str, shape: List[str], versions: str) -> None:
    """What `estimate` says of the peer's run, under these versions of its libraries."""
    if journal.has('run', case, 'predicted'):
        return
    gpu = 'h100-sxm' if SMALL else gpu_id()
    arguments = ['estimate', '--model', model, f'--{method}=r=8', '--gpus', gpu, '--strategy', 'single', '--framework', 'hf-loop', *shape[2:], '--json',
                 *(['--versions', versions] if versions else []), *([] if SMALL else profile())]
    done = gpuplan(arguments, 30)
    if done.code not in (0, 1):  # 1: it does not fit, which is an answer
        record_failure(journal, case, 'predicted', done, ['gpuplan'] + arguments)
        return
    answer = json.loads(done.out)['strategies'][0]
    journal.add('run', case=case, who='predicted', status='done', command='gpuplan ' + ' '.join(arguments), seconds=done.seconds,
                result={key: answer[key] for key in ('tensors_bytes', 'process_bytes', 'step_seconds')})


EXPERTS = (('loop', 'eager', 'transformers=4.57.6'), ('one product', 'grouped_mm', ''))  # ours, transformers 5's, and the version that has it


def mixtures(journal: Journal) -> None:
    here = installed()
    known = re.match(r'\d+(\.\d+)+', here.get('transformers', ''))
    for method in ('lora', 'qlora'):
        folder = config_folder('mixture') if method == 'lora' else made_model(journal, 'mixture', 90)
        if folder is None:
            continue
        for name, implementation, versions in EXPERTS:
            case, shape = f'mixture {method}, {name}', scaled(8, 2048, 2)
            given = ['--init', 'random'] if method == 'lora' else []
            run_theirs(journal, case, folder, method, shape, 70, [*given, '--experts', implementation])
            predict(journal, case, config_folder('mixture'), method, shape, versions or (f'transformers={known.group(0)}' if known else ''))


def zero_2(journal: Journal) -> None:
    num_gpus = len(call(['nvidia-smi', '--query-gpu=name', '--format=csv,noheader'], 20).out.strip().splitlines())
    lacks = f'{num_gpus} GPU' if num_gpus < 2 else 'DeepSpeed is not installed here' if 'deepspeed' not in installed() else ''
    for name, flag in (('beside compute', 'beside'), ('waited for', 'waits')):
        case = f'ZeRO-2, reductions {name}'
        if lacks:
            if not journal.has('check', case):
                journal.add('check', case=case, status='skipped', reason=f'needs two GPUs and DeepSpeed: {lacks}')
            continue
        launcher = [PEER[0], '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', str(num_gpus), PEER[1]]
        run_theirs(journal, case, config_folder('llama-3.2-1b'), 'full', scaled(12, 2048, 2), 55, ['--init', 'random', '--zero-2', flag],
                   launcher=launcher)


def compiled_block(journal: Journal) -> None:
    case = 'a block of experts'
    if journal.has('run', case, 'block'):
        return
    done = call(PEER + ['block', '--config', os.path.join(config_folder('mixture'), 'config.json'), '--tokens', str(64 if SMALL else 4096)], 55)
    if done.code != 0:
        record_failure(journal, case, 'block', done, PEER[1:] + ['block'])
        return
    journal.add('run', case=case, who='block', status='done', command='gpu_day_peer.py block', seconds=done.seconds,
                result=json.loads(done.out.strip().splitlines()[-1]))


STAGES = {1: start, 2: kernels, 3: calibrate, 4: losses, 5: memory, 6: speed, 7: eight_b, 8: accelerate_engine, 9: switches, 10: shared_gpu,
          11: mixtures, 12: zero_2, 13: compiled_block}


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in map(str, STAGES):
        print(f'usage: gpu_day_stage.py NUMBER, 1 to {len(STAGES)}', file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, stop_all)
    stage = int(sys.argv[1])
    journal = Journal(stage)
    begin = time.monotonic()
    STAGES[stage](journal)
    latest = {(record['kind'], record.get('case'), record.get('who')): record.get('status') for record in journal.records}
    if 'killed' in latest.values():
        return 124
    journal.add('end', status='done', seconds=time.monotonic() - begin)
    return 0


if __name__ == '__main__':
    sys.exit(main())
