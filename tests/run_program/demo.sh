#!/usr/bin/env bash
# `gpuplan run --demo` as a new user runs it: the loss falls, the adapter is saved and read back. Usage: demo.sh GPUPLAN
set -euo pipefail
gpuplan=$(readlink -f -- "$1")
[[ -e $(dirname -- "$gpuplan")/lib/gpuplan/libgpuplan_cpu.so ]] || { echo "skipped: no CPU library in this build"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
cd -- "$folder"
"$gpuplan" run --demo --max-steps 60 --gpus 1xcpu >out.txt 2>err.txt || { cat out.txt err.txt; exit 1; }
cat out.txt
grep -q 'gpuplan run --max-steps 60 .*--lora=r=16' err.txt || { echo "it does not print the command that it stands for"; exit 1; }
read -r first last < <(sed -n 's/^steps .*: loss \([0-9.]*\) to \([0-9.]*\),.*/\1 \2/p' out.txt)
read -r after before < <(sed -n 's/^adapter read back .*: loss \([0-9.]*\) on the first batch, \([0-9.]*\) without it$/\1 \2/p' out.txt)
awk -v f="$first" -v l="$last" -v a="$after" -v b="$before" 'BEGIN { exit !(l < f - 0.3 && a < b - 0.3) }' ||
  { echo "the loss did not fall: $first to $last, $before to $after"; exit 1; }
[[ -s gpuplan-demo/adapter_model.safetensors && -s gpuplan-demo/adapter_config.json ]]
# As docs/run.md shows it: another strategy, after which the adapter is read back on one rank.
rm -rf gpuplan-demo
"$gpuplan" run --demo --gpus 2xcpu --strategy fsdp --max-steps 20 >out.txt 2>err.txt || { cat out.txt err.txt; exit 1; }
grep -q '^adapter read back' out.txt
# Flags beside --demo replace the demo's own: its method, its model and its learning rate.
rm -rf gpuplan-demo
"$gpuplan" run --demo --full --gpus 1xcpu --max-steps 3 --lr 5e-5 --schedule constant --warmup 0 --metrics full.jsonl >out.txt 2>err.txt || { cat out.txt err.txt; exit 1; }
[[ -s gpuplan-demo/model.safetensors && ! -e gpuplan-demo/adapter_config.json ]]
[[ $(grep -c '"lr": *5e-05' full.jsonl) == 3 ]] || { echo "--lr beside --demo is not taken"; cat full.jsonl; exit 1; }
mv gpuplan-demo own-model
"$gpuplan" run --demo --lora=r=3 --model own-model --gpus 1xcpu --max-steps 3 >out.txt 2>err.txt || { cat out.txt err.txt; exit 1; }
grep -q '"r": *3,' gpuplan-demo/adapter_config.json || { echo "--lora beside --demo is not taken"; cat gpuplan-demo/adapter_config.json; exit 1; }
grep -q 'own-model' gpuplan-demo/adapter_config.json || { echo "--model beside --demo is not taken"; cat gpuplan-demo/adapter_config.json; exit 1; }
rm -rf gpuplan-demo
# On a processor with AVX2 alone 16-bit products are made by conversion (device/cpu/widened_gemm.h): weights of 2 bytes and the memory
# that was predicted, losses that differ from those of fp32 and end within 2 % of them, the same bits each time.
export GPUPLAN_CPU_VARIANT=avx2 ONEDNN_MAX_CPU_ISA=AVX2
for run in fp32 bf16-mixed bf16-true again; do
  precision=${run/again/bf16-mixed}
  "$gpuplan" run --demo --gpus 1xcpu --max-steps 25 --precision "$precision" --output "$run" --metrics "$run.jsonl" \
    >"$run.txt" 2>err.txt || { cat "$run.txt" err.txt; exit 1; }
  sed -nE 's/.*"loss": ?([0-9.]+).*/\1/p' "$run.jsonl" >"$run.losses"
done
[[ $(wc -l <fp32.losses) == 25 ]]
cmp bf16-mixed.losses again.losses
for run in bf16-mixed bf16-true; do
  grep -qE '^weights +1.66 MiB +1.66 MiB +[+-]0.0 %$' "$run.txt" || { echo "$run: the weights are not those of 2 bytes"; cat "$run.txt"; exit 1; }
  grep -qE '^tensors .* [+-]0.0 %$' "$run.txt" || { echo "$run: memory is not as predicted"; cat "$run.txt"; exit 1; }
  if cmp -s fp32.losses "$run.losses"; then echo "$run computes in fp32"; exit 1; fi
  paste fp32.losses "$run.losses" | awk -v run="$run" '{ d = ($2 - $1) / $1; if (d < 0) d = -d }
    END { if (d > 0.02) { printf "%s ends %.1f %% away from fp32\n", run, 100 * d; exit 1 } }'
done
