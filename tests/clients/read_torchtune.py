"""Exports for torchtune: its configuration's validation, its builder of the model on the meta device, and the recipe's own reading of the file."""
import importlib.util
import os
import re
import sys

import environment

stand_ins = environment.enter(['tokenizers', 'datasets', 'torchao', 'torchdata', 'kagglehub', 'blobfile', 'tiktoken', 'bitsandbytes', 'pyarrow'])

import reading  # noqa: E402


def recipe(folder):
    """The recipe that launch.sh names."""
    found = re.search(r'tune run .*?([a-z_]+_(?:single_device|distributed))\b', (folder / 'launch.sh').read_text().replace('\\\n', ' '))
    return found[1]


def recipe_class(name):
    root = next(path for path in sys.path if '/torchtune@' in path)
    spec = importlib.util.spec_from_file_location(name, os.path.join(root, 'recipes', f'{name}.py'))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return next(value for key, value in vars(module).items() if key.endswith('Recipe' + name.removeprefix('full_finetune').removeprefix('lora_finetune')
                                                                          .title().replace('_', '')))


def read_recipe(folder, plan):
    import torch
    from omegaconf import OmegaConf
    from torchtune import config
    given = OmegaConf.load(folder / 'torchtune.yaml')
    config.validate(given)
    with torch.device('meta'):
        model = config.instantiate(given.model)
    name = recipe(folder)
    made = recipe_class(name)
    one_process = {'RANK': '0', 'WORLD_SIZE': '1', 'LOCAL_RANK': '0', 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': '29511', 'USE_LIBUV': '0'}
    with reading.surroundings(one_process):
        OmegaConf.update(given, 'device', 'cpu')
        OmegaConf.update(given, 'output_dir', '/tmp/torchtune')
        instance = made(given)
    if torch.distributed.is_initialized():  # the next plan's recipe makes the group anew
        torch.distributed.destroy_process_group()
    targets = sorted(given.model.get('lora_attn_modules', []))
    if len(targets) == 4 and given.model.get('apply_lora_to_mlp'):
        targets = ['all-linear']
    return {'micro_batch': given.batch_size, 'grad_accum': given.gradient_accumulation_steps, 'precision': {'bf16': 'pure bf16', 'fp32': 'fp32'}[given.dtype],
            'checkpointing': bool(given.get('enable_activation_checkpointing')), 'optimizer': given.optimizer._component_, 'seq_len': given.tokenizer.max_seq_len,
            'packing': 'packed' if given.dataset.get('packed') else 'unpacked', 'compile': bool(given.compile), 'recipe': name, 'data': given.dataset.source,
            'parameters': sum(p.numel() for p in model.parameters()), 'learning_rate': given.optimizer.lr, **({'lora_rank': given.model.lora_rank, 'lora_targets': targets} if 'lora_rank' in given.model else {}), 'made': type(instance).__name__}


if __name__ == '__main__':
    reading.run({'torchtune': read_recipe}, stand_ins, sys.argv[1])
