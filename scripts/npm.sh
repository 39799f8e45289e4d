#!/usr/bin/env bash
# Packs the npm package: build/web/gpuplan-VERSION.tgz, from the module of scripts/web.sh. Needs npm, and no network.
set -euo pipefail
root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
source "$root/scripts/setup.sh"

case ${1:-} in
  '') ;;
  -h | --help) printf 'Usage: scripts/npm.sh\n\nPacks build/web/gpuplan-VERSION.tgz. scripts/web.sh is run first where it was not.\n'; exit 0 ;;
  *) say "unknown option '$1'"; exit 2 ;;
esac
if ! command -v npm >/dev/null; then fail "npm is missing: apt-get install --no-install-recommends npm"; fi
engine=$root/build/web/engine folder=$root/build/web/npm
if [[ ! -e $engine/module.bin ]]; then "$root/scripts/web.sh" >&2; fi
rm -rf -- "$folder"
mkdir -p -- "$folder"
cp -- "$root"/web/npm/* "$root/LICENSE" "$root/NOTICE" "$folder/"
mkdir -p -- "$folder/engine"
cp -- "$engine/gpuplan.js" "$engine/engine.js" "$engine/streams.js" "$engine/LICENCES.txt" "$folder/engine/"
for name in module.bin data.bin files.json points.json; do node "$root/web/npm/compress.mjs" "$engine/$name" "$folder/engine/$name.br"; done
rm -- "$folder/compress.mjs"
version=$(sed -n 's/^project(gpuplan VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
sed -i "s/\"version\": \"[^\"]*\"/\"version\": \"$version\"/" "$folder/package.json"
(cd -- "$folder" && npm pack --offline --silent --pack-destination "$root/build/web")
