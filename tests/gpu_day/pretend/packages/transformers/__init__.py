"""A rehearsal's stand-in for transformers: the few calls of scripts/gpu_day_peer.py, over tests/torch/decoder.py."""
import json
import os
import sys
from types import SimpleNamespace

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', '..', 'torch'))
import decoder  # noqa: E402
from tensor_file import read_folder, write_tensors  # noqa: E402

__version__ = 'pretended'


class LlamaConfig:
    def __init__(self, raw: dict):
        self.raw = raw
        self.hidden_size = raw['hidden_size']
        self.vocab_size = raw['vocab_size']
        self.use_cache = True
        self._attn_implementation = 'sdpa'

    @classmethod
    def from_pretrained(cls, folder: str) -> 'LlamaConfig':
        with open(os.path.join(folder, 'config.json')) as file:
            return cls(json.load(file))


class LlamaForCausalLM(decoder.Decoder):
    def __init__(self, config: LlamaConfig):
        super().__init__(decoder.parse_config(config.raw))
        self.config = config
        for name, weight in self.named_parameters():
            if 'norm' not in name:
                torch.nn.init.normal_(weight, std=0.08)

    @property
    def settings(self) -> decoder.Config:
        return decoder.parse_config(self.config.raw)

    @classmethod
    def from_pretrained(cls, folder: str, attn_implementation: str = 'sdpa') -> 'LlamaForCausalLM':
        assert attn_implementation in ('sdpa', 'eager')
        model = cls(LlamaConfig.from_pretrained(folder))
        model.load_state_dict(read_folder(folder))
        return model

    def save_pretrained(self, folder: str) -> None:
        write_tensors(os.path.join(folder, 'model.safetensors'), dict(self.state_dict()))

    def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs: dict) -> None:
        pass

    def forward(self, input_ids, labels):
        config, self.config = self.config, self.settings
        try:
            logits = super().forward(input_ids)
        finally:
            self.config = config
        return SimpleNamespace(loss=decoder.loss_sum(logits, labels) / (labels.shape[0] * (labels.shape[1] - 1)))


class AutoConfig(LlamaConfig):
    """Of a mixture: dense layers of the same kind stand for its experts."""
    def __init__(self, raw: dict):
        super().__init__({**raw, 'model_type': 'qwen3' if 'num_experts' in raw else raw['model_type']})

    @property
    def num_hidden_layers(self) -> int:
        return self.raw['num_hidden_layers']

    @num_hidden_layers.setter
    def num_hidden_layers(self, value: int) -> None:
        self.raw['num_hidden_layers'] = value


class AutoModelForCausalLM(LlamaForCausalLM):
    @classmethod
    def from_config(cls, config: AutoConfig) -> 'AutoModelForCausalLM':
        return cls(config)

    @classmethod
    def from_pretrained(cls, folder: str, attn_implementation: str = 'sdpa', experts_implementation: str = 'eager') -> 'AutoModelForCausalLM':
        assert attn_implementation == 'sdpa' and experts_implementation in ('eager', 'grouped_mm')
        model = cls(AutoConfig.from_pretrained(folder))
        model.load_state_dict(read_folder(folder))
        return model
