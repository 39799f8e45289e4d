"""NF4 with double quantisation, as QLoRA and bitsandbytes define it, in plain tensor operations.

Weights in blocks of 64 (row-major): each block divided by its largest magnitude (absmax), then the nearest of 16 levels. The
absmax themselves, less their mean, in blocks of 256: each divided by its own largest magnitude, then the nearest of 256 levels.
Sources: Dettmers et al. 2023 (arXiv 2305.14314), appendix E for the levels; bitsandbytes functional.py, create_dynamic_map and
quantize_4bit with compress_statistics.
"""
import torch

BLOCK = 64
ABSMAX_BLOCK = 256
LEVELS = torch.tensor([
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0])


def dynamic_map() -> torch.Tensor:
    """The 256 signed levels: 7 decades, the largest with 64 linear steps of each sign, every decade below with half as many."""
    levels = [0.0, 1.0]
    for exponent in range(7):
        bounds = torch.linspace(0.1, 1, 2**exponent + 1)
        means = (bounds[:-1] + bounds[1:]) / 2 * 10.0**(exponent - 6)
        levels += means.tolist() + (-means).tolist()
    return torch.tensor(sorted(levels))


def nearest(values: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """The index of the level closest to each value; levels rise."""
    return torch.bucketize(values, (levels[:-1] + levels[1:]) / 2)


def round_blocks(values: torch.Tensor, block: int, levels: torch.Tensor) -> tuple:
    """(levels of the values, [blocks, block]; absmax of each block). The last block is filled up with zeros."""
    padded = torch.nn.functional.pad(values, (0, -values.numel() % block)).reshape(-1, block)
    absmax = padded.abs().amax(1)
    scaled = padded / absmax.clamp_min(torch.finfo(torch.float32).tiny)[:, None]
    return levels[nearest(scaled, levels)], absmax


def round_trip(weight: torch.Tensor, double: bool = True) -> torch.Tensor:
    """What is left of a weight after quantising and expanding it again, in fp32."""
    flat = weight.detach().float().reshape(-1)
    levels, absmax = round_blocks(flat, BLOCK, LEVELS)
    if double:
        absmax = round_absmax(absmax)
    return (levels * absmax[:, None]).reshape(-1)[:flat.numel()].reshape(weight.shape)


def round_absmax(absmax: torch.Tensor) -> torch.Tensor:
    offset = absmax.mean()
    levels, scale = round_blocks(absmax - offset, ABSMAX_BLOCK, dynamic_map())
    return (levels * scale[:, None]).reshape(-1)[:absmax.numel()] + offset
