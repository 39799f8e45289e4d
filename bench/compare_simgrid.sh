#!/usr/bin/env bash
# The ring of bench/ring_case.h in both simulators, one after the other, and how many times less CPU time ours takes.
#   bench/compare_simgrid.sh [build folder [ranks [layers]]]     default: build/release 512 32, about a minute and a half
set -euo pipefail
build=${1:-build/release} ranks=${2:-512} layers=${3:-32}
cd "$(dirname "$0")/.."
if [[ ! -x $build/bench/bench_simgrid_ring ]]; then
  echo "$build/bench/bench_simgrid_ring is not there: install libsimgrid-dev, configure and build again" >&2
  exit 3
fi
"$build/bench/bench_sim_ring" "$ranks" "$layers" ring | tee /tmp/ring.$$
"$build/bench/bench_sim_ring" "$ranks" "$layers" 'folded to one rank' | tail -n 1
"$build/bench/bench_simgrid_ring" "$ranks" "$layers" --cfg=network/model:CM02 --cfg=network/crosstraffic:0 \
  --log=xbt_cfg.threshold:warning | tee -a /tmp/ring.$$
awk 'match($0, /[0-9.]+ s CPU/) { t[n++] = substr($0, RSTART) + 0 } END { printf "ratio: %.1f\n", t[1] / t[0] }' /tmp/ring.$$
rm -f /tmp/ring.$$
