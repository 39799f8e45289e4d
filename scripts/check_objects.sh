#!/usr/bin/env bash
# Checks programs and shared objects before they are shipped: no RUNPATH entry that is empty or relative (the loader would look in
# the current folder), RELRO with immediate binding, no executable stack, position independence, stack protector, fortified calls (programs),
# functions that begin with endbr64 (control-flow protection) on x86_64, and the assertions of the C++ library; with
# --glibc VERSION also that no newer symbol of glibc is asked for. Usage: check_objects.sh [--glibc VERSION] FILE|FOLDER…
set -euo pipefail
export LC_ALL=C
glibc=''
if [[ ${1:-} == --glibc ]]; then
  glibc=$2
  shift 2
fi
num_bad=0 num_objects=0
complain() {
  echo "$1: $2"
  num_bad=$((num_bad + 1))
}

# What other people built (oneDNN, libgomp) is checked for its paths and its glibc alone.
is_ours() { [[ ${1##*/} == *gpuplan* ]]; }

count() {  # count <bytes> <file>
  { grep -obaF -- "$1" "$2" || true; } | wc -l
}

check() {  # check <object>
  local file=$1 dynamic headers symbols paths path newest
  num_objects=$((num_objects + 1))
  dynamic=$(readelf -dW -- "$file")
  headers=$(readelf -hlW -- "$file")
  symbols=$(readelf --dyn-syms -W -- "$file")
  if grep -q '(RPATH)' <<<"$dynamic"; then complain "$file" "has RPATH, which LD_LIBRARY_PATH cannot override"; fi
  paths=$(sed -n 's/.*(R\(UN\)\?PATH).*\[\(.*\)\]$/\2/p' <<<"$dynamic")
  if [[ -n $paths ]]; then
    while IFS= read -r -d : path; do
      if [[ $path != /* && $path != '$ORIGIN' && $path != '$ORIGIN/'* ]]; then
        complain "$file" "RUNPATH '$paths' has the entry '$path'"
      fi
    done <<<"$paths:"
  fi
  newest=$(grep -oE '@GLIBC_[0-9.]+' <<<"$symbols" | sed 's/.*_//' | sort -Vu | tail -n 1 || true)
  if [[ -n $glibc && -n $newest && $(printf '%s\n' "$glibc" "$newest" | sort -V | tail -n 1) != "$glibc" ]]; then
    complain "$file" "asks for $(grep -oE "[a-zA-Z0-9_]+@GLIBC_$newest" <<<"$symbols" | sort -u | tr '\n' ' ')"
  fi
  if ! is_ours "$file"; then return; fi
  if ! grep -q GNU_RELRO <<<"$headers"; then complain "$file" "has no RELRO"; fi
  if ! grep -qE 'BIND_NOW|Flags:.*NOW' <<<"$dynamic"; then complain "$file" "does not bind at once"; fi
  if ! grep -qE 'GNU_STACK.* RW ' <<<"$headers"; then complain "$file" "has an executable stack"; fi
  if ! grep -qE 'Type: +DYN' <<<"$headers"; then complain "$file" "is not position-independent"; fi
  if ! grep -q __stack_chk_fail <<<"$symbols"; then complain "$file" "has no stack protector"; fi
  # Start files of Debian carry no note, so that the linker drops that of the whole: the instruction itself is looked for.
  if [[ $headers == *X86-64* ]] && (($(count $'\xf3\x0f\x1e\xfa' "$file") < 10)); then complain "$file" "has no control-flow protection"; fi
  # A library may have no call that _FORTIFY_SOURCE changes; the program has.
  if [[ $headers == *INTERP* ]] && ! grep -qE ' __[a-z]+_chk(@|$)' <<<"${symbols//__stack_chk/}"; then complain "$file" "was not compiled with _FORTIFY_SOURCE"; fi
  if [[ $symbols != *__glibcxx_assert_fail* ]] && (($(count '__n < this->size()' "$file") == 0)); then
    complain "$file" "has no assertions of the C++ library"
  fi
}

while IFS= read -r -d '' file; do
  if [[ $(head -c 4 -- "$file" | od -An -tx1) == ' 7f 45 4c 46' ]]; then check "$file"; fi
done < <(find "$@" -type f \( -perm -u+x -o -name '*.so*' \) -print0)
if ((num_objects == 0)); then
  echo "no program or shared object in: $*"
  exit 1
fi
echo "$num_objects objects, $num_bad complaints"
((num_bad == 0))
