#include "cluster/pci_facts.h"

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/environment.h"
#include "base/files.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

std::uint32_t word_at(std::string_view config, std::size_t at) {
  std::uint32_t out = 0;
  for (std::size_t i = 4; i-- > 0;) out = out << 8 | std::uint8_t(config[at + i]);  // checked: a char
  return out;
}

/// Says whether a bridge redirects requests between the devices below it; nothing where its extended settings are not
/// there.
std::optional<bool> redirects(std::string_view config) {
  constexpr std::size_t kExtended = 0x100;
  constexpr std::uint32_t kAcs = 0x000d, kRequestRedirect = 1U << 2;
  if (config.size() < kExtended + 8) return std::nullopt;
  std::size_t at = kExtended;
  for (int hops = 0; hops < 64 && at >= kExtended && at + 8 <= config.size(); ++hops) {
    const std::uint32_t head = word_at(config, at);
    if ((head & 0xffff) == kAcs) return ((word_at(config, at + 4) >> 16) & kRequestRedirect) != 0;
    at = head >> 20;
  }
  return false;
}

bool is_bridge(const fs::path& device) { return read_if_there(device / "class").value_or("").starts_with("0x0604"); }

}  // namespace

fs::path sys_folder() {
  const std::string set = text_of_variable("GPUPLAN_SYS");
  return set.empty() ? "/sys" : set;
}

PciFacts read_pci_facts(const fs::path& sys) {
  PciFacts out;
  out.has_iommu = !names_in(sys / "kernel" / "iommu_groups").empty();
  const fs::path devices = sys / "bus" / "pci" / "devices";
  for (const std::string& name : names_in(devices)) {
    if (!is_bridge(devices / name)) continue;
    const auto redirected = redirects(read_if_there(devices / name / "config").value_or(""));
    if (!redirected) continue;
    ++out.num_bridges;
    if (*redirected) out.redirecting.push_back(name);
  }
  return out;
}

}  // namespace gpuplan
