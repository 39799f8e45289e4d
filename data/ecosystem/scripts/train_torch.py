#!/usr/bin/env python3
"""Fine-tunes a Llama-like decoder in plain PyTorch: one GPU, DDP, or ZeRO-1 by ZeroRedundancyOptimizer.

    torchrun --standalone --nproc_per_node=2 train_torch.py torch.json --model DIR --data train.jsonl --output out

torch.json holds every setting of the plan (gpuplan export --for torch). --model is a Hugging Face folder with config.json,
model.safetensors and, for text, a tokenizer that transformers reads; without it the weights begin at random. --data is a file of JSON
lines: {"input_ids": [...]} with "labels" if you like, or {"text": "..."}; without it the tokens are random, to measure. Needs PyTorch
1.13 or later and nothing else; transformers only to tokenise text.
"""
import argparse
import contextlib
import json
import math
import os
import struct
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gpuplan_metrics import Metrics

DTYPES = {'float32': torch.float32, 'bfloat16': torch.bfloat16}
LINEARS = ('q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj')
MODEL_TYPES = ('llama', 'mistral', 'qwen2', 'qwen3')
IGNORED = -100


# --- the model -------------------------------------------------------------------------------------------------------------------

class Config:
    """What the decoder needs of a config.json."""

    def __init__(self, raw):
        kind = raw['model_type']
        if kind not in MODEL_TYPES:
            sys.exit(f'model_type {kind!r}: this script knows {", ".join(MODEL_TYPES)}')
        self.vocab, self.hidden, self.ffn = raw['vocab_size'], raw['hidden_size'], raw['intermediate_size']
        self.layers, self.heads = raw['num_hidden_layers'], raw['num_attention_heads']
        self.kv_heads = raw.get('num_key_value_heads') or self.heads
        self.head_size = raw.get('head_dim') or self.hidden // self.heads
        self.eps = raw.get('rms_norm_eps', 1e-6)
        parameters = raw.get('rope_parameters') or {}
        self.theta = parameters.get('rope_theta', raw.get('rope_theta', 10000.0))
        self.scaling = raw.get('rope_scaling') or parameters
        self.is_tied = raw.get('tie_word_embeddings', False)
        bias = bool(raw.get('attention_bias', False))
        self.qkv_bias, self.o_bias, self.mlp_bias = bias or kind == 'qwen2', bias, bool(raw.get('mlp_bias', False))
        self.has_qk_norm = kind == 'qwen3'
        self.window = raw.get('sliding_window') if kind == 'mistral' else None
        self.raw = raw


def inverse_frequencies(config):
    size, scaling = config.head_size, config.scaling
    plain = 1.0 / config.theta**(torch.arange(0, size, 2, dtype=torch.float64) / size)
    kind = scaling.get('rope_type', scaling.get('type', 'default'))
    if kind == 'default':
        return plain
    if kind == 'linear':
        return plain / scaling['factor']
    if kind != 'llama3':
        sys.exit(f'rope scaling {kind!r}: this script knows linear and llama3')
    low, high = scaling['low_freq_factor'], scaling['high_freq_factor']
    turns = scaling['original_max_position_embeddings'] * plain / (2 * math.pi)
    share = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - share) * plain / scaling['factor'] + share * plain


class RmsNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, config, is_eager):
        super().__init__()
        self.config, self.is_eager = config, is_eager or not hasattr(F, 'scaled_dot_product_attention')
        width, kv_width = config.heads * config.head_size, config.kv_heads * config.head_size
        self.q_proj = nn.Linear(config.hidden, width, bias=config.qkv_bias)
        self.k_proj = nn.Linear(config.hidden, kv_width, bias=config.qkv_bias)
        self.v_proj = nn.Linear(config.hidden, kv_width, bias=config.qkv_bias)
        self.o_proj = nn.Linear(width, config.hidden, bias=config.o_bias)
        if config.has_qk_norm:
            self.q_norm, self.k_norm = (RmsNorm(config.head_size, config.eps) for _ in range(2))

    def forward(self, x, cosine, sine):
        q, k, v = (proj(x).unflatten(-1, (-1, self.config.head_size)) for proj in (self.q_proj, self.k_proj, self.v_proj))
        if self.config.has_qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (rotated.transpose(1, 2) for rotated in (q, k, v))
        q, k = rotate(q, cosine.to(q.dtype), sine.to(q.dtype)), rotate(k, cosine.to(k.dtype), sine.to(k.dtype))
        groups = self.config.heads // self.config.kv_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        k, v = k.to(q.dtype), v.to(q.dtype)
        window, length = self.config.window, x.shape[1]
        has_window = window is not None and window < length
        if self.is_eager:
            scores = q @ k.transpose(2, 3) / math.sqrt(self.config.head_size)
            scores = scores.masked_fill(~visible(length, window, x.device), -math.inf)
            out = scores.float().softmax(-1).to(v.dtype) @ v
        elif has_window:
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=visible(length, window, x.device))
        else:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).flatten(2))


def rotate(x, cosine, sine):
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


def visible(length, window, device):
    """Which keys a query sees: itself and those before it, with a window the last ones only."""
    back = torch.arange(length, device=device)[:, None] - torch.arange(length, device=device)[None, :]
    return back >= 0 if window is None else (back >= 0) & (back < window)


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(config.hidden, config.ffn, bias=config.mlp_bias) for _ in range(2))
        self.down_proj = nn.Linear(config.ffn, config.hidden, bias=config.mlp_bias)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config, is_eager):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (RmsNorm(config.hidden, config.eps) for _ in range(2))
        self.self_attn, self.mlp = Attention(config, is_eager), Mlp(config)

    def forward(self, x, cosine, sine):
        x = x + self.self_attn(self.input_layernorm(x), cosine, sine)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, config, is_eager):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab, config.hidden)
        self.layers = nn.ModuleList(Layer(config, is_eager) for _ in range(config.layers))
        self.norm = RmsNorm(config.hidden, config.eps)


class Decoder(nn.Module):
    """Modules and parameters have the names of Hugging Face's checkpoints."""

    def __init__(self, config, is_eager, is_checkpointed):
        super().__init__()
        self.config, self.is_checkpointed = config, is_checkpointed
        self.model = Body(config, is_eager)
        self.lm_head = nn.Linear(config.hidden, config.vocab, bias=False)
        if config.is_tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, ids):
        """Logits [batch, length, vocab] of ids [batch, length]."""
        x = self.model.embed_tokens(ids)
        angles = torch.arange(ids.shape[1], dtype=torch.float64)[:, None] * inverse_frequencies(self.config)
        angles = torch.cat([angles, angles], 1)
        cosine, sine = angles.cos().float().to(x.device), angles.sin().float().to(x.device)
        for layer in self.model.layers:
            if self.is_checkpointed and self.training:
                x = checkpoint(layer, x, cosine, sine, use_reentrant=False)
            else:
                x = layer(x, cosine, sine)
        return self.lm_head(self.model.norm(x))


class LoraLinear(nn.Module):
    """y = base(x) + alpha / r B A dropout(x); the base is frozen."""

    def __init__(self, base, settings, dtype):
        super().__init__()
        self.base, self.scaling = base, settings['alpha'] / settings['rank']
        self.dropout = nn.Dropout(settings.get('dropout', 0.0))
        self.lora_A = nn.Parameter(torch.empty(settings['rank'], base.in_features, dtype=dtype))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, settings['rank'], dtype=dtype))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, x):
        low = F.linear(self.dropout(x).to(self.lora_A.dtype), self.lora_A)
        y = self.base(x)
        return y + (F.linear(low, self.lora_B) * self.scaling).to(y.dtype)


def add_adapters(model, settings, dtype):
    targets = settings['targets']
    wanted = LINEARS if targets in ('all-linear', ['all-linear']) else targets
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in wanted and isinstance(child, nn.Linear):
                setattr(module, name, LoraLinear(child, settings, dtype))


def adapter_tensors(model):
    """As PEFT names them."""
    return {f'base_model.model.{name}.weight': value for name, value in model.state_dict().items() if '.lora_' in name}


# --- safetensors: the length of a header, the header as JSON, the bytes --------------------------------------------------------------

FILE_DTYPES = {'F32': torch.float32, 'F16': torch.float16, 'BF16': torch.bfloat16}


def read_tensors(path):
    with open(path, 'rb') as file:
        header = json.loads(file.read(struct.unpack('<Q', file.read(8))[0]))
        start, tensors = file.tell(), {}
        for name, entry in header.items():
            if name == '__metadata__':
                continue
            begin, end = entry['data_offsets']
            file.seek(start + begin)
            raw = torch.frombuffer(bytearray(file.read(end - begin)), dtype=torch.uint8)
            tensors[name] = raw.view(FILE_DTYPES[entry['dtype']]).reshape(entry['shape'])
    return tensors


def write_tensors(path, tensors):
    names = {dtype: name for name, dtype in FILE_DTYPES.items()}
    header, offset = {'__metadata__': {'format': 'pt'}}, 0
    for name, tensor in tensors.items():
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {'dtype': names[tensor.dtype], 'shape': list(tensor.shape), 'data_offsets': [offset, end]}
        offset = end
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())


def load_weights(model, folder):
    index = os.path.join(folder, 'model.safetensors.index.json')
    files = ['model.safetensors']
    if os.path.exists(index):
        with open(index, encoding='utf-8') as file:
            files = sorted(set(json.load(file)['weight_map'].values()))
    tensors = {}
    for name in files:
        tensors.update(read_tensors(os.path.join(folder, name)))
    if model.config.is_tied:
        tensors['lm_head.weight'] = tensors['model.embed_tokens.weight']
    model.load_state_dict(tensors)


def make_model(settings, args):
    raw = settings['config']
    if args.model:
        with open(os.path.join(args.model, 'config.json'), encoding='utf-8') as file:
            raw = json.load(file)
    config = Config(raw)
    torch.manual_seed(args.seed)
    model = Decoder(config, settings.get('attention') == 'eager', settings.get('checkpointing', False))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.02)
    if args.model and not args.random:
        load_weights(model, args.model)
    weights = DTYPES[settings.get('weights', 'float32')]
    model.to(weights)
    if settings.get('method', 'full') == 'lora':
        add_adapters(model, settings['lora'], torch.float32 if settings.get('autocast', 'no') != 'no' else weights)
    return model


# --- data ------------------------------------------------------------------------------------------------------------------------

def read_rows(path, model_folder):
    """(ids, labels) of each line; labels are not shifted, and -100 where nothing is learned."""
    tokenizer, rows = None, []
    with open(path, encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            row = json.loads(line)
            if 'input_ids' in row:
                ids = row['input_ids']
            elif 'text' in row:
                if tokenizer is None:
                    if not model_folder:
                        sys.exit('text needs the tokenizer of --model DIR')
                    from transformers import AutoTokenizer
                    tokenizer = AutoTokenizer.from_pretrained(model_folder)
                ids = tokenizer(row['text'])['input_ids']
            else:
                sys.exit(f'{path}:{number}: neither "input_ids" nor "text"')
            rows.append((ids, row.get('labels', ids)))
    return rows


def padded(ids, labels, length):
    more = max(0, length - len(ids))
    return (ids + [0] * more)[:length], (labels + [IGNORED] * more)[:length]


def make_examples(settings, args, vocab):
    length = settings['seq_len']
    if not args.data:
        generator = torch.Generator().manual_seed(args.seed)
        blocks = torch.randint(0, vocab, (64, length), generator=generator).tolist()
        return [(block, block) for block in blocks]
    rows = read_rows(args.data, args.model)
    if settings.get('packing', True):
        ids, labels = [t for row in rows for t in row[0]], [t for row in rows for t in row[1]]
        rows = [(ids[i:i + length], labels[i:i + length]) for i in range(0, len(ids) - length + 1, length)]
    elif settings.get('pads_to_seq_len', False):
        rows = [padded(*row, length) for row in rows]
    if not rows:
        sys.exit(f'{args.data}: less than one block of {length} tokens')
    return [(ids[:length], labels[:length]) for ids, labels in rows]


def batch_of(rows, device):
    longest = max(len(ids) for ids, _ in rows)
    pairs = [padded(ids, labels, longest) for ids, labels in rows]
    return tuple(torch.tensor([pair[i] for pair in pairs], device=device) for i in range(2))


# --- training --------------------------------------------------------------------------------------------------------------------

def make_optimizer(settings, args, parameters, is_sharded):
    kind = settings.get('optimizer', 'adamw-foreach')
    options = {'lr': args.lr, 'weight_decay': args.weight_decay, 'foreach': kind == 'adamw-foreach'}
    if kind == 'adamw-fused':
        options['fused'] = True
    if not is_sharded:
        return torch.optim.AdamW(parameters, **options)
    from torch.distributed.optim import ZeroRedundancyOptimizer
    return ZeroRedundancyOptimizer(parameters, optimizer_class=torch.optim.AdamW, **options)


def loss_sum(logits, labels):
    """Sum of -ln p over the next tokens that are learned."""
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(), ignore_index=IGNORED, reduction='sum')


def autocast_of(settings, device):
    name = settings.get('autocast', 'no')
    return contextlib.nullcontext() if name == 'no' else torch.autocast(device.type, dtype=DTYPES[name])


def summed(value, device):
    """Over all ranks."""
    tensor = torch.tensor(float(value), dtype=torch.float64, device=device)
    if dist.is_initialized():
        dist.all_reduce(tensor)
    return tensor.item()


def order_of(count, epoch, seed):
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed + epoch)).tolist()


def train(settings, args, device, rank, world, metrics):
    model = make_model(settings, args).to(device)
    plain = model
    examples = make_examples(settings, args, plain.config.vocab)
    strategy = settings.get('strategy', 'single')
    if world > 1:
        devices = [device.index] if device.type == 'cuda' else None
        model = nn.parallel.DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)
    trained = [p for p in plain.parameters() if p.requires_grad]
    optimizer = make_optimizer(settings, args, trained, strategy == 'zero1' and world > 1)
    compiled = torch.compile(model) if settings.get('compile', False) else model
    micro, accumulated = settings.get('micro_batch', 1), settings.get('grad_accum', 1)
    rows_per_step = micro * accumulated * world
    steps = args.max_steps or max(1, math.ceil(len(examples) * settings.get('epochs', 1) / rows_per_step))
    orders = {}
    for step in range(1, steps + 1):
        metrics.begin_step()
        begin = time.monotonic()
        batches = []
        for part in range(accumulated):
            first = ((step - 1) * accumulated + part) * micro * world + rank * micro
            rows = []
            for place in range(first, first + micro):
                epoch, index = divmod(place, len(examples))
                order = orders.setdefault(epoch, order_of(len(examples), epoch, args.seed))
                rows.append(examples[order[index]])
            batches.append(batch_of(rows, device))
        tokens = summed(sum(int((labels[:, 1:] != IGNORED).sum()) for _, labels in batches), device)
        total = 0.0
        for part, (ids, labels) in enumerate(batches):
            is_last = part == accumulated - 1
            with contextlib.nullcontext() if is_last or world == 1 else model.no_sync():
                with autocast_of(settings, device):
                    loss = loss_sum(compiled(ids), labels)
                (loss * (world / max(tokens, 1.0))).backward()  # DDP averages over ranks
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(trained, args.clip if args.clip > 0 else math.inf)
        optimizer.step()
        optimizer.zero_grad(set_to_none=world == 1)
        mean = summed(total, device) / max(tokens, 1.0)
        if device.type == 'cuda':
            torch.cuda.synchronize()
        seconds = time.monotonic() - begin
        metrics.end_step(step, mean, grad_norm=float(norm), learning_rate=args.lr, tokens_per_second=tokens / seconds)
        if rank == 0:
            print(f"{{'loss': {mean:.6f}, 'grad_norm': {float(norm):.6f}, 'learning_rate': {args.lr}, 'step': {step}}}", flush=True)
        if not math.isfinite(mean):
            sys.exit(f'step {step}: the loss is {mean}')
    return plain


def save(model, settings, args):
    os.makedirs(args.output, exist_ok=True)
    if settings.get('method', 'full') == 'lora':
        tensors, name = adapter_tensors(model), 'adapter_model.safetensors'
        lora = settings['lora']
        targets = list(LINEARS) if lora['targets'] == ['all-linear'] else lora['targets']
        config = {'peft_type': 'LORA', 'task_type': 'CAUSAL_LM', 'base_model_name_or_path': settings.get('model'), 'r': lora['rank'],
                  'lora_alpha': lora['alpha'], 'lora_dropout': lora.get('dropout', 0.0), 'target_modules': targets, 'bias': 'none'}
        with open(os.path.join(args.output, 'adapter_config.json'), 'w', encoding='utf-8') as file:
            json.dump(config, file, indent=2)
    else:
        tensors, name = model.state_dict(), 'model.safetensors'
        if model.config.is_tied:
            tensors.pop('lm_head.weight')
        with open(os.path.join(args.output, 'config.json'), 'w', encoding='utf-8') as file:
            json.dump(model.config.raw, file, indent=2)
    write_tensors(os.path.join(args.output, name), {key: value.detach().cpu().contiguous() for key, value in tensors.items()})


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('settings', metavar='torch.json')
    parser.add_argument('--model', metavar='DIR')
    parser.add_argument('--random', action='store_true', help='weights begin at random; --model gives the shape')
    parser.add_argument('--data', metavar='FILE')
    parser.add_argument('--output', metavar='DIR', help='adapter or weights are saved here')
    parser.add_argument('--max-steps', type=int, default=0, help='default: the epochs of the plan')
    parser.add_argument('--lr', type=float)
    parser.add_argument('--weight-decay', type=float, default=0.0)
    parser.add_argument('--clip', type=float, default=1.0)
    parser.add_argument('--seed', type=int, default=0)
    return parser.parse_args()


def main():
    args = parse_arguments()
    with open(args.settings, encoding='utf-8') as file:
        settings = json.load(file)
    if args.lr is None:
        args.lr = 2e-4 if settings.get('method', 'full') == 'lora' else 2e-5
    rank, world, local = (int(os.environ.get(name, default)) for name, default in (('RANK', 0), ('WORLD_SIZE', 1), ('LOCAL_RANK', 0)))
    if world != settings.get('ranks', world):
        sys.exit(f'the plan has {settings["ranks"]} processes, and {world} were started')
    device = torch.device('cuda', local) if torch.cuda.is_available() else torch.device('cpu')
    if device.type == 'cuda':
        torch.cuda.set_device(device)
    if world > 1:
        dist.init_process_group('nccl' if device.type == 'cuda' else 'gloo')
    metrics = Metrics()
    model = train(settings, args, device, rank, world, metrics)
    if args.output and rank == 0:
        save(model, settings, args)
    if world > 1:
        dist.barrier()
    metrics.end()
    if world > 1:
        dist.destroy_process_group()


if __name__ == '__main__':
    main()
