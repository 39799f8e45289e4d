#!/usr/bin/env bash
# Builds the WebAssembly module of the commands that only compute: build/web/engine/ gets module.bin, gpuplan.js and the data.
# Needs Debian 12's emscripten; fetches the sources of three libraries, which have the checksums below, into build/web/sources.
set -euo pipefail
root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
source "$root/scripts/setup.sh"

usage() {
  cat <<'EOF'
Usage: scripts/web.sh

Builds the planner as a WebAssembly module in build/web/engine (on two cores in a quarter of an hour).

GPUPLAN_MIRROR names another mirror of Debian.
EOF
}

case ${1:-} in
  '') ;;
  -h | --help) usage; exit 0 ;;
  *) say "unknown option '$1'"; usage >&2; exit 2 ;;
esac

tree=$root/build/web
engine=$tree/engine

# folder   checksum                                                         file of a Debian mirror
files='
yaml-cpp  dc63708605404e0b963e0ca3a9619d1c8270eda2839603e6fa0384e5e51e5312 pool/main/y/yaml-cpp/yaml-cpp_0.7.0+dfsg.orig.tar.xz
pugixml   5c5ad5d7caeb791420408042a7d88c2c6180781bf218feca259fd9d840a888e1 pool/main/p/pugixml/pugixml_1.13.orig.tar.gz
zlib      71feb7947e3c00ef125f83b79a4e529bde31171e5babe48b391f06758d1ab0a1 pool/main/z/zlib/zlib_1.2.13.dfsg.orig.tar.bz2
'

fetch_sources() {
  local folder sum path file
  while read -r folder sum path; do
    if [[ -z $folder || -e $tree/sources/$folder/complete ]]; then continue; fi
    file=$tree/sources/${path##*/}
    mkdir -p -- "$tree/sources/$folder"
    /usr/lib/apt/apt-helper -o APT::Sandbox::User= download-file "${GPUPLAN_MIRROR:-http://deb.debian.org/debian}/$path" "$file" "SHA256:$sum"
    tar -C "$tree/sources/$folder" --strip-components=1 -xf "$file"
    touch "$tree/sources/$folder/complete"
  done <<<"$files"
}

# The system's own headers would hide Emscripten's: only those of the libraries are linked.
link_headers() {
  local name found
  mkdir -p -- "$tree/sources/include"
  for name in fmt nlohmann toml++ CLI boost; do
    for found in /usr/local/include/$name /usr/include/$name; do
      if [[ -d $found ]]; then ln -sfn -- "$found" "$tree/sources/include/$name"; fi
    done
    if [[ ! -e $tree/sources/include/$name ]]; then fail "the headers of $name are missing; ./gpuplan --version installs them"; fi
  done
}

configure_module() {
  local toolchain=/usr/share/emscripten/cmake/Modules/Platform/Emscripten.cmake
  if [[ ! -e $toolchain ]]; then fail "Emscripten is missing: apt-get install --no-install-recommends emscripten"; fi
  cmake -S "$root" -B "$tree/module" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$toolchain" -DCMAKE_BUILD_TYPE=Release -DGPUPLAN_UNITY=ON \
    -DGPUPLAN_WEB="$tree/sources"
}

# The archive is made by a program of this machine: it is the one that the native program carries. Beside it go the files of data/ that are
# no tables: the scripts that exports hold, profiles, whose checksum plans name, and the published measurements, which `validate` alone reads.
pack_data() {
  configure release
  build release data_archive.o
  cp -- "$root/build/release/data_archive" "$engine/data.bin"
  cp -- "$root"/web/engine/{engine,streams}.js "$engine/"
  node "$root/web/engine/pack_files.mjs" "$root/data" ecosystem/scripts/.py profiles/.yaml >"$engine/files.json"
  node "$root/web/engine/pack_files.mjs" "$root/data" validation/.jsonl >"$engine/points.json"
}

build_module() {
  fetch_sources
  link_headers
  configure_module
  cmake --build "$tree/module" --parallel "$(num_jobs)" --target gpuplan_web
}

# Terms of what the module holds of others; they go where it goes. Emscripten's own part and libc++ are under the MIT licence and Apache 2.0
# with LLVM's exceptions; Boost asks for no notice in compiled code.
list_licences() {
  local file
  for file in "$tree"/sources/{yaml-cpp/LICENSE,pugixml/LICENSE.md,zlib/README} /usr/share/emscripten/system/lib/libc/musl/COPYRIGHT \
      /usr/share/doc/{libfmt-dev,nlohmann-json3-dev,libtomlplusplus-dev,libcli11-dev}/copyright; do
    printf '=== %s\n\n' "${file#"$tree/"}"
    cat -- "$file"
    printf '\n'
  done
}

if ! command -v node >/dev/null; then fail "Node.js is missing: apt-get install --no-install-recommends nodejs"; fi
export NODE_PATH=/usr/share/nodejs:/usr/lib/nodejs
say "building the WebAssembly module in build/web"
mkdir -p -- "$engine"
locked web build_module >&2
locked release pack_data >&2
cp -- "$tree/module/gpuplan.js" "$root/web/package.json" "$engine/"
node "$root/web/engine/sort_code.mjs" "$tree/module/gpuplan.wasm" "$engine/module.bin"
list_licences >"$engine/LICENCES.txt"
ls -l "$engine" | awk 'NR > 1 { printf "%9d %s\n", $5, $9 }'
