#!/bin/sh
# Made by gpuplan 0.1.0 from plan.json (sha256 56ca4ce475da): stories15m, full, single on 1 x CPU rank of this host.
# For torch 1.13 or later.
set -eu
cd "$(dirname "$0")"
python3 - torch 1.13 <<'CHECK'
import re, sys
from importlib.metadata import version
def numbers(text): return [int(n) for n in re.findall(r"\d+", text)[:2]]
for package, least in zip(sys.argv[1::2], sys.argv[2::2]):
    if numbers(version(package)) < numbers(least):
        sys.exit(f"{package} {version(package)} is older than {least}")
CHECK
export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES:-0}"
exec python3 train_torch.py torch.json "$@"
