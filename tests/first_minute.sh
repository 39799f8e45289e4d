#!/usr/bin/env bash
# ./gpuplan as people first meet it: help that builds nothing, packages that cannot be had, an apt that another program holds. In a copy of the
# scripts, with a PATH that holds the tools of a bare system and stand-ins for apt-get, sudo, sleep and cmake. Usage: first_minute.sh SOURCES
set -euo pipefail
sources=$1
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
failures=0
complain() { echo "FAILED: $*"; failures=$((failures + 1)); }

clone="$folder/a clone"
mkdir -p -- "$clone/scripts" "$clone/docs" "$folder/bare"
cp -- "$sources"/{gpuplan,check,CMakeLists.txt,CMakePresets.json} "$clone/"
cp -- "$sources/scripts/setup.sh" "$clone/scripts/"
cp -r -- "$sources/docs/help" "$sources/docs/gpuplan.1" "$clone/docs/"
# The tools of a bare system; in bin/ what is played. No compiler, no cmake, no mpirun.
for tool in bash env cat chmod sed grep awk sort paste cut dirname readlink mktemp mkdir rm mv find head tail flock id uname tr wc nproc sha256sum; do
  ln -s -- "$(command -v "$tool")" "$folder/bare/$tool"
done

play() {  # play <name>: standard input is a script; every call of it is a line in $folder/calls
  { printf '#!%s\nset -u\nfolder=%q\nprintf "%%s\\n" "%s $*" >>"$folder/calls"\n' "$(command -v bash)" "$folder" "$1"; cat; } >"$folder/bin/$1"
  chmod +x -- "$folder/bin/$1"
}

fresh() {  # a machine on which nothing was tried yet
  rm -rf -- "${folder:?}/bin" "$clone/build"
  mkdir -- "$folder/bin"
  : >"$folder/calls"
  : >"$folder/held"
  play sleep </dev/null
  play sudo <<<'[[ $1 == -n ]] && shift; exec "$@"'
  play ldconfig </dev/null
  play true </dev/null
  # Held by another program as often as $folder/held has lines. What it installs is there afterwards.
  play apt-get <<'APT'
if [[ -s $folder/held ]]; then
  sed -i 1d "$folder/held"
  echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 42 (unattended-upgr)" >&2
  exit 100
fi
if [[ $* == *install* ]]; then
  for tool in c++ cmake ninja mpirun mpicxx; do
    printf '#!%s\necho "%s $*" >>%q\nexit 1\n' "$BASH" "$tool" "$folder/calls" >"$folder/bin/$tool"
    chmod +x "$folder/bin/$tool"
  done
fi
APT
}

# Headers of this machine count as there; the compiler, cmake, ninja and Open MPI do not.
run_it() {  # run_it <argument>…: sets $code, $out, $err
  code=0
  (cd / && PATH="$folder/bin:$folder/bare" CMAKE_PREFIX_PATH='' CXX='' TERM=dumb "$clone/gpuplan" "$@") >"$folder/out" 2>"$folder/err" </dev/null || code=$?
  out=$(<"$folder/out") err=$(<"$folder/err")
}
was_called() { [[ $'\n'$(<"$folder/calls") == *$'\n'"$1 "* ]]; }
expect() {  # expect <code> <part of what it says> <argument>…
  local wanted=$1 part=$2
  shift 2
  run_it "$@"
  if [[ $code != "$wanted" || $out$err != *"$part"* ]]; then complain "gpuplan $*: exit code $code, not $wanted, or not '$part':"; printf '%s\n' "$out" "$err"; fi
}

echo "== help, version, licences and completion build and install nothing"
fresh
for text in "$clone"/docs/help/*.txt; do
  name=${text##*/} name=${name%.txt}
  case $name in
    gpuplan) expect 0 "$(<"$text")" --help; expect 0 "$(<"$text")" --color never --help; expect 0 "$(<"$text")" help; expect 2 "$(<"$text")" ;;
    licences) expect 0 "$(<"$text")" --licences ;;
    gpuplan-h) expect 0 "$(<"$text")" -h ;;
    *-h)
      expect 0 "$(<"$text")" "${name%-h}" -h
      expect 0 "$(<"$text")" "${name%-h}" --model x -h ;;
    *)
      expect 0 "$(<"$text")" "$name" --help
      expect 0 "$(<"$text")" --color=never "$name" --help
      expect 0 "$(<"$text")" help "$name"
      expect 0 "$(<"$text")" "$name" --model x --help ;;
  esac
done
for shell in bash zsh fish; do expect 0 "$(<"$clone/docs/help/completion.$shell")" completion "$shell"; done
expect 0 "$(<"$clone/docs/gpuplan.1")" completion man
expect 0 "gpuplan $(sed -n 's/^project(gpuplan VERSION \([0-9.]*\).*/\1/p' "$sources/CMakeLists.txt")" --version
expect 2 "bash, zsh, fish, json or man" completion tcsh
expect 2 "unknown command 'estimat'" estimat --model x
expect 2 "unknown command 'nosuch'" help nosuch
expect 2 "unknown command 'licences'" licences --help
if [[ -s $folder/calls ]]; then complain "help called $(<"$folder/calls")"; fi
if [[ -e $clone/build ]]; then complain "help made a build folder"; fi

echo "== a need that cannot be had ends the command before anything is compiled"
line='sudo apt-get update && sudo apt-get install --no-install-recommends'
if ((EUID == 0)); then line=${line//sudo /}; fi
for question in 'estimate --model llama3-8b --gpus A6000' 'run --demo' 'run --model m --gpus 2xcpu' 'run plan.json' 'calibrate --device cpu' calibrate; do
  fresh
  # shellcheck disable=SC2086  # words of a question
  expect 3 "$line" --no-install $question
  if was_called apt-get || was_called cmake; then complain "'$question' called $(<"$folder/calls")"; fi
  for package in g++ cmake ninja-build; do
    if [[ $err != *" $package"* ]]; then complain "'$question' does not ask for $package: $err"; fi
  done
  asks=no
  if [[ $err == *libopenmpi-dev*openmpi-bin* ]]; then asks=yes; fi
  if [[ $question == estimate* && $asks == yes || $question != estimate* && $asks == no ]]; then
    complain "'$question': asks for Open MPI: $asks"
  fi
done
fresh
GPUPLAN_NO_INSTALL=1 expect 3 "$line" run --demo
if was_called apt-get || was_called cmake; then complain "with GPUPLAN_NO_INSTALL=1 'run --demo' called $(<"$folder/calls")"; fi
# These runs compute on devices that need no packages for CPUs.
for question in 'run plan.json --engine accelerate' 'run --engine=torchrun --gpus 2xcpu --dry-run'; do
  fresh
  # shellcheck disable=SC2086
  expect 3 "g++" --no-install $question
  if [[ $err == *openmpi* ]]; then complain "'$question' asks for Open MPI: $err"; fi
done
for question in 'run --model m --gpus 4xA6000' 'run --gpus=2x4090 --model m' 'calibrate --device cuda'; do
  if [[ -x /usr/local/cuda/bin/nvcc ]]; then continue; fi
  fresh
  # shellcheck disable=SC2086
  expect 3 "no nvcc" $question
  if [[ -s $folder/calls ]]; then complain "'$question' called $(<"$folder/calls")"; fi
done

echo "== ./check says what is missing, and installs it where it may"
for how in option variable neither; do
  fresh
  code=0
  arguments=()
  if [[ $how == option ]]; then arguments=(--no-install); fi
  (cd / && export PATH="$folder/bin:$folder/bare" CMAKE_PREFIX_PATH='' CXX='' TERM=dumb
    if [[ $how == variable ]]; then export GPUPLAN_NO_INSTALL=1; fi
    "$clone/check" ${arguments[@]+"${arguments[@]}"}) >"$folder/out" 2>&1 </dev/null || code=$?
  out=$(<"$folder/out")
  if [[ $how == neither ]]; then
    if ! was_called apt-get; then complain "./check did not install: exit code $code, $out"; fi
    continue
  fi
  if was_called apt-get || was_called cmake; then complain "./check with the $how called $(<"$folder/calls")"; fi
  if [[ $code != 3 || $out != *" g++"* ]]; then complain "./check with the $how: exit code $code, $out"; fi
done

echo "== a failed installation ends the command before anything is compiled"
fresh
play apt-get <<<'echo "E: Unable to fetch some archives" >&2; exit 100'
expect 3 "$line" run --demo
if was_called cmake; then complain "it went on without packages"; fi

echo "== apt held by another program"
fresh
printf 'held\n%.0s' {1..6} >"$folder/held"
expect 3 "another program holds apt (/var/lib/dpkg/lock-frontend. It is held by process 42 (unattended-upgr)); waiting" run --demo
if ! was_called cmake; then complain "it did not go on when apt was free again: $err"; fi
if (($(grep -c '^sleep ' "$folder/calls") != 6)); then complain "it did not wait six times: $(<"$folder/calls")"; fi
fresh
printf 'held\n%.0s' {1..1000} >"$folder/held"
expect 3 "$line" run --demo
if was_called cmake; then complain "it went on without packages"; fi
if (($(grep -c '^sleep 3' "$folder/calls") != 20)); then complain "it did not wait for a minute: $(<"$folder/calls")"; fi
if [[ $err != *"another program holds apt"* ]]; then complain "it does not say why: $err"; fi

echo "== a person at a terminal is asked, root too"
if command -v script >/dev/null; then
  for answer in n y; do
    fresh
    out=$(PATH="$folder/bin:$folder/bare:$PATH" TERM=xterm CXX=nosuch script -qec "$(printf '%q ' "$clone/gpuplan" estimate --model x)" /dev/null <<<"$answer" || :)
    if [[ $out != *"install them with apt-get? [Y/n]"* ]]; then complain "nobody was asked: $out"; fi
    if [[ $answer == n ]] && was_called apt-get; then complain "it installed against the answer: $(<"$folder/calls")"; fi
    if [[ $answer == y ]] && ! was_called apt-get; then complain "it did not install: $out"; fi
  done
else
  echo "   skipped: no script(1)"
fi

echo "== is_present is right in 1,000 of 1,000 calls, however much follows what it looks for"
fresh
{ printf '#!%s\nprintf "\\tlibneedle.so.4 (libc6,x86-64) => /lib/libneedle.so.4\\n"\n' "$BASH"
  printf 'printf "\\tlibhay%%d.so (libc6) => /lib/libhay.so\\n" {1..1500}\n'; } >"$folder/bin/ldconfig"
wrong=$(
  PATH="$folder/bin:$PATH"
  # shellcheck disable=SC2034  # read by setup.sh
  root=$clone
  source "$clone/scripts/setup.sh"
  wrong=0
  for ((i = 0; i < 1000; ++i)); do is_present library:libneedle.so.4 || wrong=$((wrong + 1)); done
  if is_present library:libneedle.so; then wrong=$((wrong + 1)); fi
  echo "$wrong"
)
if ((wrong != 0)); then complain "$wrong of 1,000 calls of is_present are wrong"; fi

echo "== no script pipes into a program that stops reading early"
mapfile -t scripts < <(grep -lE '^#!.*bash|^# Sourced by' "$sources"/{gpuplan,check} "$sources"/scripts/*.sh "$sources"/tests/*.sh "$sources"/tests/*/*.sh)
if ((${#scripts[@]} < 12)); then complain "only ${#scripts[@]} scripts were found"; fi
if grep -nE '\| *(grep +(-[a-zA-Z]*q|-[a-zA-Z]+ +-q|--quiet|-[a-zA-Z]*m ?[0-9])|head( |$)|sed +-n +[^|]*q)' "${scripts[@]}" | grep -v '^[^:]*first_minute.sh:'; then
  complain "the lines above"
fi
exit $((failures > 0))
