#!/usr/bin/env bash
# Makes what the page of a release holds, from a commit: build/page/ with the tarball, the .deb, their SHA256SUMS and NOTES.md.
set -euo pipefail
root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
source "$root/scripts/setup.sh"

usage() {
  cat <<'USAGE'
Usage: scripts/release.sh [--no-test]

Packs the checked-out commit with scripts/bundle.sh, tries the packages, and leaves in build/page/ what is uploaded:

  gpuplan-VERSION-linux-x86_64.tar.gz   runs from any folder, x86_64 Linux with glibc 2.31 or later
  gpuplan_VERSION_amd64.deb             the same files for Debian and Ubuntu
  SHA256SUMS                            of both
  NOTES.md                              how to install, and the newest section of CHANGELOG.md

Run ./check --full first. Needs Debian 12, as scripts/bundle.sh does.

  --no-test   do not run scripts/bundle_test.sh and scripts/deb_test.sh
USAGE
}

arguments=(--test)
case ${1:-} in
  --no-test) arguments=() ;;
  -h | --help) usage; exit 0 ;;
  '') ;;
  *) say "unknown option '$1'"; usage >&2; exit 2 ;;
esac

changed=$(git -C "$root" status --porcelain) || fail "a release is made from a git clone"
if [[ -n $changed ]]; then
  say "a release is a commit, and these files differ from it:"
  printf '%s\n' "$changed" >&2
  exit 2
fi
version=$(sed -n 's/^project(gpuplan VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
archive=gpuplan-$version-linux-x86_64.tar.gz package=gpuplan_${version}_amd64.deb page=$root/build/page

"$root/scripts/bundle.sh" ${arguments[@]+"${arguments[@]}"}

rm -rf -- "$page"
mkdir -p -- "$page"
cp -- "$root/build/$archive" "$root/build/$package" "$root/build/SHA256SUMS" "$page/"
(cd -- "$page" && sha256sum --quiet -c SHA256SUMS) || fail "SHA256SUMS is not of these files"
{
  cat <<NOTES
# gpuplan $version

Commit $(git -C "$root" rev-parse HEAD). Planning needs no GPU, no CUDA and no Python.

    sha256sum --ignore-missing -c SHA256SUMS
    tar xzf $archive                       # any x86_64 Linux with glibc 2.31 or later, no root
    gpuplan-$version/bin/gpuplan estimate --model llama3-8b --lora r=8 --gpus 4xA6000

    sudo apt-get install ./$package        # Debian 11 or later, Ubuntu 20.04 or later

NOTES
  awk '/^## / { if (++sections == 2) exit } sections == 1' "$root/CHANGELOG.md"
} >"$page/NOTES.md"
ls -l -- "$page"
