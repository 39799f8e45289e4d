"""A Llama-like decoder in plain PyTorch: llama, mistral, qwen2 and qwen3 as transformers' eager attention computes them.

Modules and parameters carry Hugging Face's names, so a state dict is a checkpoint. Written from the models' definitions; nothing
of gpuplan is used, because this is what gpuplan is judged by.
"""
import json
import math
import os
from dataclasses import dataclass, field
from typing import Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Config:
    """What of a config.json the decoder needs."""
    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    max_position_embeddings: int
    rope_scaling: dict = field(default_factory=dict)
    tie_word_embeddings: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    sliding_window: Optional[int] = None
    first_sliding_layer: int = 0


MODEL_TYPES = ('llama', 'mistral', 'qwen2', 'qwen3')


def read_config(folder: str) -> Config:
    with open(os.path.join(folder, 'config.json')) as file:
        return parse_config(json.load(file))


def parse_config(raw: dict) -> Config:
    kind = raw['model_type']
    if kind not in MODEL_TYPES:
        raise SystemExit(f'model_type {kind!r}: only {", ".join(MODEL_TYPES)} are known here')
    heads = raw['num_attention_heads']
    bias = bool(raw.get('attention_bias', False))
    return Config(
        model_type=kind,
        **{name: raw[name] for name in ('vocab_size', 'hidden_size', 'intermediate_size', 'num_hidden_layers', 'num_attention_heads')},
        num_key_value_heads=raw.get('num_key_value_heads') or heads,
        head_dim=raw.get('head_dim') or raw['hidden_size'] // heads,
        rms_norm_eps=raw.get('rms_norm_eps', 1e-6),
        rope_theta=raw.get('rope_theta', 10000.0),
        max_position_embeddings=raw.get('max_position_embeddings', 2048),
        rope_scaling=raw.get('rope_scaling') or {},
        tie_word_embeddings=raw.get('tie_word_embeddings', False),
        qkv_bias=bias or kind == 'qwen2',
        output_bias=bias,
        mlp_bias=bool(raw.get('mlp_bias', False)),
        qk_norm=kind == 'qwen3',
        **sliding(raw, kind))


def sliding(raw: dict, kind: str) -> dict:
    """llama has no window; mistral's is on when it is there; qwen's has a switch and begins at max_window_layers."""
    if kind == 'llama' or (kind != 'mistral' and not raw.get('use_sliding_window', False)):
        return {}
    first = 0 if kind == 'mistral' else raw.get('max_window_layers', 28)
    return {'sliding_window': raw.get('sliding_window'), 'first_sliding_layer': first}


# --- rotary positions --------------------------------------------------------------------------------------------------------------

def inverse_frequencies(config: Config) -> Tensor:
    size = config.head_dim
    plain = 1.0 / config.rope_theta**(torch.arange(0, size, 2, dtype=torch.float64) / size)
    scaling = config.rope_scaling
    kind = scaling.get('rope_type', scaling.get('type', 'default'))
    if kind == 'default':
        return plain
    if kind == 'linear':
        return plain / scaling['factor']
    if kind == 'llama3':
        return llama3_frequencies(plain, scaling)
    raise SystemExit(f'rope scaling {kind!r}: only linear and llama3 are known here')


def llama3_frequencies(plain: Tensor, scaling: dict) -> Tensor:
    """Short waves stay, long ones are slowed by `factor`, those between are mixed. Source: Llama 3.1's reference code."""
    low, high, factor = scaling['low_freq_factor'], scaling['high_freq_factor'], scaling['factor']
    turns = scaling['original_max_position_embeddings'] * plain / (2 * math.pi)
    share = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - share) * plain / factor + share * plain


def rotation(config: Config, length: int, dtype: torch.dtype) -> tuple:
    """Cosine and sine, [length, head_dim], both halves alike."""
    angles = torch.arange(length, dtype=torch.float64)[:, None] * inverse_frequencies(config)
    angles = torch.cat([angles, angles], 1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """x [batch, heads, length, head_dim]; pairs are (i, i + head_dim / 2)."""
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


# --- modules -----------------------------------------------------------------------------------------------------------------------

def widened(x: Tensor) -> Tensor:
    """16-bit numbers as fp32; others as they are."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


class RmsNorm(nn.Module):
    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = widened(x)
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, config: Config, layer: int):
        super().__init__()
        self.config = config
        self.window = config.sliding_window if layer >= config.first_sliding_layer else None
        hidden, size = config.hidden_size, config.head_dim
        self.q_proj = nn.Linear(hidden, config.num_attention_heads * size, bias=config.qkv_bias)
        self.k_proj = nn.Linear(hidden, config.num_key_value_heads * size, bias=config.qkv_bias)
        self.v_proj = nn.Linear(hidden, config.num_key_value_heads * size, bias=config.qkv_bias)
        self.o_proj = nn.Linear(config.num_attention_heads * size, hidden, bias=config.output_bias)
        if config.qk_norm:
            self.q_norm = RmsNorm(size, config.rms_norm_eps)
            self.k_norm = RmsNorm(size, config.rms_norm_eps)

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.config.head_dim))

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        q, k, v = self.heads(self.q_proj(x)), self.heads(self.k_proj(x)), self.heads(self.v_proj(x))
        if self.config.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        q, k = rotate(q, cosine.to(q.dtype), sine.to(q.dtype)), rotate(k, cosine.to(k.dtype), sine.to(k.dtype))
        shared = self.config.num_attention_heads // self.config.num_key_value_heads
        if shared > 1:
            k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
        scores = q @ k.transpose(2, 3) / math.sqrt(self.config.head_dim)
        weights = widened(scores + self.mask(x.shape[1]).to(scores.dtype)).softmax(-1).to(v.dtype)
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2))

    def mask(self, length: int) -> Tensor:
        """0 where a query may look: itself and keys before it, with a window only the last `window` of them."""
        back = torch.arange(length)[:, None] - torch.arange(length)[None, :]
        seen = back >= 0 if self.window is None else (back >= 0) & (back < self.window)
        return torch.zeros(length, length).masked_fill(~seen, -math.inf)


class Mlp(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        hidden, ffn = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(hidden, ffn, bias=config.mlp_bias)
        self.up_proj = nn.Linear(hidden, ffn, bias=config.mlp_bias)
        self.down_proj = nn.Linear(ffn, hidden, bias=config.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config: Config, layer: int):
        super().__init__()
        self.input_layernorm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config, layer)
        self.post_attention_layernorm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = Mlp(config)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cosine, sine)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config, index) for index in range(config.num_hidden_layers))
        self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)


class Decoder(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.model = Body(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Logits [batch, length, vocab] of ids [batch, length]."""
        x = self.model.embed_tokens(ids)
        cosine, sine = rotation(self.config, ids.shape[1], widened(x).dtype)
        for layer in self.model.layers:
            x = layer(x, cosine, sine)
        return self.lm_head(self.model.norm(x))


def loss_sum(logits: Tensor, ids: Tensor) -> Tensor:
    """Sum of -ln p of each next token; the last position predicts nothing."""
    return F.cross_entropy(widened(logits[:, :-1]).flatten(0, 1), ids[:, 1:].flatten(), reduction='sum')


def checkpoint(decoder: Decoder) -> dict:
    """The tensors that a checkpoint holds: a tied head only once."""
    tensors = dict(decoder.state_dict())
    if decoder.config.tie_word_embeddings:
        tensors.pop('lm_head.weight')
    return tensors


def load(decoder: Decoder, tensors: dict) -> None:
    if decoder.config.tie_word_embeddings:
        tensors = {**tensors, 'lm_head.weight': tensors['model.embed_tokens.weight']}
    decoder.load_state_dict(tensors)
