#!/bin/sh
# Made by gpuplan 0.1.0 from plan.json (sha256 4e70cf461764): qwen3-8b, qlora, single on 1 x NVIDIA GeForce RTX 4090.
# For axolotl 0.17 to 0.18.
set -eu
cd "$(dirname "$0")"
python3 - axolotl 0.17 <<'CHECK'
import re, sys
from importlib.metadata import version
def numbers(text): return [int(n) for n in re.findall(r"\d+", text)[:2]]
for package, least in zip(sys.argv[1::2], sys.argv[2::2]):
    if numbers(version(package)) < numbers(least):
        sys.exit(f"{package} {version(package)} is older than {least}")
CHECK
export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES:-0}"
exec accelerate launch --num_processes 1 --num_machines 1 -m axolotl.cli.train axolotl.yaml "$@"
