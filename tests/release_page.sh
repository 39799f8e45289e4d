#!/usr/bin/env bash
# scripts/release.sh, with a stand-in for scripts/bundle.sh: what the page of a release holds, and what is refused. Usage: release_page.sh SOURCES
set -euo pipefail
sources=$1
command -v git >/dev/null || { echo "skipped: no git"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
failures=0
complain() { echo "FAILED: $*"; failures=$((failures + 1)); }

clone="$folder/a clone"
mkdir -p -- "$clone/scripts"
cp -- "$sources"/scripts/{release,setup}.sh "$clone/scripts/"
cp -- "$sources"/{CMakeLists.txt,CHANGELOG.md} "$clone/"
echo /build/ >"$clone/.gitignore"
cat >"$clone/scripts/bundle.sh" <<'BUNDLE'
#!/usr/bin/env bash
set -eu
cd -- "$(dirname -- "$0")/.."
mkdir -p build
version=$(sed -n 's/^project(gpuplan VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
echo "bundled $*" >build/calls
echo archive >"build/gpuplan-$version-linux-x86_64.tar.gz"
echo package >"build/gpuplan_${version}_amd64.deb"
(cd build && sha256sum gpuplan-*.tar.gz gpuplan_*.deb >SHA256SUMS)
BUNDLE
chmod +x "$clone/scripts/bundle.sh"
as_somebody=(env GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org GIT_CONFIG_GLOBAL=/dev/null)
(cd -- "$clone" && git init -q . && git add -A && "${as_somebody[@]}" git commit -qm release)
version=$(sed -n 's/^project(gpuplan VERSION \([0-9.]*\).*/\1/p' "$sources/CMakeLists.txt")

"$clone/scripts/release.sh" >"$folder/out" 2>&1 || { cat "$folder/out"; complain "it failed"; }
page="$clone/build/page"
wanted="NOTES.md SHA256SUMS gpuplan-$version-linux-x86_64.tar.gz gpuplan_${version}_amd64.deb"
found=$(cd -- "$page" && LC_ALL=C ls | paste -sd ' ' -)
if [[ $found != "$wanted" ]]; then complain "the page holds $found"; fi
(cd -- "$page" && sha256sum --quiet -c SHA256SUMS) || complain "SHA256SUMS"
if [[ $(<"$clone/build/calls") != 'bundled --test' ]]; then complain "bundle.sh was called as: $(<"$clone/build/calls")"; fi
notes=$(<"$page/NOTES.md")
for part in "# gpuplan $version" "$(git -C "$clone" rev-parse HEAD)" "gpuplan-$version-linux-x86_64.tar.gz" "$(sed -n "0,/^## /s/^## /## /p" "$sources/CHANGELOG.md" | tail -n 1)"; do
  if [[ $notes != *"$part"* ]]; then complain "NOTES.md lacks '$part'"; fi
done
if (($(grep -c '^## ' "$page/NOTES.md") != 1)); then complain "NOTES.md has more than the newest section of the changelog"; fi

code=0
rm -f -- "$clone/build/calls"
echo changed >>"$clone/CHANGELOG.md"
"$clone/scripts/release.sh" >"$folder/out" 2>&1 || code=$?
if [[ $code != 2 || $(<"$folder/out") != *CHANGELOG.md* || -e $clone/build/calls ]]; then complain "a changed tree: exit code $code, $(<"$folder/out")"; fi
exit $((failures > 0))
