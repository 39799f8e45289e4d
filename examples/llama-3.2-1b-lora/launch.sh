#!/bin/sh
# Made by gpuplan 0.1.0 from plan.json (sha256 476280a1c485): llama-3.2-1b, lora, single on 1 x NVIDIA GeForce RTX 3060 12GB.
# For torchtune 0.4 to 0.6, torch 2.6 or later.
set -eu
cd "$(dirname "$0")"
python3 - torchtune 0.4 torch 2.6 <<'CHECK'
import re, sys
from importlib.metadata import version
def numbers(text): return [int(n) for n in re.findall(r"\d+", text)[:2]]
for package, least in zip(sys.argv[1::2], sys.argv[2::2]):
    if numbers(version(package)) < numbers(least):
        sys.exit(f"{package} {version(package)} is older than {least}")
CHECK
export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES:-0}"
exec tune run lora_finetune_single_device --config torchtune.yaml "$@"
