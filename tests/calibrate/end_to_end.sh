#!/usr/bin/env bash
# gpuplan calibrate as a user runs it, on this machine's CPU: killed and resumed, then used. Quick probes of few families: what
# is tested is that nothing is lost or half-written, not the figures.
#   end_to_end.sh <gpuplan>
set -uo pipefail
gpuplan=$1
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
export GPUPLAN_PROFILE_DIR=$folder/profiles
journal=$GPUPLAN_PROFILE_DIR/journals/cpu-quick-attention-memory-dispatch.jsonl
failed=0
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0  # oneDNN and OpenMP keep memory to the end of a worker

fail() { echo "FAILED: $*"; failed=1; }
num_lines() { if [[ -e $1 ]]; then wc -l <"$1"; else echo 0; fi; }

if [[ ! -e $(dirname -- "$gpuplan")/lib/gpuplan/libgpuplan_cpu.so ]]; then
  echo "skipped: this build has no CPU library (oneDNN not found)"
  exit 77
fi

calibrate=("$gpuplan" calibrate --device cpu --quick --ranks 1 --only dispatch,memory,attention --output "$folder/cpu.yaml")

# Killed again and again, each time a little later: the journal only grows, and there is no profile before the end.
# Interrupted runs of other kinds left journals: this one is none of them.
mkdir -p "$(dirname "$journal")"
for other in cpu-full cpu-quick; do echo "samples of $other" >"$GPUPLAN_PROFILE_DIR/journals/$other.jsonl"; done
before=0
for wait in 0.3 0.6 0.9 1.2; do
  "${calibrate[@]}" >/dev/null 2>"$folder/err" &
  sleep "$wait"
  kill -9 $! 2>/dev/null && wait $! 2>/dev/null
  if [[ -e $folder/cpu.yaml ]]; then break; fi  # it was faster
  after=$(num_lines "$journal")
  if ((after < before)); then fail "the journal shrank from $before to $after lines"; fi
  before=$after
done
if [[ ! -e $folder/cpu.yaml ]]; then
  for ((i = 0; i < 240; ++i)); do  # a busy machine is slow to end them
    pgrep -f "$gpuplan calibrate-worker" >/dev/null || break
    sleep 0.5
  done
  if pgrep -f "$gpuplan calibrate-worker" >/dev/null; then fail "a worker outlived its parent"; fi
fi

if [[ ! -e $folder/cpu.yaml ]]; then
  "${calibrate[@]}" >"$folder/out" 2>"$folder/err" || fail "calibrate ended with $?: $(cat "$folder/err")"
fi
if [[ -e $journal ]]; then fail "the journal of a complete calibration is still there"; fi
for other in cpu-full cpu-quick; do
  grep -qs "samples of $other" "$GPUPLAN_PROFILE_DIR/journals/$other.jsonl" || fail "the journal of $other is gone"
done
keys=$(sed -n '/^samples:/,$p' "$folder/cpu.yaml" | grep -c '^  {')
if ((keys < 10)); then fail "only $keys samples in the profile"; fi
twice=$(sed -n '/^samples:/,$p' "$folder/cpu.yaml" | grep -o '"probe":{[^}]*}' | sort | uniq -d | wc -l)
if ((twice > 0)); then fail "$twice probes were measured twice"; fi

# What was measured is what an estimate rests on, from the file and from the folder.
plan=(estimate --model smollm2-135m --full --framework native --gpus 1xcpu --seq-len 256 --strategy single --explain)
"$gpuplan" "${plan[@]}" --profile "$folder/cpu.yaml" >"$folder/out" 2>&1
grep -q 'profile cpu-.*: measured 20' "$folder/out" || fail "the estimate does not name the profile: $(cat "$folder/out")"
grep -q 'GEMM shapes extrapolated' "$folder/out" || fail "nothing says that no GEMM was measured"
cp "$folder/cpu.yaml" "$GPUPLAN_PROFILE_DIR/"
"$gpuplan" "${plan[@]}" >"$folder/out" 2>&1
grep -q 'profile cpu-.*: measured 20' "$folder/out" || fail "the stored profile is not taken"
"$gpuplan" "${plan[@]}" --profile default >"$folder/out" 2>&1
grep -q 'not calibrated on this machine' "$folder/out" || fail "--profile default is not the shipped one"

# The loop closes: a run is kept beside the profile that predicted it, and corrects the next estimate.
demo=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../../data/demo
"$gpuplan" run --model "$demo" --init random --full --gpus 1xcpu --seq-len 512 --max-steps 8 >"$folder/out" 2>"$folder/err" ||
  fail "run ended with $?: $(cat "$folder/err")"
[[ $(num_lines "$GPUPLAN_PROFILE_DIR/cpu.yaml.runs.jsonl") == 1 ]] || fail "the run was not kept: $(cat "$folder/out")"
"$gpuplan" "${plan[@]}" >"$folder/out" 2>&1
grep -q 'corrected by 1 earlier run on 1 rank' "$folder/out" || fail "the estimate is not corrected: $(cat "$folder/out")"
"$gpuplan" "${plan[@]}" --profile "$folder/cpu.yaml" >"$folder/out" 2>&1
if grep -q 'corrected by' "$folder/out"; then fail "a profile is corrected by runs of another file"; fi
"$gpuplan" profiles >"$folder/out" 2>&1 || fail "profiles ended with $?: $(cat "$folder/out")"
if grep -q 'runs.jsonl' "$folder/out"; then fail "the runs are taken for a profile"; fi

# Wrong input: exit code 2, one line.
for wrong in '--device gpu' '--only gem' '--ranks 0' '--only gemm'; do
  # shellcheck disable=SC2086  # two words
  "$gpuplan" calibrate $wrong >/dev/null 2>"$folder/err"
  code=$?
  if ((code != 2)); then fail "calibrate $wrong: exit code $code"; fi
done
if ((failed == 0)); then echo "passed"; fi
exit $failed
