#!/usr/bin/env bash
# `gpuplan run --demo` as a new user runs it: the loss falls, the adapter is saved and read back. Usage: demo.sh GPUPLAN
set -euo pipefail
gpuplan=$(readlink -f -- "$1")
[[ -e $(dirname -- "$gpuplan")/lib/gpuplan/libgpuplan_cpu.so ]] || { echo "skipped: no CPU library in this build"; exit 77; }
if [[ -e $(dirname -- "$gpuplan")/CMakeCache.txt ]] && grep -q '^SENTENCEPIECE_LIBRARY:.*NOTFOUND' "$(dirname -- "$gpuplan")/CMakeCache.txt"; then
  echo "skipped: this build has no SentencePiece, and the demo's data is text"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
cd -- "$folder"
"$gpuplan" run --demo --max-steps 60 --gpus 1xcpu >out.txt 2>err.txt || { cat out.txt err.txt; exit 1; }
cat out.txt
read -r first last < <(sed -n 's/^steps .*: loss \([0-9.]*\) to \([0-9.]*\),.*/\1 \2/p' out.txt)
read -r after before < <(sed -n 's/^adapter read back .*: loss \([0-9.]*\) on the first batch, \([0-9.]*\) without it$/\1 \2/p' out.txt)
awk -v f="$first" -v l="$last" -v a="$after" -v b="$before" 'BEGIN { exit !(l < f - 0.3 && a < b - 0.3) }' ||
  { echo "the loss did not fall: $first to $last, $before to $after"; exit 1; }
[[ -s gpuplan-demo/adapter_model.safetensors && -s gpuplan-demo/adapter_config.json ]]
# As docs/run.md shows it: another strategy, after which the adapter is read back on one rank.
rm -rf gpuplan-demo
"$gpuplan" run --demo --gpus 2xcpu --strategy fsdp --max-steps 20 >out.txt 2>err.txt || { cat out.txt err.txt; exit 1; }
grep -q '^adapter read back' out.txt
