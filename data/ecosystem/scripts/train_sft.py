#!/usr/bin/env python3
"""Supervised fine-tuning with transformers and PEFT on JSON lines, every setting from the plan.

    accelerate launch --config_file accelerate.yaml train_sft.py sft.yaml --data train.jsonl --output out

sft.yaml holds the settings in the words of TRL and TrainingArguments (gpuplan run --engine writes it). --data is a file of JSON lines:
{"text": "..."}, {"messages": [...]} with a tokenizer that has a chat template, {"prompt": "...", "completion": "..."}, of which only the
completion is learned, or {"input_ids": [...]} with "labels" if you like.
"""
import argparse
import json
import sys

import torch
import transformers
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, Trainer, TrainingArguments

from gpuplan_metrics import callback

IGNORED = -100
# What sft.yaml says about model, adapters and rows; everything else is a TrainingArgument.
OWN = ('model_name_or_path', 'dtype', 'torch_dtype', 'attn_implementation', 'use_peft', 'load_in_4bit', 'load_in_8bit', 'bnb_4bit_quant_type',
       'use_bnb_nested_quant', 'bnb_4bit_quant_storage', 'lora_r', 'lora_alpha', 'lora_dropout', 'lora_target_modules',
       'lora_modules_to_save', 'use_dora', 'max_length', 'max_seq_length', 'packing', 'pad_to_multiple_of', 'activation_offloading', 'loss_type')


def load_model(settings, args):
    dtype = getattr(torch, settings.get('dtype') or settings.get('torch_dtype') or 'float32')
    options = {'attn_implementation': settings.get('attn_implementation'), 'use_cache': False}
    is_new = tuple(int(part) for part in transformers.__version__.split('.')[:2]) >= (4, 56)
    options['dtype' if is_new else 'torch_dtype'] = dtype
    if settings.get('load_in_4bit'):
        storage = settings.get('bnb_4bit_quant_storage')
        options['quantization_config'] = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_compute_dtype=dtype, bnb_4bit_quant_type=settings.get('bnb_4bit_quant_type', 'nf4'),
            bnb_4bit_use_double_quant=settings.get('use_bnb_nested_quant', False),
            **({'bnb_4bit_quant_storage': getattr(torch, storage)} if storage else {}))
    elif settings.get('load_in_8bit'):
        options['quantization_config'] = BitsAndBytesConfig(load_in_8bit=True)
    if 'quantization_config' in options and torch.distributed.is_initialized() is False and torch.cuda.is_available():
        import os
        options['device_map'] = {'': int(os.environ.get('LOCAL_RANK', '0'))}
    model = AutoModelForCausalLM.from_pretrained(args.model or settings['model_name_or_path'], **options)
    return add_adapters(model, settings, dtype) if settings.get('use_peft') else model


def add_adapters(model, settings, dtype):
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
    is_quantised = settings.get('load_in_4bit') or settings.get('load_in_8bit')
    is_sharded = bool(settings.get('bnb_4bit_quant_storage'))
    if is_quantised and not is_sharded:
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    targets = settings.get('lora_target_modules', 'all-linear')
    if targets == ['all-linear']:
        targets = 'all-linear'
    model = get_peft_model(model, LoraConfig(
        task_type='CAUSAL_LM', r=settings['lora_r'], lora_alpha=settings['lora_alpha'], lora_dropout=settings.get('lora_dropout', 0.0),
        target_modules=targets, modules_to_save=settings.get('lora_modules_to_save'), use_dora=settings.get('use_dora', False)))
    if is_sharded:  # a unit of FSDP has one dtype
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.to(dtype)
    if settings.get('gradient_checkpointing'):
        model.enable_input_require_grads()
    return model


def read_rows(path, tokenizer, length):
    rows = []
    with open(path, encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            row = json.loads(line)
            if 'input_ids' in row:
                ids = list(row['input_ids'])
                labels = list(row.get('labels', ids))
            elif 'messages' in row:
                ids = tokenizer.apply_chat_template(row['messages'], tokenize=True)
                labels = list(ids)
            elif 'completion' in row:
                prompt = tokenizer(row.get('prompt', ''))['input_ids']
                ids = prompt + tokenizer(row['completion'], add_special_tokens=False)['input_ids'] + [tokenizer.eos_token_id]
                labels = [IGNORED] * len(prompt) + ids[len(prompt):]
            elif 'text' in row:
                ids = tokenizer(row['text'])['input_ids'] + [tokenizer.eos_token_id]
                labels = list(ids)
            else:
                sys.exit(f'{path}:{number}: none of "text", "messages", "completion" and "input_ids"')
            rows.append((ids, labels))
    if not rows:
        sys.exit(f'{path}: no rows')
    return rows


def packed(rows, length):
    ids, labels = [token for row in rows for token in row[0]], [token for row in rows for token in row[1]]
    blocks = [(ids[i:i + length], labels[i:i + length]) for i in range(0, len(ids) - length + 1, length)]
    if not blocks:
        sys.exit(f'the rows have {len(ids)} tokens, less than one block of {length}')
    return blocks


class Collator:
    def __init__(self, pad, multiple):
        self.pad, self.multiple = pad, multiple or 1

    def __call__(self, rows):
        longest = max(len(row['input_ids']) for row in rows)
        longest = -(-longest // self.multiple) * self.multiple
        out = {'input_ids': [], 'labels': [], 'attention_mask': []}
        for row in rows:
            more = longest - len(row['input_ids'])
            out['input_ids'].append(row['input_ids'] + [self.pad] * more)
            out['labels'].append(row['labels'] + [IGNORED] * more)
            out['attention_mask'].append([1] * len(row['input_ids']) + [0] * more)
        return {name: torch.tensor(values) for name, values in out.items()}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('settings', metavar='sft.yaml')
    parser.add_argument('--data', metavar='FILE', required=True)
    parser.add_argument('--model', metavar='DIR', help='instead of the name in sft.yaml')
    parser.add_argument('--output', metavar='DIR')
    parser.add_argument('--max-steps', type=int)
    parser.add_argument('--lr', type=float)
    parser.add_argument('--weight-decay', type=float)
    parser.add_argument('--warmup', type=int)
    parser.add_argument('--schedule', choices=('constant', 'linear', 'cosine'))
    parser.add_argument('--clip', type=float)
    parser.add_argument('--seed', type=int)
    parser.add_argument('--local_rank', type=int, help=argparse.SUPPRESS)  # the deepspeed launcher gives it
    return parser.parse_args()


def main():
    args = parse_arguments()
    with open(args.settings, encoding='utf-8') as file:
        settings = yaml.safe_load(file)
    for refused in ('activation_offloading',):
        if settings.get(refused):
            sys.exit(f'{args.settings}: {refused} is TRL\'s alone: gpuplan export --for trl')
    if settings.get('loss_type', 'nll') != 'nll':
        sys.exit(f'{args.settings}: loss_type {settings["loss_type"]} is TRL\'s alone: gpuplan export --for trl')
    options = {name: value for name, value in settings.items() if name not in OWN}
    given = {'output_dir': args.output or 'gpuplan-out', 'max_steps': args.max_steps, 'weight_decay': args.weight_decay,
             'warmup_steps': args.warmup, 'max_grad_norm': args.clip, 'seed': args.seed, 'lr_scheduler_type': args.schedule,
             'learning_rate': args.lr or (2e-4 if settings.get('use_peft') else 2e-5)}
    options.update({name: value for name, value in given.items() if value is not None})
    training = TrainingArguments(logging_steps=1, save_strategy='no', remove_unused_columns=False, **options)
    tokenizer = AutoTokenizer.from_pretrained(args.model or settings['model_name_or_path'])
    length = settings.get('max_length') or settings.get('max_seq_length') or 1024
    rows = read_rows(args.data, tokenizer, length)
    rows = packed(rows, length) if settings.get('packing') else [(ids[:length], labels[:length]) for ids, labels in rows]
    data = [{'input_ids': ids, 'labels': labels} for ids, labels in rows]
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0
    trainer = Trainer(model=load_model(settings, args), args=training, train_dataset=data,
                      data_collator=Collator(pad, settings.get('pad_to_multiple_of')), callbacks=[callback()])
    trainer.train()
    if args.output:
        if trainer.is_fsdp_enabled:
            trainer.accelerator.state.fsdp_plugin.set_state_dict_type('FULL_STATE_DICT')
        trainer.save_model(args.output)
        if trainer.is_world_process_zero():
            tokenizer.save_pretrained(args.output)


if __name__ == '__main__':
    main()
