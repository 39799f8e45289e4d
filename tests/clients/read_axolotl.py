"""Exports for axolotl: what its schema makes of the file on the plan's kind and number of cards."""
import os
import sys

import environment

stand_ins = environment.enter(['tokenizers', 'datasets', 'bitsandbytes', 'pandas', 'addict', 'posthog', 'triton', 'distutils', 'fire', 'colorama', 'gradio', 'art',
                               'xformers', 'lm_eval', 'langdetect', 'immutabledict', 'antlr4', 'optimum', 'hf_xet', 'liger_kernel', 'torchao', 'schedulefree',
                               'mistral_common', 'kernels', 'trackio', 'axolotl_contribs_lgpl', 'axolotl_contribs_mit', 'openenv', 'pyarrow', 'nvidia_ml_py', 'scipy', 'numba',
                               'evaluate', 's3fs', 'gcsfs', 'adlfs', 'ocifs', 'zstandard', 'sklearn', 'peft_moe', 'tensorboard', 'wandb'])

import reading  # noqa: E402


class Dict(dict):
    """What axolotl takes from addict: keys as attributes, and nested dictionaries likewise."""

    def __init__(self, *args, **kwargs):
        super().__init__()
        for key, value in dict(*args, **kwargs).items():
            self[key] = self._made(value)

    @classmethod
    def _made(cls, value):
        if isinstance(value, dict) and not isinstance(value, cls):
            return cls(value)
        if isinstance(value, (list, tuple)):
            return type(value)(cls._made(item) for item in value)
        return value

    def __setitem__(self, key, value):
        super().__setitem__(key, value)

    def __getattr__(self, key):
        return self[key]

    def __setattr__(self, key, value):
        self[key] = value

    def __getitem__(self, key):
        return super().__getitem__(key) if key in self else self.__missing__(key)

    def __missing__(self, key):
        return None

    def to_dict(self):
        return {key: value.to_dict() if isinstance(value, Dict) else [item.to_dict() if isinstance(item, Dict) else item for item in value]
                if isinstance(value, list) else value for key, value in self.items()}


def capabilities(plan):
    name = str(plan['cluster'])
    newer = 'H100' in name
    version = 'sm_90' if newer else 'sm_80' if 'A100' in name else 'sm_86' if 'A6000' in name or '3090' in name else 'sm_89' if '4090' in name else 'sm_75'
    ranks = plan['strategy']['dp_shard'] * plan['strategy']['dp_replicate']
    return ({'bf16': version != 'sm_75', 'fp8': newer, 'tf32': version != 'sm_75', 'n_gpu': min(ranks, 8), 'n_node': max(ranks // 8, 1), 'compute_capability': version},
            {'torch_version': '2.9.1'})


def precision(read):
    from axolotl.utils import trainer
    trainer.check_cuda_p2p_ib_support = lambda: True  # this machine has no card, and DeepSpeed's builders are not there
    trainer.setup_deepspeed_env = lambda *args, **options: None
    with reading.surroundings({}):
        trainer.prepare_optim_env(read)
        if os.environ['ACCELERATE_MIXED_PRECISION'] == 'fp8':
            return 'fp8'
    if read.bfloat16 or read.bf16 == 'full':
        return 'pure bf16'
    return 'bf16' if read.bf16 else 'fp16' if read.fp16 else 'fp32'


def read_file(folder, plan):
    import addict
    import yaml
    addict.Dict = Dict
    reading.pretend_gpu()
    from axolotl.utils import config as module
    from axolotl.utils.dict import DictDefault
    given = DictDefault(yaml.safe_load((folder / 'axolotl.yaml').read_text()))
    without_data = 'datasets' not in given
    if without_data:
        given['datasets'] = [DictDefault({'path': 'tatsu-lab/alpaca', 'type': 'alpaca'})]
    card, system = capabilities(plan)
    read = module.validate_config(given, capabilities=card, env_capabilities=system)
    method = read.adapter or 'full'
    values = {'micro_batch': read.micro_batch_size, 'grad_accum': read.gradient_accumulation_steps, 'method': method, 'seq_len': read.sequence_len,
              'precision': precision(read), 'checkpointing': bool(read.gradient_checkpointing),
              'optimizer': str(getattr(read.optimizer, 'value', read.optimizer)), 'packing': 'packed' if read.sample_packing else 'unpacked',
              'learning_rate': float(read.learning_rate), 'attention': read.attn_implementation, 'compile': bool(read.torch_compile), 'epochs': read.num_epochs,
              'base_bits': 4 if read.load_in_4bit else 8 if read.load_in_8bit else 16, 'model': read.base_model, 'fp8': bool(read.fp8),
              'lora_kernels': bool(read.lora_mlp_kernel or read.lora_qkv_kernel), 'data': None if without_data else 'said'}
    if read.fsdp_config:
        values.update(engine=f'fsdp{read.fsdp_version or read.fsdp_config.fsdp_version or 1}', offload_params=bool(read.fsdp_config.offload_params))
    elif read.deepspeed:
        import json
        file = json.load(open(read.deepspeed)) if isinstance(read.deepspeed, str) else read.deepspeed
        values['engine'] = f'zero{file["zero_optimization"]["stage"]}'
    if method != 'full':
        targets = 'all-linear' if read.lora_target_linear else read.lora_target_modules
        values.update(lora_rank=read.lora_r, lora_alpha=read.lora_alpha, lora_dropout=read.lora_dropout, lora_targets=sorted([targets] if isinstance(targets, str) else targets or []),
                      lora_dora=bool(read.peft_use_dora), lora_saved=sorted(read.lora_modules_to_save or []))
    return values


if __name__ == '__main__':
    reading.run({'axolotl': read_file}, stand_ins, sys.argv[1])
