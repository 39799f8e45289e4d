"""Reads and writes safetensors files. Written from the format's description, so that no library stands between the two programs.

A file is 8 bytes (little-endian length of the header), the header as JSON, and the tensors' bytes one after the other.
"""
import json
import os
import struct
from typing import Dict

import torch

DTYPES = {'F64': torch.float64, 'F32': torch.float32, 'F16': torch.float16, 'BF16': torch.bfloat16, 'I64': torch.int64,
          'I32': torch.int32, 'U8': torch.uint8}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

Tensors = Dict[str, torch.Tensor]


def read_tensors(path: str) -> Tensors:
    """Every tensor of one file, in the dtype it has there."""
    with open(path, 'rb') as file:
        data = bytearray(file.read())
    length = struct.unpack_from('<Q', data)[0]
    header = json.loads(data[8:8 + length])
    header.pop('__metadata__', None)
    return {name: _tensor(data, 8 + length, entry) for name, entry in header.items()}


def _tensor(data: bytearray, start: int, entry: dict) -> torch.Tensor:
    begin, end = entry['data_offsets']
    dtype = DTYPES[entry['dtype']]
    if begin == end:
        return torch.empty(entry['shape'], dtype=dtype)
    # as bytes first: an offset need not be aligned to the dtype
    raw = torch.frombuffer(data, dtype=torch.uint8, offset=start + begin, count=end - begin).clone()
    return raw.view(dtype).reshape(entry['shape'])


def read_folder(folder: str, stem: str = 'model') -> Tensors:
    """All tensors of `stem`.safetensors, or of the shards that its index names."""
    index = os.path.join(folder, stem + '.safetensors.index.json')
    if not os.path.exists(index):
        return read_tensors(os.path.join(folder, stem + '.safetensors'))
    with open(index) as file:
        shards = sorted(set(json.load(file)['weight_map'].values()))
    out: Tensors = {}
    for shard in shards:
        out.update(read_tensors(os.path.join(folder, shard)))
    return out


def write_tensors(path: str, tensors: Tensors) -> None:
    """Writes one file, tensors in order of their names."""
    header: dict = {'__metadata__': {'format': 'pt'}}
    bodies, offset = [], 0
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous()
        body = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {'dtype': NAMES[tensor.dtype], 'shape': list(tensor.shape), 'data_offsets': [offset, offset + len(body)]}
        bodies.append(body)
        offset += len(body)
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + b''.join(bodies))
