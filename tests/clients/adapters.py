"""Inside the Debian of chroot.sh: what PEFT's kinds of adapters train on a small Llama, and what a linear of 16 bit keeps for backward with them.

    GPUPLAN_CLIENTS=PEFT/src:TRANSFORMERS/src adapters.py [KIND...]     a line per kind: parameters, buffers' bytes, kept bytes

The Llama has 2 layers of 256 (4 heads of 64, 2 of keys), MLPs of 512 and 256 tokens in its vocabulary; every linear is adapted but the head. Kept: of
up_proj [256 -> 512] beside what it keeps without adapters, as `a per token + b`. tests/planner/peft_kinds_test.cpp holds these figures.
"""
import sys

import environment

environment.enter(['tokenizers', 'sklearn'])

import peft  # noqa: E402
import torch  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

LINEARS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']
KINDS = {
    'lora': lambda **common: peft.LoraConfig(r=8, **common),
    'loha': lambda **common: peft.LoHaConfig(r=8, **common),
    'vera': lambda **common: peft.VeraConfig(r=8, **common),
    'miss': lambda **common: peft.MissConfig(r=8, **common),
    'hra': lambda **common: peft.HRAConfig(r=8, **common),
    'beft': lambda **common: peft.BeftConfig(**common),
    'road_1': lambda **common: peft.RoadConfig(**common),
    'road_2': lambda **common: peft.RoadConfig(variant='road_2', **common),
    'road_4': lambda **common: peft.RoadConfig(variant='road_4', **common),
    'c3a': lambda **common: peft.C3AConfig(block_size=64, **common),
    'fourierft': lambda **common: peft.FourierFTConfig(n_frequency=1000, **common),
    'waveft': lambda **common: peft.WaveFTConfig(n_frequency=1000, **common),
    'randlora': lambda **common: peft.RandLoraConfig(r=24, **common),
    'vblora': lambda **common: peft.VBLoRAConfig(r=4, num_vectors=32, vector_length=64, **common),
    'unilora': lambda **common: peft.UniLoraConfig(r=4, theta_d_length=256, **common),
    'tinylora': lambda **common: peft.TinyLoraConfig(r=2, u=64, **common),
    'psoft': lambda **common: peft.PsoftConfig(r=32, **common),
    'lily': lambda **common: peft.LilyConfig(r=8, num_B=4, **common),
    'lily_stride': lambda **common: peft.LilyConfig(r=8, num_B=4, stride_A=2, **common),
    'peanut': lambda **common: peft.PeanutConfig(r=8, depth=0, **common),
    'peanut_2': lambda **common: peft.PeanutConfig(r=8, depth=2, **common),
    'glora': lambda **common: peft.GloraConfig(r=8, **common),
    'deft': lambda **common: peft.DeftConfig(r=8, **common),
    'shira': lambda **common: peft.ShiraConfig(r=8, **common),
    'osf': lambda **common: peft.OSFConfig(effective_rank=96, **common),
    'osf_half': lambda **common: peft.OSFConfig(**common),
    'poly': lambda **common: peft.PolyConfig(r=8, n_tasks=3, n_skills=2, n_splits=4, **common),
    'prefix': lambda target_modules, **common: peft.PrefixTuningConfig(num_virtual_tokens=20, **common),
    'cpt': lambda target_modules, **common: peft.CPTConfig(cpt_token_ids=list(range(20)), **common),
    'multitask': lambda target_modules, **common: peft.MultitaskPromptTuningConfig(num_virtual_tokens=20, num_tasks=3, num_ranks=1, **common),
    'ln_tuning': lambda target_modules, **common: peft.LNTuningConfig(**common),
}


def model():
    config = LlamaConfig(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=64, intermediate_size=512,
                         vocab_size=256, pad_token_id=0)
    return LlamaForCausalLM(config).to(torch.bfloat16)


def kept_bytes(linear, tokens, owned):
    """Bytes of the storages that a pass keeps, less those of parameters, buffers and the input."""
    x = torch.randn(1, tokens, 256, dtype=torch.bfloat16).requires_grad_()
    kept = {}

    def keep(tensor):
        parts = (tensor._indices(), tensor._values()) if tensor.is_sparse else (tensor,)
        for part in parts:
            storage = part.untyped_storage()
            if storage.data_ptr() not in owned and storage.data_ptr() != x.untyped_storage().data_ptr():
                kept[storage.data_ptr()] = storage.nbytes()
        held.append(parts)
        return tensor

    held = []  # so that no storage is used again
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        words = {'task_ids': torch.zeros(1, dtype=torch.long)} if hasattr(linear, 'poly_router') else {}
        y = linear(x, **words)
    del y
    return sum(kept.values())


def count(name):
    torch.manual_seed(0)
    adapted = peft.get_peft_model(model(), KINDS[name](task_type='CAUSAL_LM', target_modules=LINEARS))
    adapted.train()
    trained = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    seen = {}
    for key, buffer in adapted.named_buffers():
        if 'rotary' not in key:
            seen[buffer.untyped_storage().data_ptr()] = buffer.untyped_storage().nbytes()
    line = f'{name}: {trained} trained, {sum(seen.values())} bytes of buffers'
    linear = adapted.base_model.model.model.layers[0].mlp.up_proj if hasattr(adapted.base_model, 'model') and hasattr(adapted.base_model.model, 'model') else None
    if linear is not None and type(linear) is not torch.nn.Linear:
        owned = {t.untyped_storage().data_ptr() for t in [*adapted.parameters(), *adapted.buffers()]}
        few, many = kept_bytes(linear, 32, owned), kept_bytes(linear, 64, owned)
        line += f', up_proj keeps {(many - few) / 32:g} bytes a token + {2 * few - many}'
    print(line, flush=True)


if __name__ == '__main__':
    for kind in sys.argv[1:] or KINDS:
        try:
            count(kind)
        except Exception as problem:  # the program's own error
            print(f'{kind}: {type(problem).__name__}: {problem}'[:300], flush=True)
