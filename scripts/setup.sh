# Sourced by ./gpuplan and ./check: what the machine needs, installing it, configuring and building a preset. No pipe ends in a program that
# stops reading early, such as `grep -q`: what writes into it would die of SIGPIPE, and with `pipefail` the answer would be no.
# Expects $root. Everything said here goes to standard error; a failure of the machine ends with exit code 3.

# need   found as                   apt                  dnf              pacman         zypper
packages='
build    tool:c++                   g++                  gcc-c++          gcc            gcc-c++
build    tool:cmake                 cmake                cmake            cmake          cmake
build    tool:ninja                 ninja-build          ninja-build      ninja          ninja
build    header:fmt/core.h          libfmt-dev           fmt-devel        fmt            fmt-devel
build    header:CLI/CLI.hpp         libcli11-dev         cli11-devel      cli11          cli11-devel
build    header:nlohmann/json.hpp   nlohmann-json3-dev   json-devel       nlohmann-json  nlohmann_json-devel
build    header:toml++/toml.h        libtomlplusplus-dev  tomlplusplus-devel tomlplusplus   tomlplusplus-devel
build    header:yaml-cpp/yaml.h     libyaml-cpp-dev      yaml-cpp-devel   yaml-cpp       yaml-cpp-devel
build    header:pugixml.hpp         libpugixml-dev       pugixml-devel    pugixml        pugixml-devel
build    header:zlib.h              zlib1g-dev           zlib-devel       zlib           zlib-devel
build    header:boost/graph/adjacency_list.hpp libboost-graph-dev boost-devel boost libboost_headers-devel
build    header:eigen3/Eigen/Core   libeigen3-dev        eigen3-devel     eigen          eigen3-devel
hub      library:libcurl.so.4     libcurl4             libcurl          curl           libcurl4
hub      file:/etc/ssl/certs      ca-certificates      ca-certificates  ca-certificates ca-certificates
cpu      header:dnnl.h              libdnnl-dev          onednn-devel     onednn         onednn-devel
cpu      tool:mpirun                openmpi-bin          openmpi          openmpi        openmpi4
cpu      tool:mpicxx                libopenmpi-dev       openmpi-devel    openmpi        openmpi4-devel
text     header:sentencepiece_processor.h libsentencepiece-dev sentencepiece-devel sentencepiece sentencepiece-devel
test     header:doctest/doctest.h   doctest-dev          doctest-devel    doctest        doctest-devel
test     header:valijson/schema.hpp libvalijson-dev      valijson-devel   valijson       valijson-devel
lint     tool:clang++               clang                clang            clang          clang
lint     tool:clang-tidy            clang-tidy           clang-tools-extra clang         clang-tools
format   tool:clang-format-14       clang-format-14      clang-tools-extra clang14       clang14
fuzz     tool:clang++               clang                clang            clang          clang
fuzz     clang-rt:fuzzer            libclang-rt-dev      compiler-rt      compiler-rt    clang
browser  tool:chromium              chromium             chromium         chromium       chromium
torch    module:torch               python3-torch        python3-torch    python-pytorch python3-torch
torch    module:numpy               python3-numpy        python3-numpy    python-numpy   python3-numpy
slurm    tool:slurmctld             slurmctld        slurm-slurmctld  slurm-llnl     slurm
slurm    tool:slurmd                slurmd           slurm-slurmd     slurm-llnl     slurm-node
slurm    tool:sbatch                slurm-client     slurm            slurm-llnl     slurm
slurm    tool:munged                munge            munge            munge          munge
'

# A change in these means another build. The program carries the values of data/.
source_folders=(base data models device cluster planner ecosystem mend diagnose sim search validate rows report cli fit calibrate run serve execute web cmake)

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
fail() { say "$@"; exit 3; }
on_terminal() { [[ -t 2 && ${TERM:-dumb} != dumb ]]; }

# --- packages ------------------------------------------------------------------------------------------------------

is_present() {  # is_present tool:<program>|header:<path>|library:<of the loader>|file:<path>|module:<of the system's Python>|clang-rt:<runtime library of clang++>
  local name=${1#*:} prefix
  if [[ $1 == module:* ]]; then /usr/bin/python3 -c "import $name" >/dev/null 2>&1; return; fi
  if [[ $1 == library:* ]]; then [[ $(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null) == *"	$name "* ]]; return; fi
  if [[ $1 == file:* ]]; then [[ -e $name ]]; return; fi
  if [[ $1 == clang-rt:* ]]; then
    command -v clang++ >/dev/null && compgen -G "$(clang++ -print-runtime-dir)/libclang_rt.$name*.a" >/dev/null
    return
  fi
  if [[ $1 == tool:c++ ]]; then name=${CXX:-c++}; name=${name%% *}; fi
  if [[ $1 == tool:* ]]; then command -v -- "$name" >/dev/null; return; fi
  local -a prefixes
  IFS=':;' read -ra prefixes <<<"/usr:/usr/local:${CMAKE_PREFIX_PATH:-}"
  for prefix in "${prefixes[@]}"; do
    if [[ -n $prefix && -e $prefix/include/$name ]]; then return 0; fi
  done
  return 1
}

missing_packages() {  # missing_packages <manager> <need>…: package names, in the words of that manager
  local manager=$1 need found apt dnf pacman zypper
  shift
  while read -r need found apt dnf pacman zypper; do
    if [[ -z $need || " $* " != *" $need "* ]] || is_present "$found"; then continue; fi
    printf '%s\n' "${!manager}"
  done <<<"$packages" | LC_ALL=C sort -u | paste -sd ' ' -
}

refuse_to_install() {  # refuse_to_install <why> <command>
  say "some packages are missing, and $1"
  printf '  install them with\n    %s\n  then run this again\n' "$2" >&2
  exit 3
}

install_elsewhere() {  # no apt here: say what to install, exactly when the manager is known
  local manager commands=''
  local -A install=([dnf]='sudo dnf install' [pacman]='sudo pacman -S --needed' [zypper]='sudo zypper install')
  for manager in dnf pacman zypper; do
    if command -v "$manager" >/dev/null; then
      refuse_to_install "only apt can be used from here" "${install[$manager]} $(missing_packages "$manager" "$@")"
    fi
    commands+="${commands:+$'\n    '}${install[$manager]} $(missing_packages "$manager" "$@")"
  done
  refuse_to_install "this machine has no apt; one of these may fit" "$commands"
}

# The variables below belong to bring_packages: why nothing is installed, the command for a person, the words before apt-get, the log of the
# last apt-get, and how often a lock of another program was waited for.

may_install() {  # may_install <package>…: a person at a terminal is asked, root too
  local answer
  as_root=(env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 LC_ALL=C)
  if [[ ${GPUPLAN_NO_INSTALL:-} == 1 ]]; then
    why="nothing is to be installed (--no-install)"
    return 1
  fi
  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    why="this user is not root and has no sudo; root can"
    line=${line//sudo /}
    return 1
  fi
  if on_terminal && (: </dev/tty) 2>/dev/null; then
    printf '%s: these packages are missing: %s\n  install them with apt-get? [Y/n] ' "${0##*/}" "$*" >/dev/tty
    read -r answer </dev/tty || answer=n
    if [[ $answer == [nN]* ]]; then
      why="you said no"
      return 1
    fi
  fi
  if ((EUID == 0)); then return 0; fi
  as_root=(sudo "${as_root[@]}")
  if sudo -n true 2>/dev/null || { on_terminal && sudo -v; }; then return 0; fi
  why="sudo asks for a password"
  return 1
}

# apt-get itself waits for the locks of dpkg alone, not for those of its lists and archives.
run_apt() {  # run_apt <argument>…
  local held
  until "${as_root[@]}" apt-get -q -o DPkg::Lock::Timeout=0 "$@" </dev/null >"$log" 2>&1; do
    held=$(sed -n 's/^E: Could not get lock //p' "$log")
    if [[ -z $held ]]; then return 1; fi
    if ((waits == 0)); then say "another program holds apt (${held%%$'\n'*}); waiting for it, a minute at most"; fi
    if ((waits == 20)); then
      why="another program holds apt (${held%%$'\n'*})"
      return 1
    fi
    waits=$((waits + 1))
    sleep 3
  done
}

install_packages() {  # install_packages <package>…
  why=''
  say "installing $*"
  # --reinstall matters only for a package that dpkg knows and whose files are gone.
  if run_apt -y install --reinstall --no-install-recommends "$@"; then return 0; fi
  if [[ -z $why ]]; then why=$(sed -n 's/^E: /apt-get: /p' "$log" | tail -n 1); fi
  why=${why:-apt-get failed}
  return 1
}

# Installs what is missing; says nothing when nothing is. Ends the program where a need cannot be had; goes on without what is only wanted.
bring_packages() {  # bring_packages "<need>…" ["<wanted need>…"]
  local needed wanted want names why='' line log waits=0
  local -a as_root=()
  # shellcheck disable=SC2086  # one word per need or package, here and below
  needed=$(missing_packages apt $1)
  # shellcheck disable=SC2086
  wanted=$(missing_packages apt ${2:-})
  if [[ -z $needed$wanted ]]; then return 0; fi
  if ! command -v apt-get >/dev/null; then
    # shellcheck disable=SC2086
    if [[ -n $needed ]]; then install_elsewhere $1; fi
    say "going on without $wanted; this machine has no apt"
    return 0
  fi
  line="sudo apt-get update && sudo apt-get install --no-install-recommends $needed${wanted:+${needed:+ }$wanted}"
  if ((EUID == 0)); then line=${line//sudo /}; fi
  log=$(mktemp)
  # Without a network the lists already here may do, so only the installation decides.
  # shellcheck disable=SC2086
  if may_install $needed $wanted && { run_apt update || [[ -z $why ]]; }; then
    if [[ -z $needed ]] || install_packages $needed; then
      needed=''
      for want in ${2:-}; do
        names=$(missing_packages apt "$want")
        # shellcheck disable=SC2086
        if [[ -n $names ]] && ! install_packages $names; then say "going on without $names; $why"; fi
      done
      wanted=''
    else
      { grep '^E: ' "$log" || cat -- "$log"; } | sed -n '1,5p' >&2
    fi
  fi
  rm -f -- "$log"
  if [[ -n $needed ]]; then refuse_to_install "$why" "$line"; fi
  if [[ -n $wanted ]]; then say "going on without $wanted; $why"; fi
  hash -r
  # shellcheck disable=SC2086
  needed=$(missing_packages apt $1)
  if [[ -n $needed ]]; then fail "still not found after installing them: $needed"; fi
}

# --- building ------------------------------------------------------------------------------------------------------

build_dir() { printf '%s' "$root/build/$1"; }

# A build tree belongs to one place and one system: a checkout that moved, or is shared with a container, starts again.
system_key() {
  local os=
  if [[ -r /etc/os-release ]]; then os=$(</etc/os-release); fi
  printf '%s\n%s' "$root" "$os"
}

drop_foreign_tree() {  # drop_foreign_tree <build dir>
  local tree=$1
  if [[ ! -e $tree/CMakeCache.txt ]]; then return 0; fi
  if ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$tree/CMakeCache.txt" ||
     [[ -e $tree/.system && $(<"$tree/.system") != "$(system_key)" ]]; then
    rm -rf -- "$tree"
  fi
}

configure() {  # configure <preset> [cmake argument]…
  local preset=$1 tree
  tree=$(build_dir "$preset")
  shift
  if command -v ccache >/dev/null; then set -- -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "$@"; fi
  drop_foreign_tree "$tree"
  (cd -- "$root" && cmake --preset "$preset" "$@") || return
  system_key >"$tree/.system"
}

# One job per core, fewer when memory is short: a compiler may want a gigabyte.
num_jobs() {
  local jobs kib
  jobs=$(nproc 2>/dev/null || echo 2)
  kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null || true)
  if [[ -n $kib ]] && ((kib / 1000000 < jobs)); then jobs=$((kib / 1000000)); fi
  printf '%s' "${CMAKE_BUILD_PARALLEL_LEVEL:-$((jobs > 0 ? jobs : 1))}"
}

build() {  # build <preset> [target]…: ninja's output on standard output
  local tree
  tree=$(build_dir "$1")
  shift
  local -a targets=()
  if (($# > 0)); then targets=(--target "$@"); fi
  NINJA_STATUS='[%f/%t] ' cmake --build "$tree" --parallel "$(num_jobs)" ${targets[@]+"${targets[@]}"}
}

# The log of a build or a test run from the first complaint on; all of it when nothing looks like one.
show_failure() {  # show_failure <log>
  { sed -n '/^FAILED:\|^CMake Error\|error: \|^Test project/,$p' "$1" | grep . || cat "$1"; } | grep -v '^\[[0-9]*/[0-9]*\]' || true
}

# Runs a command while no other call uses the build tree of the preset; the lock does not reach the command's children.
locked() {  # locked <preset> <command>…
  local lock=$root/build/.$1.lock
  shift
  if ! { mkdir -p -- "$root/build" && : >>"$lock"; } 2>/dev/null; then fail "cannot write to $root/build"; fi
  (
    if ! flock -n 9; then
      if on_terminal; then say "waiting for another build"; fi
      flock 9
    fi
    "$@" 9>&-
  ) 9>>"$lock"
}
