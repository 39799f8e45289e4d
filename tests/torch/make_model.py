#!/usr/bin/python3
"""Makes tiny models with random weights as Hugging Face folders, token files and PEFT adapters, each the same for a seed.

    make_model.py --kind qwen3 --seed 1 --output DIR      DIR/config.json, DIR/model.safetensors
    make_model.py --tokens 20000 --vocab 256 --output F.bin

Weights are numbers that bf16 holds too, so that it does not matter in which dtype a program keeps the frozen ones.
"""
import argparse
import json
import os

import numpy
import torch
from torch import nn

from adapters import LoraConfig, adapter_tensors, add_adapters, save_adapter
from decoder import Decoder, RmsNorm, checkpoint, parse_config
from tensor_file import read_tensors, write_tensors

BASE = {'hidden_act': 'silu', 'vocab_size': 256, 'hidden_size': 64, 'intermediate_size': 176, 'num_hidden_layers': 2,
        'num_attention_heads': 4, 'num_key_value_heads': 2, 'rms_norm_eps': 1e-5, 'max_position_embeddings': 512,
        'rope_theta': 10000.0, 'tie_word_embeddings': False, 'initializer_range': 0.02, 'bos_token_id': 1, 'eos_token_id': 2,
        'torch_dtype': 'float32', 'use_cache': False}
LLAMA3 = {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0, 'original_max_position_embeddings': 32}
# What is special in each; everything else as in BASE.
KINDS = {
    'llama': {'model_type': 'llama', 'architectures': ['LlamaForCausalLM']},
    'llama-tied-mha': {'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'tie_word_embeddings': True, 'num_key_value_heads': 4},
    'llama-biases': {'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'attention_bias': True, 'mlp_bias': True},
    'llama-linear-rope': {'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'rope_scaling': {'rope_type': 'linear', 'factor': 4.0}},
    'llama3-rope': {'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'rope_theta': 500000.0, 'rope_scaling': LLAMA3},
    'llama-odd': {'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'hidden_size': 60, 'intermediate_size': 100,
                  'num_attention_heads': 6, 'num_key_value_heads': 2, 'vocab_size': 251},
    'mistral': {'model_type': 'mistral', 'architectures': ['MistralForCausalLM'], 'sliding_window': 16},
    'qwen2': {'model_type': 'qwen2', 'architectures': ['Qwen2ForCausalLM'], 'rope_theta': 1000000.0, 'rms_norm_eps': 1e-6,
              'tie_word_embeddings': True, 'use_sliding_window': False, 'sliding_window': 16, 'max_window_layers': 1},
    'qwen3': {'model_type': 'qwen3', 'architectures': ['Qwen3ForCausalLM'], 'head_dim': 32, 'rope_theta': 1000000.0,
              'rms_norm_eps': 1e-6, 'attention_bias': False, 'tie_word_embeddings': True},
}


def make_config(kind: str, **changes) -> dict:
    return {**BASE, **KINDS[kind], **changes}


def randomise(decoder: Decoder, spread: float) -> None:
    """Weights large enough that attention and gates are not nearly linear; norms and biases not at their trivial values."""
    norms = {id(weight) for module in decoder.modules() if isinstance(module, RmsNorm) for weight in module.parameters()}
    for name, weight in decoder.named_parameters():
        is_norm, is_bias = id(weight) in norms, name.endswith('bias')
        nn.init.normal_(weight, mean=1.0 if is_norm else 0.0, std=0.1 if is_norm or is_bias else spread)
        weight.data.copy_(weight.data.bfloat16())


def write_model(folder: str, config: dict, seed: int, spread: float = 0.08, dtype: torch.dtype = torch.float32) -> None:
    torch.manual_seed(seed)
    decoder = Decoder(parse_config(config))
    randomise(decoder, spread)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, 'config.json'), 'w') as file:
        json.dump({**config, 'torch_dtype': str(dtype).split('.')[1]}, file, indent=2)
    write_tensors(os.path.join(folder, 'model.safetensors'), {name: tensor.to(dtype) for name, tensor in checkpoint(decoder).items()})


def write_score(folder: str, config: dict, seed: int) -> None:
    """Adds the head of a reward model, one number per token, to the model's file."""
    torch.manual_seed(seed)
    path = os.path.join(folder, 'model.safetensors')
    tensors = read_tensors(path)
    score = (0.3 * torch.randn(1, config['hidden_size'])).bfloat16()
    write_tensors(path, {**tensors, 'score.weight': score.to(next(iter(tensors.values())).dtype)})


def write_pairs(path: str, count: int, vocab: int, seed: int) -> None:
    """Prompts with two answers of different lengths: the one to prefer counts up, the other one down."""
    draw = numpy.random.default_rng(seed)
    with open(path, 'w') as file:
        for _ in range(count):
            prompt, first, second = (int(draw.integers(low, high)) for low, high in ((2, 30), (1, 40), (1, 40)))
            begin = int(draw.integers(0, vocab))
            row = {'prompt': [int(token) for token in draw.integers(0, vocab, prompt)],
                   'chosen': [(begin + i) % vocab for i in range(first)], 'rejected': [(begin - 3 * i) % vocab for i in range(second)]}
            print(json.dumps(row), file=file)


def write_completions(path: str, count: int, vocab: int, seed: int, has_log_probs: bool) -> None:
    """Prompts with an answer each that was better or worse than others; with log-probs around those of a model that knows nothing."""
    draw = numpy.random.default_rng(seed)
    with open(path, 'w') as file:
        for index in range(count):
            prompt, length = int(draw.integers(2, 30)), int(draw.integers(1, 40))
            row = {'prompt': [int(token) for token in draw.integers(0, vocab, prompt)],
                   'completion': [int(token) for token in draw.integers(0, vocab, length)], 'advantage': (-1.5, 0.5, 1.25)[index % 3]}
            if has_log_probs:
                for key, spread in (('old', 0.5), ('ref', 0.3)):
                    row[f'{key}_completion_logps'] = [round(float(x), 4) for x in draw.normal(-numpy.log(vocab), spread, length)]
            print(json.dumps(row), file=file)


def write_adapter(folder: str, config: dict, lora: LoraConfig, seed: int) -> None:
    """A as PEFT draws it; B small but not zero, so that A has a gradient from the first step."""
    torch.manual_seed(seed)
    adapters = add_adapters(Decoder(parse_config(config)), lora, quantised=False)
    for adapter in adapters.values():
        nn.init.normal_(adapter.lora_B, std=0.02)
    save_adapter(adapter_tensors(adapters), lora, folder)


def write_tokens(path: str, count: int, vocab: int, seed: int) -> None:
    """A text that can be learnt: each token is mostly a fixed successor of the one before."""
    draw = numpy.random.default_rng(seed)
    successor = draw.permutation(vocab)
    chance, other = draw.random(count), draw.integers(0, vocab, count)
    tokens = numpy.zeros(count, dtype='<u2')
    for i in range(1, count):
        tokens[i] = successor[tokens[i - 1]] if chance[i] < 0.7 else other[i]
    tokens.tofile(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--kind', choices=sorted(KINDS), default='llama')
    parser.add_argument('--set', metavar='KEY=VALUE', action='append', default=[], help='a key of config.json, VALUE as JSON')
    parser.add_argument('--dtype', choices=('float32', 'bfloat16', 'float16'), default='float32')
    parser.add_argument('--tokens', type=int, help='write a token file instead')
    parser.add_argument('--vocab', type=int, default=BASE['vocab_size'])
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--output', required=True)
    args = parser.parse_args()
    if args.tokens:
        write_tokens(args.output, args.tokens, args.vocab, args.seed)
        return
    changes = {key: json.loads(value) for key, value in (item.split('=', 1) for item in args.set)}
    write_model(args.output, make_config(args.kind, **changes), args.seed, dtype=getattr(torch, args.dtype))


if __name__ == '__main__':
    main()
