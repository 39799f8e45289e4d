#!/usr/bin/env bash
# The .deb of scripts/bundle.sh: installed by dpkg in an empty folder, asked, removed, and nothing is left. It needs no root.
# Usage: scripts/deb_test.sh PACKAGE
set -euo pipefail
# shellcheck source=scripts/answers.sh
source "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/answers.sh"
if (($# != 1)); then
  echo "usage: scripts/deb_test.sh PACKAGE" >&2
  exit 2
fi
package=$(readlink -f -- "$1")
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
cd -- "$folder"
mkdir -p system/var/lib/dpkg/info system/var/lib/dpkg/updates home
touch system/var/lib/dpkg/status system/var/lib/dpkg/available
# The folder has no packages to depend on, and no programs for maintainer scripts, of which there are none.
into_folder=(dpkg --root="$folder/system" --log="$folder/dpkg.log" --force-not-root --force-depends --force-bad-path)
"${into_folder[@]}" --install "$package" >install.log 2>&1 || { cat install.log >&2; exit 1; }
(cd home && check_answers env -i HOME="$folder/home" PATH=/usr/bin:/bin "$folder/system/usr/bin/gpuplan")
"${into_folder[@]}" --purge gpuplan >remove.log 2>&1 || { cat remove.log >&2; exit 1; }
left=$(find system -path system/var -prune -o ! -type d -print)
if [[ -n $left ]]; then
  echo "left behind: $left" >&2
  exit 1
fi
echo "ok: installed, asked and removed"
