"""Exports for LLaMA-Factory: the arguments that its own parser makes of the file, as one of the processes that its launcher starts."""
import os
import sys

import environment

stand_ins = environment.enter(['tokenizers', 'datasets', 'bitsandbytes', 'pandas', 'gradio', 'tyro', 'uvicorn', 'fastapi',
                               'sse_starlette', 'distutils', 'liger_kernel', 'matplotlib'])

import reading  # noqa: E402
from read_accelerate import launched_precision  # noqa: E402
from read_trl import trainer_values  # noqa: E402

os.environ['GPUPLAN_CLIENTS'] += ':' + environment.said_versions({'llamafactory': '0.9.6', 'matplotlib': '3.10'})  # for launch.sh, and for plot_loss
os.environ['DISABLE_VERSION_CHECK'] = '1'  # its ranges of versions are of other months than the newest of each
os.environ['DS_ACCELERATOR'] = 'cpu'


def get_arguments(plan, given):
    """As the first of the processes; no process group is made."""
    import torch
    import transformers
    from transformers.training_args import ParallelMode
    from llamafactory.hparams import parser
    ranks = plan['strategy']['dp_shard'] * plan['strategy']['dp_replicate']
    transformers.TrainingArguments._setup_devices = torch.device('cpu')
    transformers.TrainingArguments.world_size = ranks
    transformers.TrainingArguments.process_index = 0
    transformers.TrainingArguments.local_process_index = 0
    transformers.TrainingArguments.should_log = False
    transformers.TrainingArguments.parallel_mode = ParallelMode.DISTRIBUTED
    return parser.get_train_args(given)


def read_file(folder, plan):
    import yaml
    from omegaconf import OmegaConf
    reading.pretend_gpu()
    given = OmegaConf.to_container(OmegaConf.load(folder / 'llamafactory.yaml'))
    without_data = 'dataset' not in given
    if without_data:
        given['dataset'] = 'identity'  # launch.sh takes it as a flag
    with reading.surroundings(launched_precision(folder)):
        model, data, training, tuning, _ = get_arguments(plan, given)
    bits = model.quantization_bit
    method = tuning.finetuning_type if not bits else 'qlora' if bits == 4 else tuning.finetuning_type
    values = trainer_values(training)
    if tuning.pure_bf16:
        values['precision'] = 'pure bf16'
    if training.deepspeed:
        file = training.deepspeed if isinstance(training.deepspeed, dict) else yaml.safe_load(open(training.deepspeed))
        values['engine'] = f'zero{file["zero_optimization"]["stage"]}'
    if method != 'full':
        values.update(lora_rank=tuning.lora_rank, lora_alpha=tuning.lora_alpha, lora_dropout=tuning.lora_dropout, lora_targets=sorted(tuning.lora_target),
                      lora_dora=tuning.use_dora, lora_saved=sorted(tuning.additional_target or []))
    return {**values, 'method': method, 'base_bits': bits or 16, 'seq_len': data.cutoff_len + bool(data.packing),  # its packing keeps one token back
            'model': model.model_name_or_path,
            'packing': 'packed' if data.packing else 'unpacked', 'checkpointing': not model.disable_gradient_checkpointing,
            'attention': str(getattr(model.flash_attn, 'value', model.flash_attn)), 'fp8': bool(training.fp8),
            'template': data.template, 'data': None if without_data else data.dataset}


if __name__ == '__main__':
    reading.run({'llama-factory': read_file}, stand_ins, sys.argv[1])
