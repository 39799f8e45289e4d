"""Exports that `accelerate launch` or torchrun start: the launcher's own reading of the file or of the script's variables, then the plugins that it
makes, and the wrap classes that FSDP finds in the real model."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import environment

stand_ins = environment.enter(['tokenizers', 'torchao'])

import reading  # noqa: E402

TRACE = '''#!/usr/bin/python3
import json, os, sys
json.dump({'words': sys.argv, 'variables': dict(os.environ)}, open(os.environ['TRACE'], 'w'))
'''
PLACE = pathlib.Path(tempfile.mkdtemp(prefix='trace-'))  # of this run alone: another may be there
models = {}


def meta_model(plan):
    """The plan's model on the meta device, as the program makes it."""
    import counts
    name = plan['model']['name']
    if name not in models:
        models.clear()
        models[name] = counts.made_of(plan['model']['config'])
    return models[name]


def trace(folder, *words):
    """The words and variables with which launch.sh starts its launcher, or the script itself."""
    for program in ('accelerate', 'torchrun', 'deepspeed', 'llamafactory-cli', 'tune', 'train.py'):
        (PLACE / program).write_text(TRACE)
        (PLACE / program).chmod(0o755)
    answer = PLACE / 'answer.json'
    answer.unlink(missing_ok=True)
    done = subprocess.run(['sh', str(folder / 'launch.sh'), *words], capture_output=True, text=True,
                          env={**os.environ, 'PATH': f'{PLACE}:/usr/bin:/bin', 'TRACE': str(answer), 'SCRIPT': str(PLACE / 'train.py'),
                               'NODE_RANK': '0', 'HOSTFILE': '/tmp/hosts', 'MACHINE_RANK': '0', 'MAIN_ADDRESS': '127.0.0.1', 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': '29500',
                               'PYTHONPATH': os.environ['GPUPLAN_CLIENTS']})
    if done.returncode != 0 or not answer.exists():
        raise RuntimeError(f'launch.sh ends with {done.returncode}: {done.stderr[-300:]}')
    return json.loads(answer.read_text())


SRUN = '#!/bin/bash\nwhile [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n'
SCONTROL = '#!/bin/bash\necho machine-0\n'


def job_start(folder, target):
    """What a scheduler runs on the first machine, as a script for bash."""
    import yaml
    if target == 'slurm':
        return (folder / 'job.sbatch').read_text()
    if target == 'skypilot':
        return yaml.safe_load((folder / 'task.yaml').read_text())['run']
    master = yaml.safe_load((folder / 'job.yaml').read_text())['spec']['pytorchReplicaSpecs']['Master']
    container = master['template']['spec']['containers'][0]
    if container['command'] != ['bash', '-c']:
        raise RuntimeError(f'the container starts {container["command"]}')
    return container['args'][0]


def trace_job(folder, target):
    """The words and variables with which a job's launch.sh starts its launcher on the first machine."""
    trace(folder)  # the programs that answer
    for name, text in (('srun', SRUN), ('scontrol', SCONTROL)):
        (PLACE / name).write_text(text)
        (PLACE / name).chmod(0o755)
    answer = PLACE / 'answer.json'
    answer.unlink(missing_ok=True)
    done = subprocess.run(['bash', '-c', job_start(folder, target)], capture_output=True, text=True, cwd=folder,
                          env={'PATH': f'{PLACE}:/usr/bin:/bin', 'TRACE': str(answer), 'PYTHONPATH': os.environ['GPUPLAN_CLIENTS'], 'HOME': '/tmp',
                               'SLURM_JOB_NODELIST': 'machine-0', 'SLURM_JOB_ID': '7', 'SLURM_NODEID': '0', 'SKYPILOT_NODE_IPS': '127.0.0.1', 'SKYPILOT_NODE_RANK': '0',
                               'RANK': '0', 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': '23456'})
    if done.returncode != 0 or not answer.exists():
        raise RuntimeError(f'the job ends with {done.returncode}: {done.stderr[-300:]}')
    return json.loads(answer.read_text())


def launch_variables(file):
    """What `accelerate launch --config_file` sets for the processes that it starts."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils import launch
    arguments, defaults, mixed = _validate_launch_command(launch_command_parser().parse_args(['--config_file', str(file), 'train.py']))
    if arguments.use_deepspeed:
        arguments.deepspeed_fields_from_accelerate_config = ','.join(list(defaults.deepspeed_config or {}) + (['mixed_precision'] if mixed else []))
        variables = launch.prepare_deepspeed_cmd_env(arguments)[1]
    elif arguments.use_fsdp or arguments.multi_gpu:
        variables = launch.prepare_multi_gpu_env(arguments)
    else:
        variables = launch.prepare_simple_launcher_cmd_env(arguments)[1]
    return variables, (arguments.num_processes or 1)


def launched_precision(folder):
    """The variable of mixed precision that the launcher of an export sets, from which a trainer starts."""
    started = {} if (folder / 'accelerate.yaml').exists() else trace(folder)['variables']
    if not started:
        started, _ = launch_variables(folder / 'accelerate.yaml')
    word = started.get('ACCELERATE_MIXED_PRECISION')
    return {'ACCELERATE_MIXED_PRECISION': str(word)} if word else {}


def plugin_values(variables, plan):
    from accelerate.utils import DeepSpeedPlugin, FullyShardedDataParallelPlugin
    reading.pretend_gpu(is_there=True)
    with reading.surroundings({key: str(value) for key, value in variables.items()}):
        found = {'precision': variables.get('ACCELERATE_MIXED_PRECISION') or 'fp32'}
        if str(variables.get('ACCELERATE_USE_DEEPSPEED', '')).lower() == 'true':
            values = deepspeed_values(DeepSpeedPlugin())
            return {**values, **found} if found['precision'] == 'fp8' else {**found, **values}
        if str(variables.get('ACCELERATE_USE_FSDP', '')).lower() == 'true':
            plugin = FullyShardedDataParallelPlugin()
            return {**found, **fsdp_values(plugin, plan)}
    return {**found, 'engine': 'ddp or one'}


def fsdp_values(plugin, plan):
    version = plugin.fsdp_version
    found = {'engine': f'fsdp{version}', 'offload_params': bool(getattr(plugin.cpu_offload, 'offload_params', plugin.cpu_offload)) if version == 1
             else type(plugin.cpu_offload).__name__ == 'CPUOffloadPolicy', 'fsdp_checkpointing': bool(plugin.activation_checkpointing)}
    if version == 2:
        found['reshard'] = plugin.reshard_after_forward if isinstance(plugin.reshard_after_forward, bool) else str(plugin.reshard_after_forward)
    else:
        found['sharding'] = str(getattr(plugin.sharding_strategy, 'name', plugin.sharding_strategy))
    plugin.set_auto_wrap_policy(meta_model(plan))  # stops where a class is not in the model
    return found


def deepspeed_values(plugin):
    config = plugin.deepspeed_config
    zero = config.get('zero_optimization', {})
    return {'engine': f'zero{zero.get("stage")}', 'offload_optimizer': (zero.get('offload_optimizer') or {}).get('device', 'none'),
            'offload_params': (zero.get('offload_param') or {}).get('device', 'none'), 'precision': reading.PRECISION[
                bool(config.get('bf16', {}).get('enabled')), bool(config.get('fp16', {}).get('enabled'))],
            'micro_batch': config.get('train_micro_batch_size_per_gpu'), 'grad_accum': config.get('gradient_accumulation_steps')}


def read_file(folder, plan):
    variables, processes = launch_variables(folder / 'accelerate.yaml')
    return {**plugin_values(variables, plan), 'processes': processes}


def read_script(folder, plan):
    from torch.distributed.run import get_args_parser
    started = trace(folder, str(PLACE / 'train.py'))
    processes = 1
    if started['words'][0].endswith('torchrun'):
        arguments = get_args_parser().parse_args(started['words'][1:])
        processes = int(arguments.nproc_per_node) * int(str(arguments.nnodes).split(':')[0])
    return {**plugin_values(started['variables'], plan), 'processes': processes}


def read_launched(folder, plan):
    """launch.sh beside a trainer's own file: that it starts, and what accelerate makes of it."""
    started = trace(folder)
    if not (folder / 'accelerate.yaml').exists():
        return {'words': ' '.join(started['words'][1:])}
    return read_file(folder, plan)


def read_job(folder, plan):
    """A scheduler's job starts what launch.sh beside it starts, on the first machine."""
    job, own = trace_job(folder, folder.name), trace(folder)
    if job['words'][0] != own['words'][0] or len(job['words']) != len(own['words']):  # addresses and ports differ
        raise RuntimeError(f"the job starts {' '.join(job['words'])}, and launch.sh {' '.join(own['words'])}")
    if (folder / 'accelerate.yaml').exists():
        return read_file(folder, plan)
    return {'words': ' '.join(job['words'][1:])}


if __name__ == '__main__':
    reading.run({'accelerate': read_file, 'torchrun': read_script, 'trl': read_launched, 'transformers': read_launched,
                 **dict.fromkeys(reading.SCHEDULERS, read_job)}, stand_ins, sys.argv[1])
