"""LoRA adapters on a decoder's linears, read and written as PEFT does, and the 4-bit base of QLoRA."""
import json
import math
import os
from dataclasses import dataclass
from typing import Dict, List, Optional

import torch
from torch import Tensor, nn

import nf4
from decoder import Decoder
from tensor_file import read_tensors, write_tensors

ALL_LINEAR = ('q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj')
PREFIX = 'base_model.model.'


@dataclass
class LoraConfig:
    rank: int = 8
    alpha: float = 16
    targets: tuple = ALL_LINEAR

    @property
    def scaling(self) -> float:
        return self.alpha / self.rank


class LoraLinear(nn.Module):
    """y = base(x) + alpha / r B A x. The base is frozen; A and B are fp32, or fp64 in an fp64 run."""

    def __init__(self, base: nn.Linear, config: LoraConfig):
        super().__init__()
        self.base = base
        self.scaling = config.scaling
        self.is_on = True
        self.lora_A = nn.Parameter(torch.empty(config.rank, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, config.rank))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        if not self.is_on:
            return self.base(x)
        low = nn.functional.linear(x.to(self.lora_A.dtype), self.lora_A)
        y = self.base(x)
        return y + (nn.functional.linear(low, self.lora_B) * self.scaling).to(y.dtype)


def parse_lora(spec: str) -> LoraConfig:
    """"r=8,alpha=16,targets=q_proj+v_proj"; what is not named here (base=…) is gpuplan's alone."""
    pairs = dict(item.split('=', 1) for item in spec.split(',') if item)
    rank = int(pairs.get('r', 8))
    targets = pairs.get('targets', 'all-linear')
    return LoraConfig(rank, float(pairs.get('alpha', 2 * rank)), ALL_LINEAR if targets == 'all-linear' else tuple(targets.split('+')))


def read_adapter_config(folder: str) -> LoraConfig:
    with open(os.path.join(folder, 'adapter_config.json')) as file:
        raw = json.load(file)
    targets = raw['target_modules']
    return LoraConfig(raw['r'], raw['lora_alpha'], ALL_LINEAR if targets == 'all-linear' else tuple(targets))


def add_adapters(decoder: Decoder, config: LoraConfig, quantised: bool) -> Dict[str, LoraLinear]:
    """Freezes the decoder, gives its targeted linears adapters, by module name; with `quantised` all its layers' linears are 4 bit."""
    decoder.requires_grad_(False)
    adapters: Dict[str, LoraLinear] = {}
    for name, module in list(decoder.named_modules()):
        if not isinstance(module, nn.Linear) or name == 'lm_head':
            continue
        if quantised:
            module.weight.data.copy_(nf4.round_trip(module.weight))
        parent, leaf = name.rsplit('.', 1)
        if leaf in config.targets:
            adapters[name] = LoraLinear(module, config)
            setattr(decoder.get_submodule(parent), leaf, adapters[name])
    return adapters


def load_adapter(adapters: Dict[str, LoraLinear], folder: str) -> None:
    tensors = read_tensors(os.path.join(folder, 'adapter_model.safetensors'))
    for name, adapter in adapters.items():
        adapter.lora_A.data.copy_(tensors.pop(f'{PREFIX}{name}.lora_A.weight'))
        adapter.lora_B.data.copy_(tensors.pop(f'{PREFIX}{name}.lora_B.weight'))
    if tensors:
        raise SystemExit(f'{folder}: nothing in the model for {sorted(tensors)[0]}')


def adapter_tensors(adapters: Dict[str, LoraLinear]) -> Dict[str, Tensor]:
    out = {}
    for name, adapter in adapters.items():
        out[f'{PREFIX}{name}.lora_A.weight'] = adapter.lora_A.data
        out[f'{PREFIX}{name}.lora_B.weight'] = adapter.lora_B.data
    return out


def save_adapter(tensors: Dict[str, Tensor], config: LoraConfig, folder: str, base: Optional[str] = None) -> None:
    os.makedirs(folder, exist_ok=True)
    write_tensors(os.path.join(folder, 'adapter_model.safetensors'), tensors)
    targets: List[str] = list(config.targets)
    raw = {'peft_type': 'LORA', 'task_type': 'CAUSAL_LM', 'base_model_name_or_path': base, 'r': config.rank,
           'lora_alpha': config.alpha, 'lora_dropout': 0.0, 'target_modules': targets, 'bias': 'none', 'modules_to_save': None,
           'fan_in_fan_out': False, 'inference_mode': True, 'init_lora_weights': True}
    with open(os.path.join(folder, 'adapter_config.json'), 'w') as file:
        json.dump(raw, file, indent=2)
