# shellcheck shell=bash
# Sourced by the tests of packages: what an installed gpuplan must answer on a machine with CPUs alone.

# Runs the commands of `check_answers` with <command that runs gpuplan>…, in a folder where it may write.
check_answers() {
  local job=(--model llama3-8b --lora r=8 --gpus 4xA6000)
  expect 'gpuplan [0-9]' "$@" --version
  expect 'stas00/ml-engineering +CC-BY-SA-4.0' "$@" --licences
  expect '[0-9] ddp |ddp +yes' "$@" estimate "${job[@]}"
  expect 'What the step waits for' "$@" simulate "${job[@]}" --strategy fsdp
  expect 'points' "$@" validate
  expect 'adapter read back' "$@" run --demo --max-steps 3
  expect "profile.yaml" "$@" calibrate --quick --device cpu --only memory,copy --output profile.yaml
  check_error "$@"
}

# An error of a device library reaches the program. The limit is on what the process may map.
check_error() {  # check_error <command that runs gpuplan>…
  local out
  out=$(ulimit -v 900000; "$@" run --demo --gpus 1xcpu --max-steps 1 --micro-batch 512 --output large 2>&1) && return 1
  grep -q 'gpuplan: out of memory' <<<"$out" || { printf '%s\n' "$out" >&2; return 1; }
}

expect() {  # expect <pattern> <command>…: exit code 0, and a line of the output has the pattern
  local pattern=$1 out status=0
  shift
  out=$("$@" 2>&1) || status=$?
  if ((status != 0)) || ! grep -qE "$pattern" <<<"$out"; then
    printf '%s\n%s: exit code %d, expected a line with: %s\n' "$out" "$*" "$status" "$pattern" >&2
    return 1
  fi
}
