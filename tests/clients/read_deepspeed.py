"""Exports for DeepSpeed: its launcher's arguments and its own configuration class, for as many ranks as the plan has."""
import json
import os
import sys

os.environ['DS_ACCELERATOR'] = 'cpu'

import environment  # noqa: E402

stand_ins = environment.enter(['tokenizers', 'triton', 'ninja', 'distutils'])

import reading  # noqa: E402


class Ranks:
    """What DeepSpeed asks of a model-parallel unit."""

    def __init__(self, count):
        self.count = count

    def get_data_parallel_world_size(self):
        return self.count

    get_sequence_parallel_world_size = get_tensor_model_parallel_world_size = get_model_parallel_world_size = lambda self: 1


def ranks(plan):
    strategy = plan['strategy']
    return strategy['dp_shard'] * strategy['dp_replicate']


def read_config(folder, plan):
    from deepspeed.runtime import config as module
    from deepspeed.runtime.config import DeepSpeedConfig
    module.dist.get_world_size = lambda *args, **kwargs: ranks(plan)
    module.dist.get_rank = lambda *args, **kwargs: 0
    config = DeepSpeedConfig(str(folder / 'deepspeed.json'), mpu=Ranks(ranks(plan)))
    zero = config.zero_config
    device = lambda offload: str(getattr(offload.device, 'value', offload.device)) if offload else 'none'  # noqa: E731
    bf16 = getattr(getattr(config, 'bfloat16_config', None), 'enabled', None)
    fp16 = getattr(getattr(config, 'float16_config', None), 'enabled', None)
    return {'engine': f'zero{int(zero.stage)}', 'micro_batch': config.train_micro_batch_size_per_gpu, 'grad_accum': config.gradient_accumulation_steps,
            'engine_precision': reading.PRECISION[bool(bf16), bool(fp16)], 'offload_optimizer': device(zero.offload_optimizer),
            'offload_params': device(zero.offload_param), 'overlap': bool(zero.overlap_comm), 'reduce_bucket': int(zero.reduce_bucket_size)}


def read_target(folder, plan):
    from read_accelerate import PLACE, trace
    from deepspeed.launcher.runner import parse_args
    started = trace(folder, str(PLACE / 'train.py'))
    arguments = parse_args(started['words'][1:])
    if started['words'][1].startswith('--hostfile'):  # its lines count the machines
        return read_config(folder, plan)
    return {**read_config(folder, plan), 'processes': arguments.num_gpus}


def read_beside(folder, plan):
    """DeepSpeed's file beside another program's."""
    if not (folder / 'deepspeed.json').exists():
        return {}
    return read_config(folder, plan)


if __name__ == '__main__':
    reading.run({'deepspeed': read_target, **dict.fromkeys(('accelerate', 'torchrun', 'transformers', 'trl', 'axolotl', 'llama-factory'), read_beside)},
                stand_ins, sys.argv[1])
