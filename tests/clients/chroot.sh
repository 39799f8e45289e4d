#!/usr/bin/env bash
# A Debian 13 in a folder, whose Python has the PyTorch and the pydantic that today's trainers ask for. Root alone can make or enter it.
#
#     chroot.sh FOLDER --make             debootstrap and packages: 2.5 GB, a few minutes; a folder that has them is left as it is
#     chroot.sh FOLDER WORK COMMAND...    runs a command there without a network: WORK is /work, this folder is /clients
set -euo pipefail
suite=trixie
mirror=http://deb.debian.org/debian
packages=(python3-torch python3-numpy python3-yaml python3-pydantic python3-regex python3-safetensors python3-psutil python3-packaging
  python3-filelock python3-fsspec python3-tqdm python3-requests python3-httpx python3-typer python3-rich python3-jinja2 python3-pil
  python3-torchvision python3-omegaconf python3-fire python3-einops python3-docstring-parser python3-hjson python3-cpuinfo
  python3-msgpack python3-dotenv python3-sentencepiece)

fail() { printf 'chroot.sh: %s\n' "$1" >&2; exit "${2:-3}"; }

in_namespace() {  # what it mounts is gone when its command ends
  unshare --mount --net bash -euc '
    root=$1 work=$2 clients=$3
    shift 3
    mkdir -p "$root/work" "$root/clients"
    ip link set lo up 2>/dev/null || true
    for name in dev proc sys; do mount --rbind "/$name" "$root/$name"; done
    mount --bind "$work" "$root/work"
    mount --bind "$clients" "$root/clients"
    exec chroot "$root" env -i HOME=/root PATH=/usr/bin:/bin LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 HF_HUB_OFFLINE=1 "$@"
  ' in_namespace "$@"
}

make() {
  if [[ ${GPUPLAN_NO_INSTALL:-} == 1 ]]; then fail "there is no Debian 13 in $1, and nothing is to be installed (--no-install)" 77; fi
  if ! command -v debootstrap >/dev/null; then fail "debootstrap is missing: apt-get install debootstrap"; fi
  mkdir -p "$1"
  if [[ ! -e $1/etc/apt ]]; then
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$1" "$mirror"
    cp /etc/apt/apt.conf.d/99* "$1/etc/apt/apt.conf.d/" 2>/dev/null || true  # how this machine reaches its mirror
  fi
  cp -L /etc/resolv.conf "$1/etc/resolv.conf"
  chroot "$1" apt-get update
  chroot "$1" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}"
  rm -rf -- "$1"/var/cache/apt/archives/*.deb
}

if (($# < 2)); then sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; fi
if ((EUID != 0)); then fail "only root can enter a Debian of its own" 77; fi
folder=$1
shift
if [[ $1 == --make ]]; then
  if chroot "$folder" python3 -c 'import torch, torchvision, pydantic, omegaconf' 2>/dev/null; then exit 0; fi
  make "$folder"
else
  work=$1
  shift
  in_namespace "$folder" "$(readlink -f -- "$work")" "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" "$@"
fi
