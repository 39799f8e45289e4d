#!/bin/sh
# Made by gpuplan 0.1.0 from plan.json (sha256 0d4152a0f9d3): qwen3-4b, full, zero2 on 8 x NVIDIA H100 SXM5 80GB.
# For llamafactory 0.9.4 or later.
set -eu
cd "$(dirname "$0")"
python3 - llamafactory 0.9.4 <<'CHECK'
import re, sys
from importlib.metadata import version
def numbers(text): return [int(n) for n in re.findall(r"\d+", text)[:2]]
for package, least in zip(sys.argv[1::2], sys.argv[2::2]):
    if numbers(version(package)) < numbers(least):
        sys.exit(f"{package} {version(package)} is older than {least}")
CHECK
export FORCE_TORCHRUN=1
export NPROC_PER_NODE=8
exec llamafactory-cli train llamafactory.yaml "$@"
