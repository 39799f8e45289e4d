#!/usr/bin/env bash
# Makes the static site: build/web/site, which any host of files can serve. The page, the module of scripts/web.sh, the documentation.
set -euo pipefail
root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
source "$root/scripts/setup.sh"

case ${1:-} in
  '') ;;
  -h | --help)
    printf 'Usage: scripts/site.sh\n\nMakes build/web/site. scripts/web.sh is run first where it was not; docs/ become pages where pandoc is installed.\n'
    exit 0 ;;
  *) say "unknown option '$1'"; exit 2 ;;
esac
engine=$root/build/web/engine site=$root/build/web/site
if [[ ! -e $engine/module.bin ]]; then "$root/scripts/web.sh" >&2; fi
rm -rf -- "$site"
mkdir -p -- "$site"
cp -- "$root"/web/page/* "$site/"
cp -r -- "$engine" "$site/engine"
if command -v pandoc >/dev/null; then
  mkdir -p -- "$site/docs"
  for page in "$root"/docs/*.md; do
    name=$(basename -- "$page" .md)
    sed -E 's/\]\(([a-z_]+)\.md/](\1.html/g' "$page" |
      pandoc --from gfm --to html --standalone --metadata "pagetitle=gpuplan: $name" --css ../style.css --output "$site/docs/$name.html"
  done
else
  say "without pandoc there are no pages of docs/ in the site"
fi
if command -v brotli >/dev/null; then find "$site" -type f -size +1k -exec brotli -kf {} +; fi
du -sh "$site" | cut -f 1
