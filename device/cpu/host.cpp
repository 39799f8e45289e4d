#include "device/cpu/host.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <oneapi/dnnl/dnnl.hpp>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "base/processor.h"
#include "base/unit_text.h"

namespace gpuplan {
namespace {

/// The number after a name, in a file of such lines; 0 when it is not there.
std::int64_t named_number(const char* path, std::string_view wanted) {
  std::istringstream file(read_if_there(path).value_or(""));
  std::string name, rest;
  for (std::int64_t number = 0; file >> name >> number; std::getline(file, rest))
    if (name == wanted) return number;
  return 0;
}

/// A line of /proc/meminfo, in kB there.
Bytes meminfo(std::string_view wanted) { return {named_number("/proc/meminfo", wanted) << 10}; }

/// A number in a file of the control group (version 2); "max" and a missing file are no limit.
std::int64_t group_value(const char* file) {
  std::istringstream in(read_if_there(std::string("/sys/fs/cgroup/") + file).value_or(""));
  std::int64_t value = 0;
  return in >> value ? value : std::numeric_limits<std::int64_t>::max();
}

EnvError out_of_memory(Bytes size) {
  return EnvError(fmt::format("out of memory: {} asked of the host, {} free", format_bytes(size),
                              format_bytes(free_host_memory())));
}

/// Linux promises more than it has and ends the process later: large amounts are compared with what is free.
void check_free(Bytes size) {
  constexpr Bytes kLarge{64 << 20};
  if (size > kLarge && size > free_host_memory()) throw out_of_memory(size);
}

/// oneDNN's instruction sets, from narrow to wide, and the processor flags that promise each.
struct Instructions {
  dnnl_cpu_isa_t isa{};
  const char* name = "";
  bool is_promised = false;
};

#if defined(__x86_64__)
bool has(std::initializer_list<bool> flags) {
  return std::all_of(flags.begin(), flags.end(), [](bool flag) { return flag; });
}
#define GPUPLAN_CPU_HAS(flag) bool(__builtin_cpu_supports(flag))

/// A bit of EDX of CPUID leaf 7: AMX and FP16 have no name that GCC 12 and Clang 14 both know.
bool leaf7_edx(int bit) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && ((d >> bit) & 1U);
}

std::vector<Instructions> instruction_sets() {
  const bool avx2 = has({GPUPLAN_CPU_HAS("avx2"), GPUPLAN_CPU_HAS("fma")});
  const bool core = has({avx2, GPUPLAN_CPU_HAS("avx512f"), GPUPLAN_CPU_HAS("avx512bw"), GPUPLAN_CPU_HAS("avx512dq"),
                         GPUPLAN_CPU_HAS("avx512vl")});
  const bool vnni = core && GPUPLAN_CPU_HAS("avx512vnni");
  const bool bf16 = vnni && GPUPLAN_CPU_HAS("avx512bf16");
  const bool amx = bf16 && leaf7_edx(22) && leaf7_edx(24);  // AMX-BF16, AMX-TILE
  return {
    {dnnl_cpu_isa_sse41, "sse41", bool(GPUPLAN_CPU_HAS("sse4.1"))},
        {dnnl_cpu_isa_avx, "avx", bool(GPUPLAN_CPU_HAS("avx"))}, {dnnl_cpu_isa_avx2, "avx2", avx2},
#if DNNL_VERSION_MAJOR > 2 || DNNL_VERSION_MINOR > 0  // Debian 11, whose oneDNN the portable program has, is at 2.0
        {dnnl_cpu_isa_avx2_vnni, "avx2_vnni", false},
#endif
#if DNNL_VERSION_MAJOR >= 3
        {dnnl_cpu_isa_avx2_vnni_2, "avx2_vnni_2", false},
#endif
        {dnnl_cpu_isa_avx512_core, "avx512_core", core}, {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni", vnni},
        {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16", bf16},
#if DNNL_VERSION_MAJOR >= 3
        {dnnl_cpu_isa_avx512_core_fp16, "avx512_core_fp16", bf16 && leaf7_edx(23)},
#endif
        {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx", amx},
#if DNNL_VERSION_MAJOR >= 3
        {dnnl_cpu_isa_avx512_core_amx_fp16, "avx512_core_amx_fp16", false},
#endif
  };
}
#else
std::vector<Instructions> instruction_sets() { return {}; }
#endif

std::vector<GemmType> types_of(std::size_t used, const std::vector<Instructions>& sets) {
  std::vector<GemmType> types{GemmType::F32};
  const auto reaches = [&](dnnl_cpu_isa_t isa) {
    const auto at = std::find_if(sets.begin(), sets.end(), [&](const Instructions& s) { return s.isa == isa; });
    return at != sets.end() && used >= std::size_t(at - sets.begin());
  };
  if (reaches(dnnl_cpu_isa_avx512_core_bf16)) types.push_back(GemmType::BF16);
#if DNNL_VERSION_MAJOR >= 3
  if (reaches(dnnl_cpu_isa_avx512_core_fp16)) types.push_back(GemmType::F16);
#endif
  return types;
}

/// Empty when oneDNN uses all that the processor promises.
std::string warning_of(const std::string& used, const Instructions& promised) {
  auto limit = variable("ONEDNN_MAX_CPU_ISA");
  if (!limit) limit = variable("DNNL_MAX_CPU_ISA");
  return fmt::format("oneDNN takes this processor for {} although it has {}{}", used, promised.name,
                     limit ? fmt::format(" (ONEDNN_MAX_CPU_ISA={} is set)", *limit) : std::string());
}

std::string kernel_release() {
  utsname name{};
  return uname(&name) == 0 ? name.release : "unknown";
}

}  // namespace

Bytes total_host_memory() { return {std::min(meminfo("MemTotal:").count, group_value("memory.max"))}; }

Bytes free_host_memory() {
  const std::int64_t limit = group_value("memory.max");
  const Bytes available = meminfo("MemAvailable:");
  if (limit == std::numeric_limits<std::int64_t>::max()) return available;
  const std::int64_t cached =
      named_number("/sys/fs/cgroup/memory.stat", "inactive_file");  // counted as used, dropped when asked for
  return {std::max<std::int64_t>(0, std::min(available.count, limit - group_value("memory.current") + cached))};
}

Buffer host_memory(Bytes size) {
  constexpr std::int64_t kHugePage = 2 << 20;
  GPUPLAN_CHECK(size.count >= 0, "a negative amount of memory was asked for");
  check_free(size);
  const std::int64_t alignment = size.count >= 2 * kHugePage ? kHugePage : kAlignment;
  void* data = nullptr;
  if (posix_memalign(&data, std::size_t(alignment), std::size_t(std::max<std::int64_t>(size.count, 1))) != 0)
    throw out_of_memory(size);
  // fewer TLB misses; no harm when refused. Whole pages alone: the last one would take 2 MiB for a byte
  if (alignment == kHugePage) madvise(data, std::size_t(size.count / kHugePage * kHugePage), MADV_HUGEPAGE);
  return {data, size, std::shared_ptr<void>(data, std::free)};
}

GemmLibrary gemm_library() {
  const dnnl_version_t* const version = dnnl_version();
  GemmLibrary library{.version = fmt::format("{}.{}.{}", version->major, version->minor, version->patch),
                      .instructions = "generic",
                      .types = {GemmType::F32},
                      .warning = {}};
  const std::vector<Instructions> sets = instruction_sets();
  const auto isa = dnnl_get_effective_cpu_isa();
  std::size_t used = 0, promised = 0;
  bool is_known = false;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i].isa == isa) used = i, is_known = true;
    if (sets[i].is_promised) promised = i;
  }
  if (is_known)
    library.instructions = sets[used].name;
  else if (!sets.empty())
    library.instructions = fmt::format("isa 0x{:x}", unsigned(isa)), used = sets.size();
  library.types = types_of(used, sets);
  if (is_known && used < promised) library.warning = warning_of(library.instructions, sets[promised]);
  return library;
}

DeviceFacts cpu_facts(int num_threads) {
  const GemmLibrary library = gemm_library();
  DeviceFacts facts{.kind = DeviceKind::Cpu,
                    .name = find_processor_facts().value_or(ProcessorFacts{}).name,
                    .architecture = library.instructions,
                    .memory = total_host_memory(),
                    .memory_free = free_host_memory(),
                    .num_cores = num_threads,
                    .gemm_types = library.types,
                    .versions = {{"oneDNN", library.version}, {"Linux", kernel_release()}},
                    .warnings = {}};
  // Training in bf16 needs its products everywhere (device/cpu/widened_gemm.h); fp16 is not trained on CPU ranks.
  const bool has_bf16 = std::find(library.types.begin(), library.types.end(), GemmType::BF16) != library.types.end();
  if (!has_bf16) facts.gemm_types.push_back(GemmType::BF16);
  if (!library.warning.empty()) facts.warnings.push_back(library.warning);
  return facts;
}

}  // namespace gpuplan
