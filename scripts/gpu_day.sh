#!/usr/bin/env bash
# Half an hour of a real GPU: what waits for one, in stages, the most valuable first. Runs on the machine with the GPU, from a clone with
# build/gpu_day (scripts/gpu_day_pack.sh); needs python3 there, with PyTorch, transformers and PEFT for what is compared with them.
# A stage that is done, here or in build/gpu_day/results, is not run again; one that was killed goes on with its next case.
set -euo pipefail
root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")

# stage  seconds  what
stages='
1        60       does it start: versions, a few steps, the same under compute-sanitizer
2        200      kernels against float64, the CPU and compute-sanitizer
3        250      calibrate --quick, then in full
4        250      losses beside transformers + PEFT: full, LoRA, QLoRA
5        90       memory by category and process against the prediction
6        200      tokens/s and memory beside PyTorch + PEFT, alternating
7        200      8B: LoRA and QLoRA
8        80       the accelerate engine
9        100      CUDA graphs on and off, for products with a bias and without
10       60       two NCCL ranks on one GPU
11       240      a mixture of experts: LoRA and QLoRA, experts in a loop and in one product
12       120      ZeRO-2 with its reductions beside compute and not (two GPUs and DeepSpeed)
13       60       a block of experts, compiled and not
'
# What one call of at most ten minutes takes.
calls='1 2 3
4 5 6
7 8 9 10
11 12 13'

usage() {
  cat <<'EOT'
Usage: scripts/gpu_day.sh [--limit SECONDS] [--again] STAGE…
       scripts/gpu_day.sh --table | --calls | --help

Runs stages in the order given. Results are $OUT/stage-NN.jsonl (default build/gpu_day/results), the log is $OUT/gpu_day.log.
Ends with the table of all stages so far; the exit code is 0 when every stage given is done and nothing missed its limit.

  --limit SECONDS  of this call; a stage gets what is left. Default 570
  --again          run the cases once more that failed or were skipped; a stage whose file is removed runs whole
  --table          only the table
  --calls          the calls that make a day
EOT
  printf '\nstages, with their limits in seconds:%s' "$stages"
}

limit=570
chosen=()
while (($# > 0)); do
  case $1 in
    --limit)
      limit=${2:-}
      if [[ ! $limit =~ ^[1-9][0-9]*$ ]]; then echo "gpu_day.sh: --limit takes seconds, not '$limit'" >&2; exit 2; fi
      shift ;;
    --again) export GPU_DAY_AGAIN=1 ;;
    --table) chosen=(table) ;;
    --calls)
      while read -r line; do printf "scripts/gpu_day.sh --limit 570 %s        carrying build/gpu_day\n" "$line"; done <<<"$calls"
      exit 0 ;;
    -h | --help) usage; exit 0 ;;
    *)
      if ! grep -q "^$1 " <<<"$stages"; then echo "gpu_day.sh: no stage '$1'; they are 1 to 13" >&2; exit 2; fi
      chosen+=("$1") ;;
  esac
  shift
done
if ((${#chosen[@]} == 0)); then usage >&2; exit 2; fi

sent=$root/build/gpu_day
export OUT=${OUT:-$sent/results}
export GPU_DAY_EARLIER=${GPU_DAY_EARLIER:-$sent/results}
export GPU_DAY_WORK=${GPU_DAY_WORK:-/tmp/gpu_day}
export GPUPLAN_PROFILE_DIR=${GPUPLAN_PROFILE_DIR:-$GPU_DAY_WORK/profiles}
python=${GPU_DAY_PYTHON:-python3}
mkdir -p -- "$OUT" "$GPU_DAY_WORK"

print_table() { "$python" "$root/scripts/gpu_day_report.py" --table "$GPU_DAY_EARLIER" "$OUT"; }
if [[ ${chosen[0]} == table ]]; then print_table; exit; fi

# The program that was sent; a rehearsal names its own.
unpack() {
  if [[ -n ${GPU_DAY_PROGRAM:-} ]]; then return 0; fi
  if [[ ! -e $sent/tree.tar.gz ]]; then echo "gpu_day.sh: no $sent/tree.tar.gz; scripts/gpu_day_pack.sh makes it" >&2; exit 3; fi
  if [[ ! $GPU_DAY_WORK/tree/unpacked -nt $sent/tree.tar.gz ]]; then
    rm -rf -- "$GPU_DAY_WORK/tree"
    mkdir -p -- "$GPU_DAY_WORK/tree"
    tar -C "$GPU_DAY_WORK/tree" -xzf "$sent/tree.tar.gz"
    touch "$GPU_DAY_WORK/tree/unpacked"
  fi
  export GPU_DAY_PROGRAM=$GPU_DAY_WORK/tree/gpuplan/bin/gpuplan GPU_DAY_TESTS=$GPU_DAY_WORK/tree/tests/test_cuda_device
  export GPUPLAN_LIBRARY_DIR=$GPU_DAY_WORK/tree/gpuplan/lib/gpuplan
}

# cuBLASLt and NCCL: those of PyTorch's packages, then the toolkit's; the driver's where the loader does not know its folder.
find_libraries() {
  "$python" - <<'EOT' 2>/dev/null || true
import glob, importlib.util, os
spec = importlib.util.find_spec('nvidia')
folders = sorted({path.rsplit('/', 1)[0] for root in (spec.submodule_search_locations if spec else [])
                  for name in ('libcublasLt.so.13', 'libnccl.so.2') for path in glob.glob(f'{root}/**/{name}', recursive=True)})
others = ['/usr/local/cuda/lib64', '/usr/local/nvidia/lib64', '/usr/local/nvidia/lib']
print(':'.join(folders + [folder for folder in others if os.path.isdir(folder)]), end='')
EOT
}

seconds_of() { awk -v stage="$1" '$1 == stage { print $2 }' <<<"$stages"; }
file_of() { printf 'stage-%02d.jsonl' "$1"; }
is_done() { grep -qsE '^\{"kind": "end", .*"status": "done"' "$OUT/$(file_of "$1")" "$GPU_DAY_EARLIER/$(file_of "$1")"; }

run_stage() {  # run_stage <number> <seconds>
  local status=0
  printf '\n== stage %s, at most %s s, %s\n' "$1" "$2" "$(date -u +%FT%TZ)"
  GPU_DAY_STAGE_SECONDS=$2 timeout --foreground --kill-after=5 "$2" "$python" "$root/scripts/gpu_day_stage.py" "$1" || status=$?
  case $status in
    0) ;;
    124 | 137) printf '== stage %s: its time was over; call it again to go on\n' "$1" ;;
    *) printf '== stage %s: exit code %s\n' "$1" "$status" ;;
  esac
}

main() {
  unpack
  GPU_DAY_LIBRARIES=$(find_libraries)
  export GPU_DAY_LIBRARIES PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
  local stage own left
  for stage in "${chosen[@]}"; do
    if [[ -z ${GPU_DAY_AGAIN:-} ]] && is_done "$stage"; then printf '== stage %s: done before\n' "$stage"; continue; fi
    own=$(seconds_of "$stage")
    left=$((limit - SECONDS - 8))  # for the table and the end of what is stopped
    if ((left < 10)); then printf '== stage %s: no time left in this call\n' "$stage"; continue; fi
    run_stage "$stage" $((own < left ? own : left))
  done
}

main 2>&1 | tee -a "$OUT/gpu_day.log"
print_table | tee "$OUT/table.txt"
for stage in "${chosen[@]}"; do is_done "$stage" || exit 1; done
"$python" "$root/scripts/gpu_day_report.py" --missed "$GPU_DAY_EARLIER" "$OUT"
