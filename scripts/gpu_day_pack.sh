#!/usr/bin/env bash
# Fills build/gpu_day, which a machine with a GPU needs beside the clone for scripts/gpu_day.sh: the program of scripts/bundle.sh for
# one kind of GPU, and the tests of real GPUs, linked for older systems as the program is.
set -euo pipefail
root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
source "$root/scripts/setup.sh"

usage() {
  cat <<'EOT'
Usage: scripts/gpu_day_pack.sh [--sm LIST]

Makes build/gpu_day/tree.tar.gz and prints the calls of scripts/gpu_day.sh. Fails where it and the clone have more than 60 MiB.

  --sm LIST   compute capabilities, as for scripts/bundle.sh. Default 90: H100 and H200
EOT
}

architectures=90
while (($# > 0)); do
  case $1 in
    --sm) architectures=${2:-}; shift ;;
    -h | --help) usage; exit 0 ;;
    *) say "unknown option '$1'"; usage >&2; exit 2 ;;
  esac
  shift
done

most_bytes=$((60 << 20))
tree=$(build_dir bundle)
out=$root/build/gpu_day

build_tests() {
  cmake -S "$root" -B "$tree" -DGPUPLAN_TESTS=ON
  build bundle test_cuda_device
}

pack() {
  local stage
  stage=$(mktemp -d)
  tar -C "$stage" -xzf "$1"
  mv -- "$stage"/gpuplan-* "$stage/gpuplan"
  mkdir -p -- "$stage/tests" "$out/results"
  strip -o "$stage/tests/test_cuda_device" "$tree/tests/cuda_device/test_cuda_device"
  "$root/scripts/check_objects.sh" --glibc 2.31 "$stage/gpuplan"
  tar -C "$stage" -c gpuplan tests | gzip -9n >"$out/tree.tar.gz"
  rm -rf -- "$stage"
}

# What travels: the files of the clone that git does not ignore, a folder shared/ in it, and build/gpu_day.
travelling_bytes() {
  (cd -- "$root" && { git ls-files -z --cached --others --exclude-standard
                      find shared build/gpu_day -type f -print0 2>/dev/null || true; } |
    xargs -0 stat -c %s -- 2>/dev/null | awk '{ sum += $1 } END { print sum + 0 }')
}

main() {
  "$root/scripts/bundle.sh" --sm "$architectures"
  say "building the tests of real GPUs"
  if ! locked bundle build_tests >"$tree.log" 2>&1; then show_failure "$tree.log" >&2; fail "the tests were not built"; fi
  local version bytes
  version=$(sed -n 's/^CMAKE_PROJECT_VERSION:[A-Z]*=//p' "$tree/CMakeCache.txt")
  pack "$root/build/gpuplan-$version-linux-x86_64-sm${architectures// /-}.tar.gz"
  bytes=$(travelling_bytes)
  printf '%s: %d bytes; with the clone %d of at most %d\n' "${out#"$root/"}" "$(du -sb -- "$out" | cut -f 1)" "$bytes" "$most_bytes"
  if ((bytes > most_bytes)); then fail "too much to send"; fi
  "$root/scripts/gpu_day.sh" --calls
}

mkdir -p -- "$out"
main
