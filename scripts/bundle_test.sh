#!/usr/bin/env bash
# The tarball of scripts/bundle.sh, in folders with random names: on this system, in a system with Debian 11's C and C++ library and nothing
# else, and in those whose root folders are given. Other systems run it as an ordinary user, which needs root here.
# Usage: scripts/bundle_test.sh ARCHIVE [ROOT]…
set -euo pipefail
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
# shellcheck source=scripts/answers.sh
source "$here/answers.sh"
if (($# == 0)); then
  echo "usage: scripts/bundle_test.sh ARCHIVE [ROOT]..." >&2
  exit 2
fi
archive=$(readlink -f -- "$1")
shift
older=$here/../build/debian11/root
if [[ -d $older ]]; then set -- "$older" "$@"; fi

folder=''
trap 'rm -rf -- "${folder:-/nonexistent}"' EXIT

unpack() {  # unpack <folder to make one in>: sets $folder and $program
  mkdir -p -- "$1"
  folder=$(mktemp -d -- "$1/some where XXXXXX")
  tar -C "$folder" -xzf "$archive"
  local programs=("$folder"/gpuplan-*/bin/gpuplan)
  program=${programs[0]}
}

# In namespaces of its own, with the devices and processes of this system.
run_inside() {  # run_inside <root> <folder> <program> [argument]…
  # shellcheck disable=SC2016  # the inner shell's arguments
  env -i HOME="$2" PATH=/usr/bin:/bin unshare --mount --pid --fork --kill-child bash -c 'mount --rbind /dev "$0/dev" && cd / &&
    exec unshare --root="$0" --wd="$1" --mount --mount-proc --setgid 65534 --setuid 65534 "${@:2}"' "$@"
}

unpack "${TMPDIR:-/tmp}"
"$here/check_objects.sh" --glibc 2.31 "$folder"
sum=$(grep -hF -- "  ${archive##*/}" "${archive%/*}"/SHA256SUMS* || true)
if [[ -z $sum ]] || ! (cd -- "${archive%/*}" && sha256sum --quiet -c - <<<"$sum"); then
  echo "SHA256SUMS beside $archive is not of it" >&2
  exit 1
fi
for name in LICENSE NOTICE copyright gpuplan.spdx.json licences/libfmt-dev; do
  [[ -s ${program%/bin/*}/share/doc/gpuplan/$name ]] || { echo "$archive lacks share/doc/gpuplan/$name" >&2; exit 1; }
done
(cd -- "$folder" && check_answers env -i HOME="$folder" PATH=/usr/bin:/bin "$program")
rm -rf -- "$folder"
echo "ok: this system, glibc $(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)"

for root; do
  if ((EUID != 0)); then
    echo "skipped: $root (needs root)"
    continue
  fi
  mkdir -p -- "$root/dev" "$root/proc"
  unpack "$root/tmp"
  chown -R 65534:65534 -- "$folder"
  check_answers run_inside "$root" "${folder#"$root"}" "${program#"$root"}"
  rm -rf -- "$folder"
  echo "ok: $root as an ordinary user"
done
