#!/bin/sh
# Made by gpuplan 0.1.0 from plan.json (sha256 ec49f1e70d3b): llama-3.1-8b, full, fsdp on 16 x NVIDIA H100 SXM5 80GB.
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
exec accelerate launch --config_file accelerate.yaml --machine_rank "${MACHINE_RANK:?the number of this machine, from 0}" --main_process_ip "${MAIN_ADDRESS:?the address of machine 0}" --main_process_port "${MAIN_PORT:-29500}" -m trl.scripts.sft --config sft.yaml "$@"
