#!/usr/bin/python3
"""Trains a Llama-like decoder as `gpuplan run` does, in plain PyTorch, to judge `gpuplan run` by.

    reference.py --model DIR --data F.bin|F.jsonl [--method sft|dpo|reward|grpo] [--beta B]
                 [--lora r=8,alpha=16 | --qlora r=8] [--adapter DIR] --seq-len S --micro-batch B
                 --grad-accum A --ranks R --max-steps N --lr X --schedule linear --warmup W --weight-decay D --clip C --save DIR

Prints a JSON line per step, {"step", "loss", "grad_norm", "lr"}, with the flags of gpuplan wherever it has the same. Rules (those
of the Hugging Face Trainer): step k takes the next B A R blocks of S tokens, from the beginning again after the last; the loss is
the mean over all S - 1 predictions of every block; AdamW, eps 1e-8, weight decay not on norms and biases; gradients are clipped
by their global norm, which is printed as it was before; the first of W warm-up steps has learning rate 0. Needs PyTorch >= 1.13.
Methods that compare answers take B A R rows of the file instead, and their loss is the mean over rows (answers.py).
"""
import argparse
import contextlib
import json
import math
import os
import sys
from typing import Iterator, List, Optional

import numpy
import torch
from torch import Tensor, nn

import answers
from adapters import PREFIX, adapter_tensors, add_adapters, load_adapter, parse_lora, read_adapter_config, save_adapter
from decoder import Decoder, RmsNorm, checkpoint, load, loss_sum, read_config
from tensor_file import read_folder, write_tensors

PRECISIONS = ('fp32', 'bf16-mixed', 'bf16-true', 'fp64')


def parse_arguments(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', required=True, help='folder with config.json and model.safetensors')
    parser.add_argument('--data', required=True, help='tokens as little-endian integers, no header')
    parser.add_argument('--token-dtype', choices=('uint16', 'uint32'), default='uint16')
    method = parser.add_mutually_exclusive_group()
    method.add_argument('--full', action='store_true', help='train every weight (default)')
    method.add_argument('--lora', metavar='SPEC', nargs='?', const='r=8')
    method.add_argument('--qlora', metavar='SPEC', nargs='?', const='r=8')
    parser.add_argument('--method', choices=('sft', *answers.LOSSES), default='sft')
    parser.add_argument('--beta', type=float, default=0.1)
    parser.add_argument('--adapter', metavar='DIR', help='begin with this PEFT adapter; its rank and targets apply')
    parser.add_argument('--precision', choices=PRECISIONS, default='fp32', help='fp64 tells how much is rounding')
    for name, default in (('seq-len', 64), ('micro-batch', 1), ('grad-accum', 1), ('ranks', 1), ('max-steps', 20), ('warmup', 0),
                          ('seed', 1), ('threads', 0)):
        parser.add_argument('--' + name, type=int, default=default)
    for name, default in (('lr', 2e-4), ('weight-decay', 0.0), ('clip', 1.0), ('beta1', 0.9), ('beta2', 0.999)):
        parser.add_argument('--' + name, type=float, default=default)
    parser.add_argument('--schedule', choices=('constant', 'linear', 'cosine'), default='constant')
    parser.add_argument('--metrics', metavar='FILE', help='the lines go here too')
    parser.add_argument('--save', metavar='DIR', help='the trained adapter or weights')
    return parser.parse_args(arguments)


# --- data and schedule -------------------------------------------------------------------------------------------------------------

def read_blocks(path: str, dtype: str, length: int) -> Tensor:
    """[blocks, length]; tokens after the last whole block are not used."""
    tokens = numpy.fromfile(path, dtype=numpy.dtype(dtype).newbyteorder('<')).astype(numpy.int64)
    count = len(tokens) // length
    if count == 0:
        raise SystemExit(f'{path}: {len(tokens)} tokens are less than one block of {length}')
    return torch.from_numpy(tokens[:count * length]).reshape(count, length)


def micro_batches(blocks: Tensor, step: int, size: int, count: int) -> Iterator[Tensor]:
    """`count` batches of `size` blocks: those of step `step`, counted from 0."""
    for index in range(step * count, (step + 1) * count):
        yield blocks[torch.arange(index * size, (index + 1) * size) % len(blocks)]


def learning_rate(args: argparse.Namespace, step: int) -> float:
    """Of step `step`, counted from 0. Source: transformers optimization.py."""
    if step < args.warmup:
        return args.lr * step / max(1, args.warmup)
    done = (step - args.warmup) / max(1, args.max_steps - args.warmup)
    share = {'constant': 1.0, 'linear': 1 - done, 'cosine': 0.5 * (1 + math.cos(math.pi * done))}[args.schedule]
    return args.lr * max(0.0, share)


# --- the model ---------------------------------------------------------------------------------------------------------------------

class Trainee:
    """A decoder, what of it is trained, and how that is saved."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.decoder = Decoder(read_config(args.model))
        tensors = read_folder(args.model)
        if args.method == 'reward':
            tensors = answers.replace_head(self.decoder, tensors)
        load(self.decoder, tensors)
        spec = args.lora or args.qlora
        self.lora = read_adapter_config(args.adapter) if args.adapter else parse_lora(spec) if spec else None
        self.adapters = add_adapters(self.decoder, self.lora, bool(args.qlora)) if self.lora else {}
        self.set_dtypes()
        if args.adapter:
            load_adapter(self.adapters, args.adapter)
        if args.method == 'reward':
            self.decoder.lm_head.requires_grad_(True)
        self.reference = answers.Reference(self.decoder, self.adapters)

    def set_dtypes(self) -> None:
        """bf16: weights of bf16-true and frozen ones are bf16, adapters fp32; a QLoRA base is what its 4 bits expand to."""
        precision = self.args.precision
        if precision == 'fp64':
            self.decoder.double()
        elif precision == 'bf16-true' or (precision == 'bf16-mixed' and self.lora):
            self.decoder.bfloat16()
            for adapter in self.adapters.values():
                adapter.lora_A.data = adapter.lora_A.data.float()
                adapter.lora_B.data = adapter.lora_B.data.float()

    def autocast(self) -> contextlib.AbstractContextManager:
        mixed = self.args.precision == 'bf16-mixed' or (self.args.precision == 'bf16-true' and self.lora)
        return torch.autocast('cpu', dtype=torch.bfloat16) if mixed else contextlib.nullcontext()

    def parameter_groups(self) -> List[dict]:
        norms = {id(weight) for module in self.decoder.modules() if isinstance(module, RmsNorm) for weight in module.parameters()}
        trained = [(name, weight) for name, weight in self.decoder.named_parameters() if weight.requires_grad]
        plain = [weight for name, weight in trained if id(weight) in norms or name.endswith('bias')]
        decayed = [weight for name, weight in trained if not (id(weight) in norms or name.endswith('bias'))]
        groups = [{'params': decayed, 'weight_decay': self.args.weight_decay}, {'params': plain, 'weight_decay': 0.0}]
        return [group for group in groups if group['params']]

    def save(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        has_score = self.args.method == 'reward'
        if self.lora:
            score = {PREFIX + 'score.weight': self.decoder.lm_head.weight.data} if has_score else {}
            save_adapter({**adapter_tensors(self.adapters), **score}, self.lora, folder, self.args.model)
        else:
            tensors = checkpoint(self.decoder)
            if has_score:
                tensors['score.weight'] = tensors.pop('lm_head.weight')
            write_tensors(os.path.join(folder, 'model.safetensors'), tensors)


# --- training ----------------------------------------------------------------------------------------------------------------------

def accumulate(trainee: Trainee, batches: List[Tensor]) -> float:
    """Adds the gradient of the mean loss over all predictions; returns that loss."""
    predictions = sum(batch.shape[0] * (batch.shape[1] - 1) for batch in batches)
    total = 0.0
    for batch in batches:
        with trainee.autocast():
            logits = trainee.decoder(batch)
        loss = loss_sum(logits, batch) / predictions
        loss.backward()
        total += loss.item()
    return total


def accumulate_answers(trainee: Trainee, batches: List[list]) -> float:
    """The same of the mean loss over all rows."""
    rows = sum(len(batch) for batch in batches)
    total = 0.0
    for batch in batches:
        loss = answers.LOSSES[trainee.args.method](trainee, answers.stack(batch, trainee.args.seq_len)) / rows
        loss.backward()
        total += loss.item()
    return total


def clip_gradients(weights: List[nn.Parameter], limit: float) -> float:
    """Scales gradients down to a global norm of `limit` (0: not at all); returns the norm before."""
    return float(nn.utils.clip_grad_norm_(weights, limit if limit > 0 else math.inf))


def train(args: argparse.Namespace, trainee: Trainee) -> Iterator[dict]:
    is_usual = args.method == 'sft'
    blocks = read_blocks(args.data, args.token_dtype, args.seq_len) if is_usual else answers.read_rows(args.data)
    groups = trainee.parameter_groups()
    weights = [weight for group in groups for weight in group['params']]
    optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(args.beta1, args.beta2), eps=1e-8)
    for step in range(args.max_steps):
        rate = learning_rate(args, step)
        for group in optimizer.param_groups:
            group['lr'] = rate
        optimizer.zero_grad(set_to_none=True)
        size, count = args.micro_batch, args.grad_accum * args.ranks
        if is_usual:
            loss = accumulate(trainee, list(micro_batches(blocks, step, size, count)))
        else:
            loss = accumulate_answers(trainee, answers.micro_batches(blocks, step, size, count))
        norm = clip_gradients(weights, args.clip)
        optimizer.step()
        yield {'step': step + 1, 'loss': loss, 'grad_norm': norm, 'lr': rate}


def run(args: argparse.Namespace) -> Iterator[dict]:
    """A whole run: the lines of its steps, then what it trained is saved."""
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    trainee = Trainee(args)
    yield from train(args, trainee)
    if args.save:
        trainee.save(args.save)


def main() -> None:
    args = parse_arguments()
    with open(args.metrics or os.devnull, 'w') as metrics:
        for line in run(args):
            for file in (sys.stdout, metrics):
                print(json.dumps(line), file=file, flush=True)


if __name__ == '__main__':
    main()
