"""Exports for TRL and transformers, as TrlParser, HfArgumentParser and accelerate's launcher read them."""
import importlib.util
import os
import sys

import environment

stand_ins = environment.enter(['tokenizers', 'datasets', 'evaluate', 'bitsandbytes', 'liger_kernel', 'pandas'])

import reading  # noqa: E402
from read_accelerate import launched_precision  # noqa: E402


def trainer_values(arguments):
    return {'micro_batch': arguments.per_device_train_batch_size, 'grad_accum': arguments.gradient_accumulation_steps,
            'precision': arguments.mixed_precision, 'checkpointing': bool(arguments.gradient_checkpointing),
            'optimizer': str(getattr(arguments.optim, 'value', arguments.optim)), 'compile': bool(arguments.torch_compile),
            'learning_rate': arguments.learning_rate, 'epochs': arguments.num_train_epochs}


def with_dtype(training, model):
    """Without autocast the dtype of the weights decides."""
    word = training.mixed_precision
    return word if word != 'no' else {'bfloat16': 'pure bf16', 'float16': 'pure fp16'}.get(str(model.dtype).removeprefix('torch.'), 'fp32')


def read_sft(folder, plan):
    from trl import ModelConfig, ScriptArguments, SFTConfig, TrlParser, get_peft_config, get_quantization_config
    reading.pretend_gpu()
    with reading.surroundings(launched_precision(folder)):
        script, training, model = TrlParser((ScriptArguments, SFTConfig, ModelConfig)).parse_args_and_config(['--config', str(folder / 'sft.yaml')])
    adapters, quantised = get_peft_config(model), get_quantization_config(model)
    method = 'full' if adapters is None else 'qlora' if quantised is not None and quantised.load_in_4bit else 'lora'
    return {**trainer_values(training), **adapter_values(adapters), 'method': method, 'seq_len': training.max_length,
            'packing': 'packed' if training.packing else 'unpacked', 'attention': model.attn_implementation, 'dtype': str(model.dtype),
            'precision': with_dtype(training, model), 'model': model.model_name_or_path, 'data': script.dataset_name,
            'base_bits': 4 if model.load_in_4bit else 8 if model.load_in_8bit else 16,
            'storage': str(quantised.bnb_4bit_quant_storage) if method == 'qlora' else None}


def adapter_values(adapters):
    if adapters is None:
        return {}
    targets = adapters.target_modules
    return {'lora_rank': adapters.r, 'lora_alpha': adapters.lora_alpha, 'lora_dropout': adapters.lora_dropout, 'lora_dora': bool(adapters.use_dora),
            'lora_targets': sorted([targets] if isinstance(targets, str) else targets), 'lora_saved': sorted(adapters.modules_to_save or [])}


def run_clm():
    """The example script of the program's repository: its dataclasses."""
    folder = next(path for path in sys.path if path.endswith('/src') and '/transformers-' in path)
    spec = importlib.util.spec_from_file_location('run_clm', os.path.join(folder, '../examples/pytorch/language-modeling/run_clm.py'))
    module = importlib.util.module_from_spec(spec)
    sys.modules['run_clm'] = module
    spec.loader.exec_module(module)
    return module


def read_run_clm(folder, plan):
    import transformers
    reading.pretend_gpu()
    script = sys.modules.get('run_clm') or run_clm()
    parser = transformers.HfArgumentParser((script.ModelArguments, script.DataTrainingArguments, transformers.TrainingArguments))
    with reading.surroundings(launched_precision(folder)):
        model, data, training = parser.parse_json_file(json_file=str(folder / 'training.json'))
    return {**trainer_values(training), 'method': 'full', 'seq_len': data.block_size, 'model': model.model_name_or_path, 'dtype': str(model.dtype), 'precision': with_dtype(training, model),
            'data': data.dataset_name or data.train_file}


if __name__ == '__main__':
    reading.run({'trl': read_sft, 'transformers': read_run_clm}, stand_ins, sys.argv[1])
