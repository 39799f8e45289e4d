#include <fmt/format.h>

#include "base/unit_text.h"
#include "cli/render/catalogue_text.h"
#include "cli/render/facts.h"
#include "cli/render/rates.h"
#include "cli/render/table.h"

namespace gpuplan {
namespace {

template <class Rate>
std::string rate_cell(Rate rate) { return rate.value > 0 ? format_rate(rate) : "–"; }

std::string link_text(const GpuSpec& gpu) {
  if (gpu.nvlink_per_direction.value > 0) return fmt::format("{} {}", gpu.nvlink_kind, format_rate(gpu.nvlink_per_direction));
  return fmt::format("PCIe {}.0 x{}{}", gpu.pcie_generation, gpu.pcie_lanes, gpu.has_p2p_over_pcie ? "" : ", no p2p");
}

std::string price_cell(const GpuReport& report) { return report.lowest ? format_usd(report.lowest->usd_per_gpu_hour) : "–"; }

std::string rates_text(const GpuSpec& gpu) {
  struct Row { const char* name; FlopsPerSec rate; };
  std::string text;
  for (const Row& row : {Row{"bf16", gpu.bf16}, Row{"fp16", gpu.fp16}, Row{"tf32", gpu.tf32}, Row{"fp32", gpu.fp32}, Row{"fp8", gpu.fp8}})
    if (row.rate.value > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", row.name, format_rate(row.rate));
  return text;
}

std::string measured_text(const GpuSpec& gpu) {
  struct Row { const char* name; FlopsPerSec rate; };
  std::string text;
  for (const Row& row : {Row{"bf16", gpu.gemm_bf16}, Row{"fp16", gpu.gemm_fp16}, Row{"fp32", gpu.gemm_fp32}})
    if (row.rate.value > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", row.name, format_rate(row.rate));
  return text.empty() ? "none published" : text;
}

std::string links_text(const GpuSpec& gpu) {
  std::string text;
  if (gpu.nvlink_per_direction.value > 0) text = fmt::format("{}, {} in each direction; ", gpu.nvlink_kind, format_rate(gpu.nvlink_per_direction));
  return text + fmt::format("PCIe {}.0 x{}, {}", gpu.pcie_generation, gpu.pcie_lanes, gpu.has_p2p_over_pcie ? "peer-to-peer" : "no peer-to-peer");
}

std::string prices_text(const GpuReport& report, const Screen& screen) {
  if (report.prices.empty()) return "";
  std::vector<Fact> facts;
  for (const GpuPrice& price : report.prices)
    facts.push_back({format_usd(price.usd_per_gpu_hour), fmt::format("{} {}{}: {}", price.provider, price.kind, price.is_approximate ? ", approximately" : "", price.source)});
  return heading("Prices per GPU and hour", screen) + render(facts, 2, screen);
}

}  // namespace

std::string gpus_text(const std::vector<GpuReport>& reports, const Screen& screen) {
  Table table{.columns = {{"GPU"}, {"architecture", Align::Left, 1}, {"memory", Align::Right}, {"bf16 dense", Align::Right}, {"measured", Align::Right}, {"bandwidth", Align::Right},
                          {"link", Align::Left, 2}, {"per hour", Align::Right}}, .rows = {}};
  for (const GpuReport& report : reports) {
    const GpuSpec& gpu = report.gpu;
    table.add({{gpu.id, Ink::Strong}, {gpu.architecture}, {format_bytes(gpu.framework_memory)}, {rate_cell(gpu.bf16)}, {rate_cell(gpu.gemm_bf16)}, {rate_cell(gpu.memory_bandwidth)},
               {link_text(gpu)}, {price_cell(report)}});
  }
  return render(fit_to(std::move(table), screen.width), screen);
}

std::string gpu_text(const GpuReport& report, const Screen& screen) {
  const GpuSpec& gpu = report.gpu;
  const std::string capability = gpu.compute_capability.empty() ? "" : ", compute capability " + gpu.compute_capability;
  return paint(gpu.id, Ink::Strong, screen) + fmt::format(" ({})\n", gpu.name) +
         render(std::vector<Fact>{{"architecture", fmt::format("{} {}, {}{}", gpu.vendor, gpu.architecture, gpu.form_factor, capability)},
                                  {"memory", fmt::format("{} as frameworks see it, {} as nvidia-smi does", format_bytes(gpu.framework_memory), format_bytes(gpu.device_memory))},
                                  {"bandwidth", format_rate(gpu.memory_bandwidth)},
                                  {"dense rates", rates_text(gpu)},
                                  {"measured GEMM", measured_text(gpu)},
                                  {"links", links_text(gpu)},
                                  {"runs", gpu.is_plan_only ? "planned only, gpuplan does not run on it" : ""},
                                  {"source", gpu.source}}, 2, screen) +
         prices_text(report, screen);
}

}  // namespace gpuplan
