#!/usr/bin/env bash
# The parts of ./check --web: web.sh module|page|serve|npm. Expects the release build; scripts/web.sh makes the module where it is
# missing. Exit code 77: skipped.
set -euo pipefail
root=$(dirname -- "$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")")
source "$root/scripts/setup.sh"
cd -- "$root"
tools=$root/build/web/tools engine=$root/build/web/engine native=$root/build/release/gpuplan_answers

for program in node npm; do
  if ! command -v "$program" >/dev/null; then echo "skipped: no $program"; exit 77; fi
done
if [[ ! -e $engine/module.bin ]]; then scripts/web.sh; fi
build release gpuplan_answers >/dev/null

bring_tools() {  # the versions of package-lock.json; nothing of them is shipped
  mkdir -p -- "$tools"
  if cmp -s tests/web/package-lock.json "$tools/package-lock.json" && [[ -d $tools/node_modules/typescript ]]; then return 0; fi
  cp -- tests/web/package.json tests/web/package-lock.json "$tools/"
  (cd -- "$tools" && npm ci --no-audit --no-fund --ignore-scripts)
}

need_browser() {
  if ! command -v chromium chromium-browser google-chrome >/dev/null; then echo "skipped: no Chromium"; exit 77; fi
}

case ${1:-} in
  module)
    node tests/web/compare.mjs "$native" "$engine" "$root" ;;
  page)
    need_browser
    bring_tools
    "$tools/node_modules/.bin/tsc" -p tests/web/tsconfig.json
    scripts/site.sh
    node tests/web/browser.mjs "$tools" "$root/build/web/site" "$root/build/web/pictures" "$native" ;;
  serve)
    need_browser
    bring_tools
    coproc served { exec build/release/gpuplan serve; }
    trap 'kill "$served_PID" 2>/dev/null || :' EXIT
    read -r address <&"${served[0]}"
    node tests/web/browser.mjs "$tools" "$address" "$root/build/web/pictures/serve" "$native" ;;
  npm)
    bring_tools
    package=$(scripts/npm.sh | tail -n 1)
    node tests/web/npm.mjs "$root/build/web/$package" "$tools" "$native" ;;
  *) say "module, page, serve or npm"; exit 2 ;;
esac
