#!/usr/bin/env bash
# collectives_test.sh <mpi_collectives>: all checks alone, with 2, 3 and 4 ranks. 77 where there is no mpirun.
set -euo pipefail
if ! command -v mpirun >/dev/null; then
  echo "skipped: mpirun was not found (openmpi-bin)"
  exit 77
fi
"$1"
"$1" errors  # as the last act of a job of one: mpirun ends jobs whose ranks leave without MPI_Finalize
for what in message meeting; do  # mpirun ends the others, and says so
  { timeout 300 mpirun --allow-run-as-root --oversubscribe -n 2 "$1" abort $what 2>/dev/null || true; } | grep "given up waiting"
done
for ranks in 2 3 4; do
  timeout 300 mpirun --allow-run-as-root --oversubscribe -n $ranks "$1"
done
