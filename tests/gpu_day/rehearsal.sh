#!/usr/bin/env bash
# scripts/gpu_day.sh from end to end on the fake GPU of tests/cuda_device/fake: every stage and its table, a stage that is killed and
# goes on, one that runs into the limit of its call, and what scripts/gpu_day_report.py makes of it. PyTorch is the system's, on the CPU;
# transformers, PEFT, compute-sanitizer and nvidia-smi are the stand-ins of pretend/.
# Usage: rehearsal.sh BUILD; exit code 77 where something that it needs is not there.
set -euo pipefail
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
root=$here/../..
build=$(readlink -f -- "$1")
fake=$build/lib/gpuplan_fake
skip() { echo "skipped: $*"; exit 77; }
[[ -e $fake/libgpuplan_cuda.so && -e $fake/libgpuplan_nccl.so && -x $build/tests/cuda_device/fake/test_cuda_fake ]] ||
  skip "no fake GPUs in $build (the CUDA toolkit with nccl.h was not found)"
/usr/bin/python3 -c 'import torch, numpy' 2>/dev/null || skip "the system's Python has no PyTorch (python3-torch)"

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
began=$SECONDS
echo '{"driver": "580.65", "gpus": [{"name": "NVIDIA H100 80GB HBM3", "memory_mib": 81559, "uuid": "GPU-0", "bus_id": "00000000:01:00.0",
       "compute_capability": "9.0"}]}' >"$scratch/machine.json"
export GPUPLAN_FAKE_NVML_MACHINE=$scratch/machine.json GPUPLAN_NVML=$fake/libnvidia-ml.so.1 GPUPLAN_LIBRARY_DIR=$fake
export GPUPLAN_FAKE_GPUS="1 NVIDIA H100 80GB HBM3, 9.0, 81559" GPUPLAN_PROFILE_DIR=$scratch/profiles
export GPU_DAY_SMALL=1 GPU_DAY_PROGRAM=$build/gpuplan GPU_DAY_TESTS=$build/tests/cuda_device/fake/test_cuda_fake GPU_DAY_PYTHON=/usr/bin/python3
export GPU_DAY_WORK=$scratch/work GPU_DAY_EARLIER=$scratch/out OUT=$scratch/out OMP_NUM_THREADS=2
export PATH=$here/pretend/bin:$PATH PYTHONPATH=$here/pretend/packages PYTHONDONTWRITEBYTECODE=1

day() { "$root/scripts/gpu_day.sh" "$@" >"$scratch/log" 2>&1; }
fail() { cat "$scratch/log"; echo "FAILED: $*"; exit 1; }
cases() { grep -c '"status": "done"' "$OUT/stage-05.jsonl" || true; }
passed=0
pass() { echo "ok: $*"; passed=$((passed + 1)); }

# Killed in the middle of stage 5, after its first case: the cases that were done are not run again.
mkdir -p -- "$OUT"
setsid "$root/scripts/gpu_day.sh" 5 >"$scratch/log" 2>&1 &
killed=$!
for _ in {1..600}; do
  if [[ -e $OUT/stage-05.jsonl ]] && (($(cases) >= 1)); then break; fi
  sleep 0.1
done
kill -KILL -- "-$killed"
wait "$killed" 2>/dev/null || true
before=$(cases)
grep -q '"kind": "end"' "$OUT/stage-05.jsonl" && fail "stage 5 was to be killed and ended"
printf '{"kind": "run", "torn' >>"$OUT/stage-05.jsonl"
day 5 || true
grep -q '"kind": "end"' "$OUT/stage-05.jsonl" || fail "stage 5 did not go on"
twice=$(sed -n 's/.*"case": "\([^"]*\)", "who".*/\1/p' "$OUT/stage-05.jsonl" | sort | uniq -d)
[[ -z $twice ]] || fail "run twice: $twice"
grep -q torn "$OUT/stage-05.jsonl" && fail "a torn line was kept"
pass "stage 5, killed after $before cases, went on with the next"

# A call that is too short ends in time, and the next one finishes.
day --limit 20 4 && fail "stage 4 was to run into the limit"
grep -q '"kind": "end"' "$OUT/stage-04.jsonl" && fail "stage 4 was to be stopped and ended"
pass "a call of 20 s stopped stage 4"

# The day's calls. Figures of a fake GPU miss their limits; stages have to end all the same.
while read -r -a call; do
  day "${call[@]:1:2}" "${call[@]:3}" || true
done < <("$root/scripts/gpu_day.sh" --calls | sed 's/ *carrying.*//')
for stage in {01..13}; do grep -q '"kind": "end"' "$OUT/stage-$stage.jsonl" || fail "stage $stage did not end"; done
pass "thirteen stages in $((SECONDS - began)) s"

table=$("$root/scripts/gpu_day.sh" --table)
printf '%s\n' "$table"
grep -qE '^[ 0-9]{2} .{10} FAILED' <<<"$table" && fail "a command failed in the rehearsal"
# What does not depend on the fake's clock and memory has to be right.
for row in 'full fp32: losses beside peft' 'lora fp32: losses beside peft' 'lora bf16: losses beside peft' 'qlora bf16: losses beside peft' \
           'gpu against cpu: full fp32: losses' 'a few steps of a tiny model'; do
  grep -q "ok .*$row" <<<"$table" || fail "not right: $row"
done
pass "losses are those of PyTorch and of the CPU"
for case in 'mixture lora, loop' 'mixture lora, one product' 'mixture qlora, loop' 'mixture qlora, one product'; do
  for who in peft predicted; do
    grep -q "\"case\": \"$case\", \"who\": \"$who\", \"status\": \"done\"" "$OUT/stage-11.jsonl" || fail "$case was not $who"
  done
done
grep -q 'needs two GPUs' "$OUT/stage-12.jsonl" || fail "ZeRO-2 was to be skipped on one GPU"
grep -q '"eager_seconds"' "$OUT/stage-13.jsonl" || fail "no time of a block of experts"
pass "mixtures beside their predictions, ZeRO-2 skipped on one GPU, a block of experts"

# What was skipped, once more: with an NCCL that takes several ranks on one GPU.
grep -q '"status": "skipped", .*refuses several ranks' "$OUT/stage-10.jsonl" || fail "stage 10 was to be refused"
GPUPLAN_FAKE_NCCL_VERSION=2.30 day --again 10 || true
grep -q '"case": "two ranks on one GPU", "status": "passed"' "$OUT/stage-10.jsonl" || fail "two ranks did not train on one GPU"
pass "two ranks on one GPU, with an NCCL that allows it"

day 1 2 3 || true
grep -q 'stage 1: done before' "$scratch/log" || fail "stage 1 was run again"
num_files=$(find "$OUT" -type f ! -name 'stage-*' | wc -l)
((num_files <= 4)) || fail "$num_files files beside those of stages; eight come back of a call of four stages"
pass "what is done is not run again"

/usr/bin/python3 "$root/scripts/gpu_day_report.py" --write "$root" "$OUT" >"$scratch/log" 2>&1 && fail "a rehearsal was written into the clone"
/usr/bin/python3 "$root/scripts/gpu_day_report.py" --write "$scratch/clone" "$OUT" >"$scratch/log" 2>&1 || fail "no report"
for file in data/validation/own/gpu_day_memory.jsonl data/validation/own/gpu_day_speed.jsonl data/profiles/h100-sxm-80gb-measured.yaml docs/gpu.md; do
  [[ -s $scratch/clone/$file ]] || fail "no $file"
done
env -u GPUPLAN_LIBRARY_DIR "$build/gpuplan" validate "$scratch"/clone/data/validation/own/gpu_day_*.jsonl >"$scratch/log" 2>&1 || fail "the points cannot be read"
grep -q 'are predicted (100.0 %)' "$scratch/log" || fail "not every point can be predicted"
pass "points that validate reads, a profile, docs/gpu.md"
echo "$passed passed, 0 failed in $((SECONDS - began)) s"
