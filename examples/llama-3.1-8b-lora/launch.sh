#!/bin/sh
# Made by gpuplan 0.1.0 from plan.json (sha256 fc501d344cb5): llama-3.1-8b, lora, fsdp on 4 x NVIDIA RTX A6000 (Ampere).
# For trl 0.23 to 1.10, transformers 4.56 to 5.x, peft 0.17 or later.
set -eu
cd "$(dirname "$0")"
python3 - trl 0.23 transformers 4.56 peft 0.17 <<'CHECK'
import re, sys
from importlib.metadata import version
def numbers(text): return [int(n) for n in re.findall(r"\d+", text)[:2]]
for package, least in zip(sys.argv[1::2], sys.argv[2::2]):
    if numbers(version(package)) < numbers(least):
        sys.exit(f"{package} {version(package)} is older than {least}")
CHECK
exec accelerate launch --config_file accelerate.yaml -m trl.scripts.sft --config sft.yaml "$@"
