#!/usr/bin/env bash
# Makes packages that need no installed libraries: build/gpuplan-VERSION-linux-x86_64.tar.gz, which runs from any folder on any x86_64 Linux
# with glibc 2.31 or later, a .deb of the same files, and their SHA256SUMS. Needs Debian 12 with the packages of ./gpuplan.
# What it fetches has the checksums below, and is unpacked in build/debian11; nothing is installed.
set -euo pipefail
root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
source "$root/scripts/setup.sh"

usage() {
  cat <<'EOF'
Usage: scripts/bundle.sh [--sm LIST] [--test]

Makes gpuplan-VERSION-linux-x86_64.tar.gz, gpuplan_VERSION_amd64.deb and SHA256SUMS in build/.

  --sm LIST   CUDA code for these GPUs alone, such as 90 or "80 90"; the names of the files then say so
  --test      also run scripts/bundle_test.sh and scripts/deb_test.sh on them

GPUPLAN_MIRROR names another mirror of Debian.
EOF
}

test=no architectures=''
while (($# > 0)); do
  case $1 in
    --sm)
      architectures=${2:-}
      if [[ ! $architectures =~ ^[0-9]+a?(\ [0-9]+a?)*$ ]]; then say "--sm takes numbers such as 90 or \"80 90\", not '$architectures'"; exit 2; fi
      shift ;;
    --test) test=yes ;;
    -h | --help) usage; exit 0 ;;
    *) say "unknown option '$1'"; usage >&2; exit 2 ;;
  esac
  shift
done

glibc=2.31
most_bytes=25000000
older=$root/build/debian11
libraries=$older/usr/lib/x86_64-linux-gnu

# folder   checksum                                                         file of a Debian mirror
files='
.         05f7264da867b37f4c5ce49266b558ea1e81e05a9464f623152fca70f3550282 pool/main/g/glibc/libc6_2.31-13+deb11u11_amd64.deb
.         e7f7b45d9c5cfcf37609f0b6efd3c645272c812144703af89dfd32218fcb0fd3 pool/main/g/glibc/libc6-dev_2.31-13+deb11u11_amd64.deb
.         3b711374092b84e732c4e73cf33e02cff02e34a5f105eb6467de8d9038e4cd9d pool/main/g/gcc-10/libgcc-10-dev_10.2.1-6_amd64.deb
onednn    a48e14777a14fbb922b5614f9d5e6d6e817ff692631b573c8b96e1f6d257ed5e pool/main/o/onednn/libdnnl2_2.0+ds-2+b1_amd64.deb
onednn    c5f9d74f4506f8b77fed1eff5d87a2a281b67d5f84283cdcc72c424e1562ba2a pool/main/o/onednn/libdnnl-dev_2.0+ds-2+b1_amd64.deb
onednn    4530c95aefa48e33fd8cf4acbe5c4b559dbe7bdf4c56469986c83a203982cef1 pool/main/g/gcc-10/libgomp1_10.2.1-6_amd64.deb
onednn    fb5624009f0f8015eef1d28c4f88046abc72f093a4a508894f5c043b3e16bcef pool/main/o/ocl-icd/ocl-icd-libopencl1_2.2.14-2_amd64.deb
root      05f7264da867b37f4c5ce49266b558ea1e81e05a9464f623152fca70f3550282 pool/main/g/glibc/libc6_2.31-13+deb11u11_amd64.deb
root      e478f2709d8474165bb664de42e16950c391f30eaa55bc9b3573281d83a29daf pool/main/g/gcc-10/libgcc-s1_10.2.1-6_amd64.deb
root      5c155c58935870bf3b4bfe769116841c0d286a74f59eccfd5645693ac23f06b1 pool/main/g/gcc-10/libstdc++6_10.2.1-6_amd64.deb
source    56430381f45dc6debfd2e0cbde4f039f9499c49ca825af184b0cbf318c17a18f pool/main/s/sentencepiece/sentencepiece_0.1.97.orig.tar.gz
'

# Runs a command with its output in a log, and ends with <message> where it fails.
quietly() {  # quietly <log> <message> <command>…
  local log=$1 message=$2 status=0
  shift 2
  set +e  # inside a condition `set -e` would have no effect in the command either
  (set -e; "$@") </dev/null >"$log" 2>&1
  status=$?
  set -e
  if ((status != 0)); then
    show_failure "$log" >&2
    fail "$message; the whole log is $log"
  fi
}

# archive.debian.org keeps the releases that the mirrors have dropped.
fetch() {  # fetch <path> <checksum> <file>
  local mirror
  for mirror in "${GPUPLAN_MIRROR:-http://deb.debian.org/debian}" http://archive.debian.org/debian; do
    if /usr/lib/apt/apt-helper -o APT::Sandbox::User= download-file "$mirror/$1" "$3" "SHA256:$2"; then return 0; fi
  done
  return 1
}

build_sentencepiece() {
  local tree=$older/source/build
  cmake -S "$older"/source/sentencepiece-* -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DSPM_ENABLE_SHARED=OFF -DSPM_ENABLE_TCMALLOC=OFF
  cmake --build "$tree" --parallel "$(num_jobs)" --target sentencepiece-static
  mkdir -p -- "$older/sentencepiece/include" "$older/sentencepiece/lib"
  cp -- "$older"/source/sentencepiece-*/src/sentencepiece_processor.h "$older/sentencepiece/include/"
  cp -- "$tree/src/libsentencepiece.a" "$older/sentencepiece/lib/"
}

# The folder that cmake/Portable.cmake links with, and in root/ a system that has a C and a C++ library alone, for the test.
fill_older() {
  rm -rf -- "$older"
  local folder sum path file link
  while read -r folder sum path; do
    if [[ -z $folder ]]; then continue; fi
    file=$older/packages/${path##*/}
    mkdir -p -- "$older/packages" "$older/$folder"
    [[ -e $file ]] || fetch "$path" "$sum" "$file"
    if [[ $file == *.deb ]]; then dpkg-deb -x "$file" "$older/$folder"; else tar -C "$older/$folder" -xzf "$file"; fi
  done <<<"$files"
  # Links of Debian 11's packages to /lib would lead to this system's libraries.
  find "$older/lib64" "$older/usr" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
    ln -sfn -- "$older$(readlink -- "$link")" "$link"
  done
  # GCC 12's own asks for a function of glibc 2.35.
  cp -- "$older/usr/lib/gcc/x86_64-linux-gnu/10/libgcc_eh.a" "$libraries/"
  build_sentencepiece
  printf '%s' "$files" >"$older/complete"
}

bring_older() {
  if [[ -e $older/complete && $(<"$older/complete") == "${files%$'\n'}" ]]; then return 0; fi
  say "fetching the libraries of Debian 11, building SentencePiece"
  quietly "$older.log" "there is nothing to link with" fill_older
}

# --- what is inside ------------------------------------------------------------------------------------------------

linked=(libfmt-dev libyaml-cpp-dev libtomlplusplus-dev libpugixml-dev zlib1g-dev nlohmann-json3-dev libcli11-dev libboost1.74-dev libeigen3-dev libstdc++-12-dev)

list_inside() {  # a line per library: name, version, where it comes from
  local package
  for package in "${linked[@]}"; do dpkg-query -W -f '${Package} ${Version} Debian 12\n' "$package"; done
  for package in "$older"/packages/{libdnnl2,libgomp1,ocl-icd-libopencl1,libgcc-10-dev,libc6-dev}_*.deb; do
    # shellcheck disable=SC2016  # dpkg-deb's variables
    dpkg-deb -W --showformat '${Package} ${Version} Debian 11\n' "$package"
  done
  package=$(basename -- "$older"/source/sentencepiece-*)
  printf 'sentencepiece %s source in Debian 12\n' "${package##*-}"
  sed -n 's/^set(CMAKE_CUDA_COMPILER_VERSION "\(.*\)").*/libcudart_static \1 CUDA toolkit/p' "$tree"/CMakeFiles/*/CMakeCUDACompiler.cmake
}

print_sbom() {  # print_sbom <version> <time>: SPDX 2.3
  list_inside | awk -v version="$1" -v time="$2" -v created="$(date -u -d "@$2" +%FT%TZ)" '
    function package(name, version, origin) {
      return sprintf("  {\"SPDXID\": \"SPDXRef-%s\", \"name\": \"%s\", \"versionInfo\": \"%s\", \"comment\": \"%s\", " \
                     "\"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false}", id(name), name, version, origin)
    }
    function id(name) { gsub(/[^a-zA-Z0-9.-]/, "-", name); return name }
    function relation(from, type, to) {
      return sprintf("  {\"spdxElementId\": \"SPDXRef-%s\", \"relationshipType\": \"%s\", \"relatedSpdxElement\": \"SPDXRef-%s\"}", from, type, to)
    }
    BEGIN { packages = package("gpuplan", version, "this program"); relations = relation("DOCUMENT", "DESCRIBES", "gpuplan") }
    {
      origin = $0; sub(/^[^ ]+ [^ ]+ /, "", origin)
      packages = packages ",\n" package($1, $2, origin)
      relations = relations ",\n" relation("gpuplan", "CONTAINS", id($1))
    }
    END {
      printf "{\"spdxVersion\": \"SPDX-2.3\", \"dataLicense\": \"CC0-1.0\", \"SPDXID\": \"SPDXRef-DOCUMENT\", \"name\": \"gpuplan-%s\",\n", version
      printf " \"documentNamespace\": \"https://gpuplan.example/spdx/gpuplan-%s-%s\",\n", version, time
      printf " \"creationInfo\": {\"created\": \"%s\", \"creators\": [\"Tool: scripts/bundle.sh\"]},\n", created
      printf " \"packages\": [\n%s\n ],\n \"relationships\": [\n%s\n ]}\n", packages, relations
    }'
}

copy_licences() {  # copy_licences <folder>
  local name
  mkdir -p -- "$1"
  for name in "${linked[@]}"; do cp -L -- "/usr/share/doc/$name/copyright" "$1/$name"; done
  for name in libdnnl2 ocl-icd-libopencl1; do cp -L -- "$older/onednn/usr/share/doc/$name/copyright" "$1/$name"; done
  cp -L -- "$older/usr/share/doc/libc6/copyright" "$1/libc6"  # libgcc's and libgomp's is that of libstdc++-12-dev
  cp -- "$older"/source/sentencepiece-*/LICENSE "$1/sentencepiece"
}

# --- the packages --------------------------------------------------------------------------------------------------

make_archive() {  # make_archive <installed folder> <time> <archive>
  tar -C "$(dirname -- "$1")" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$2" -c "$(basename -- "$1")" | gzip -9n >"$3"
  local bytes
  bytes=$(stat -c %s "$3")
  if ((bytes > most_bytes)); then fail "$3 has $bytes bytes, more than $most_bytes"; fi
}

configure_and_build() {
  mkdir -p -- "$tree/notices"
  # The cache would keep the architectures of another call.
  local choice=-UCMAKE_CUDA_ARCHITECTURES
  if [[ -n $architectures ]]; then choice=-DCMAKE_CUDA_ARCHITECTURES=$(sed 's/\([0-9a]\+\)/\1-real/g; s/ /;/g' <<<"$architectures"); fi
  configure bundle "$choice"
  build bundle gpuplan device_libraries
}

install_and_pack() {  # install_and_pack <version> <time>
  local stage=$tree/stage/gpuplan-$1
  rm -rf -- "$tree/stage" "$tree/notices"
  copy_licences "$tree/notices/licences"
  print_sbom "$1" "$2" >"$tree/notices/gpuplan.spdx.json"
  cmake --install "$tree" --strip --prefix "$stage"
  "$root/scripts/check_objects.sh" --glibc "$glibc" "$stage"
  make_archive "$stage" "$2" "$archive"
  (cd -- "$tree" && SOURCE_DATE_EPOCH=$2 cpack -G DEB -B "$tree/cpack")
  cp -- "$tree/cpack/gpuplan_${1}_amd64.deb" "$package"
  (cd -- "$root/build" && sha256sum "${archive##*/}" "${package##*/}" >"SHA256SUMS$some")
}

main() {
  bring_packages 'build cpu'
  bring_older
  say "building"
  quietly "$tree.log" "the build failed" configure_and_build
  local version some archive package
  version=$(sed -n 's/^CMAKE_PROJECT_VERSION:[A-Z]*=//p' "$tree/CMakeCache.txt")
  some=${architectures:+-sm${architectures// /-}}
  archive=$root/build/gpuplan-$version-linux-x86_64$some.tar.gz
  package=$root/build/gpuplan_${version}_amd64$some.deb
  quietly "$tree.log" "packing failed" install_and_pack "$version" "${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}"
  ls -l -- "$archive" "$package"
  if [[ $test == yes ]]; then
    "$root/scripts/bundle_test.sh" "$archive"
    "$root/scripts/deb_test.sh" "$package"
  fi
}

tree=$(build_dir bundle)
mkdir -p -- "$root/build"
locked bundle main
