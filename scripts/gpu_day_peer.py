#!/usr/bin/env python3
"""The PyTorch side of scripts/gpu_day.sh: makes a model, and trains it with transformers and PEFT as `gpuplan run` is asked to.

    gpu_day_peer.py make --config FILE --output DIR       random weights, a PEFT adapter and tokens, for both programs
    gpu_day_peer.py train --model DIR --method lora …     prints one JSON object: losses, step times, memory, versions
    gpu_day_peer.py block --config FILE --tokens N        times of one block of experts, compiled and not
    gpu_day_peer.py versions                              what is installed here, as JSON

Attention is SDPA unless --attention says otherwise; AdamW is the fused one; tokens are taken in the order of the file. QLoRA takes
bitsandbytes where it is installed; elsewhere its weights are those that NF4 leaves (tests/torch/nf4.py), in bf16: right for
losses, not for memory and speed, and the result says so.
"""
import argparse
import contextlib
import importlib
import json
import os
import shutil
import sys
import time
from typing import List

HERE = os.path.dirname(os.path.abspath(__file__))
TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='command', required=True)
    commands.add_parser('versions')
    make = commands.add_parser('make')
    make.add_argument('--config', required=True)
    make.add_argument('--output', required=True)
    make.add_argument('--tokens', type=int, required=True)
    make.add_argument('--rank', type=int, default=8)
    make.add_argument('--seed', type=int, default=1)
    train = commands.add_parser('train')
    train.add_argument('--model', required=True, help='folder with config.json and, without --init, weights')
    train.add_argument('--init', choices=('random',))
    train.add_argument('--method', choices=('full', 'lora', 'qlora'), required=True)
    train.add_argument('--adapter')
    train.add_argument('--data')
    train.add_argument('--precision', choices=('bf16-mixed', 'fp32'), default='bf16-mixed')
    train.add_argument('--attention', default='sdpa')
    train.add_argument('--experts', help="how transformers 5 multiplies a mixture's experts: eager, grouped_mm")
    train.add_argument('--zero-2', choices=('beside', 'waits'), help='under DeepSpeed, with reductions beside compute or not')
    train.add_argument('--checkpointing', action='store_true')
    train.add_argument('--log', action='store_true', help="a line of each step, as transformers' Trainer writes them")
    for name, default in (('seq-len', 512), ('micro-batch', 1), ('max-steps', 10), ('rank', 8), ('seed', 1)):
        train.add_argument('--' + name, type=int, default=default)
    train.add_argument('--lr', type=float, default=1e-4)
    block = commands.add_parser('block')
    block.add_argument('--config', required=True)
    block.add_argument('--tokens', type=int, required=True)
    return parser.parse_args()


def versions() -> dict:
    found = {'python': sys.version.split()[0]}
    for name in ('torch', 'transformers', 'peft', 'accelerate', 'bitsandbytes', 'deepspeed', 'triton'):
        try:
            found[name] = str(importlib.import_module(name).__version__)
        except Exception as problem:  # a package that is there and does not load is a finding, not a reason to stop
            found[name] = f'none: {type(problem).__name__}: {str(problem)[:120]}'
    if not found['torch'].startswith('none'):
        import torch
        found['cuda'] = torch.version.cuda
        if torch.cuda.is_available():
            found['gpu'] = torch.cuda.get_device_name(0)
            found['nccl'] = '.'.join(str(part) for part in torch.cuda.nccl.version())
    return found


def device_name() -> str:
    import torch
    return 'cuda' if torch.cuda.is_available() else 'cpu'


def classes_of(folder: str):
    """Configuration and model; Llama's own, and for other types what transformers finds."""
    import transformers
    with open(os.path.join(folder, 'config.json')) as file:
        is_mixture = 'num_experts' in json.load(file)
    if is_mixture:
        return transformers.AutoConfig, transformers.AutoModelForCausalLM
    return transformers.LlamaConfig, transformers.LlamaForCausalLM


def new_model(model_class, config):
    return model_class.from_config(config) if hasattr(model_class, 'from_config') else model_class(config)


# --- making ------------------------------------------------------------------------------------------------------------------------

def make(args: argparse.Namespace) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    torch.manual_seed(args.seed)
    os.makedirs(args.output, exist_ok=True)
    written = os.path.join(args.output, 'config.json')
    shutil.copyfile(args.config, written)
    config_class, model_class = classes_of(args.output)
    config = config_class.from_pretrained(args.output)
    model = new_model(model_class, config).to(device_name(), torch.bfloat16)
    model.save_pretrained(args.output)
    shutil.copyfile(args.config, written)  # both programs read the same words, whatever this transformers writes
    adapted = get_peft_model(model, LoraConfig(r=args.rank, lora_alpha=2 * args.rank, target_modules=TARGETS, task_type='CAUSAL_LM'))
    for name, weight in adapted.named_parameters():  # B is not left at zero, so that A has a gradient from the first step
        if 'lora_B' in name:
            torch.nn.init.normal_(weight, std=0.02)
        if 'lora_' in name:
            weight.data = weight.data.float()
    adapted.save_pretrained(os.path.join(args.output, 'adapter'), save_embedding_layers=False)
    write_tokens(os.path.join(args.output, 'tokens.bin'), args.tokens, config.vocab_size, args.seed)


def write_tokens(path: str, count: int, vocab: int, seed: int) -> None:
    """uint32. Few different tokens, each mostly followed by the next of them: a text that can be learnt."""
    import numpy
    draw = numpy.random.default_rng(seed)
    words = min(vocab, 1000)
    steps = numpy.where(draw.random(count) < 0.8, 1, draw.integers(0, words, count))
    (numpy.cumsum(steps) % words).astype('<u4').tofile(path)


# --- training ----------------------------------------------------------------------------------------------------------------------

def load_base(args: argparse.Namespace):
    """The model on the device, and how its 4 bits were made ('' where there are none)."""
    import torch
    config_class, model_class = classes_of(args.model)
    chosen = {'experts_implementation': args.experts} if args.experts else {}
    wide = args.precision == 'fp32' or args.method == 'full'
    dtype = torch.float32 if wide else torch.bfloat16
    if args.method == 'qlora' and has_bitsandbytes() and not args.init:
        from transformers import BitsAndBytesConfig
        four_bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4', bnb_4bit_use_double_quant=True,
                                       bnb_4bit_compute_dtype=torch.bfloat16)
        model = model_class.from_pretrained(args.model, quantization_config=four_bits, attn_implementation=args.attention,
                                            device_map={'': 0}, **chosen)
        return model, 'bitsandbytes'
    if args.init:
        config = config_class.from_pretrained(args.model)
        config._attn_implementation = args.attention
        if args.experts:
            config._experts_implementation = args.experts
        previous = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        with contextlib.ExitStack() as stack:
            if torch.cuda.is_available():
                stack.enter_context(torch.device('cuda'))  # drawn there: 8 billion numbers take the host minutes
            model = new_model(model_class, config).to(dtype)
        torch.set_default_dtype(previous)
    else:
        model = model_class.from_pretrained(args.model, attn_implementation=args.attention, **chosen).to(device_name(), dtype)
    if args.method != 'qlora':
        return model, ''
    if not args.init:
        round_to_nf4(model)
    return model, 'round trip'


def has_bitsandbytes() -> bool:
    import torch
    try:
        import bitsandbytes  # noqa: F401
    except Exception:
        return False
    return torch.cuda.is_available()


def round_to_nf4(model) -> None:
    import torch
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'tests', 'torch'))
    import nf4
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and not name.endswith('lm_head'):
            module.weight.data.copy_(nf4.round_trip(module.weight.data.cpu()))


def load(args: argparse.Namespace):
    model, four_bits = load_base(args)
    if args.method != 'full':
        from peft import LoraConfig, PeftModel, get_peft_model
        if args.adapter:
            model = PeftModel.from_pretrained(model, args.adapter, is_trainable=True)
        else:
            model = get_peft_model(model, LoraConfig(r=args.rank, lora_alpha=2 * args.rank, target_modules=TARGETS, task_type='CAUSAL_LM'))
        for name, weight in model.named_parameters():
            if 'lora_' in name:
                weight.data = weight.data.float()
    model.config.use_cache = False
    if args.checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': False})
        if args.method != 'full':
            model.enable_input_require_grads()
    model.train()
    return model, four_bits


def read_batches(args: argparse.Namespace, vocab: int):
    """[steps, micro batch, sequence], in the order of the file; without one, random."""
    import numpy
    import torch
    shape = (args.max_steps, args.micro_batch, args.seq_len)
    if not args.data:
        return torch.randint(0, vocab, shape, generator=torch.Generator().manual_seed(args.seed))
    tokens = numpy.fromfile(args.data, dtype='<u4').astype('int64')
    blocks = tokens[:len(tokens) // args.seq_len * args.seq_len].reshape(-1, args.seq_len)
    order = numpy.arange(shape[0] * shape[1]) % len(blocks)
    return torch.from_numpy(blocks[order]).reshape(shape)


def free_bytes() -> int:
    import torch
    return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else 0


def train(args: argparse.Namespace) -> dict:
    import torch
    on_gpu = torch.cuda.is_available()
    torch.manual_seed(args.seed)
    free_at_start = total_free()
    model, four_bits = load(args)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=args.lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0,
                                  **({'fused': True} if on_gpu else {}))
    engine = zero_2_engine(args, model, optimizer) if args.zero_2 else None
    batches = read_batches(args, model.config.vocab_size)
    losses: List[float] = []
    times: List[float] = []
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    for batch in batches:
        begin = time.perf_counter()
        ids = batch.to(device_name())
        with torch.autocast(device_name(), dtype=torch.bfloat16, enabled=args.precision == 'bf16-mixed' and engine is None):
            loss = (engine or model)(input_ids=ids, labels=ids).loss
        if engine is not None:
            engine.backward(loss)
            engine.step()
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))  # waits for the device
        times.append(time.perf_counter() - begin)
        if args.log:
            print({'loss': round(losses[-1], 4), 'learning_rate': args.lr, 'epoch': 0.0}, flush=True)
    timed = sorted(times[2:] or times)
    step = timed[len(timed) // 2]
    return {'losses': losses, 'step_seconds': step, 'steps_seconds': times, 'tokens_per_second': args.micro_batch * args.seq_len / step,
            'allocated_bytes': torch.cuda.max_memory_allocated() if on_gpu else 0,
            'reserved_bytes': torch.cuda.max_memory_reserved() if on_gpu else 0,
            'process_bytes': max(0, free_at_start - total_free()), 'four_bits': four_bits,
            'trained_parameters': sum(weight.numel() for weight in weights), 'versions': versions(), 'on_gpu': on_gpu}


def zero_2_engine(args: argparse.Namespace, model, optimizer):
    """DeepSpeed's stage 2 over the processes that torchrun started, each on a GPU of its own."""
    import deepspeed
    zero = {'stage': 2, 'overlap_comm': args.zero_2 == 'beside', 'reduce_bucket_size': 50_000_000, 'contiguous_gradients': True}
    settings = {'train_micro_batch_size_per_gpu': args.micro_batch, 'bf16': {'enabled': True}, 'gradient_clipping': 1.0, 'zero_optimization': zero,
                'zero_allow_untested_optimizer': True}
    return deepspeed.initialize(model=model, optimizer=optimizer, config=settings)[0]


def time_block(args: argparse.Namespace) -> dict:
    """Seconds of forward and backward of the first layer's block of experts, eager and through torch.compile."""
    import torch
    folder = os.path.dirname(os.path.abspath(args.config))
    config_class, model_class = classes_of(folder)
    config = config_class.from_pretrained(folder)
    config.num_hidden_layers = 1
    dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
    block = new_model(model_class, config).to(device_name(), dtype).model.layers[0].mlp
    rows = torch.randn(1, args.tokens, config.hidden_size, device=device_name(), dtype=dtype, requires_grad=True)

    def seconds(call) -> float:
        times = []
        for _ in range(12):
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            begin = time.perf_counter()
            made = call(rows)
            (made[0] if isinstance(made, tuple) else made).sum().backward()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        return sorted(times[4:])[4]

    result = {'eager_seconds': seconds(block), 'versions': versions()}
    if torch.cuda.is_available():
        result['compiled_seconds'] = seconds(torch.compile(block))
    return result


def total_free() -> int:
    """Free memory of GPU 0 as NVML has it, which sees the context too; 0 without a GPU."""
    import torch
    if not torch.cuda.is_available():
        return 0
    try:
        import pynvml
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).free
    except Exception:
        return free_bytes()


def main() -> None:
    args = parse_arguments()
    if args.command == 'make':
        make(args)
        return
    if 'LOCAL_RANK' in os.environ:
        import torch
        torch.cuda.set_device(int(os.environ['LOCAL_RANK']))
    result = versions() if args.command == 'versions' else time_block(args) if args.command == 'block' else train(args)
    if int(os.environ.get('RANK', '0')) == 0:
        print(json.dumps(result))


if __name__ == '__main__':
    main()
