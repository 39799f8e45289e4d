#include <initializer_list>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "report/text/amounts.h"
#include "report/text/catalogue_text.h"
#include "report/text/facts.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

constexpr double kTera = 1e12;
constexpr const char* kUnknown = "–";

/// The title of the column has the unit.
std::string tera_cell(FlopsPerSec rate) {
  if (rate.value <= 0) return kUnknown;
  return fmt::format("{:.{}f}", rate.value / kTera, rate.value < 100 * kTera ? 1 : 0);
}

/// In the list; what kind of NVLink it is stands in the explanation of one GPU.
std::string link_text(const GpuSpec& gpu) {
  if (gpu.nvlink_per_direction.value > 0) return "NVLink " + format_rate(gpu.nvlink_per_direction);
  return fmt::format("PCIe {}.0 x{}{}", gpu.pcie_generation, gpu.pcie_lanes, gpu.has_p2p_over_pcie ? "" : ", no p2p");
}

std::string price_cell(const GpuReport& report) {
  return report.lowest ? format_usd(report.lowest->usd_per_gpu_hour) : kUnknown;
}

struct NamedRate {
  const char* name;
  FlopsPerSec rate;
};

/// "bf16 312 TFLOPS, …" of those that are known.
std::string list_of(std::initializer_list<NamedRate> rates) {
  std::string text;
  for (const NamedRate& r : rates)
    if (r.rate.value > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", r.name, format_rate(r.rate));
  return text;
}

std::string rates_text(const GpuSpec& gpu) {
  return list_of({{"bf16", gpu.bf16}, {"fp16", gpu.fp16}, {"tf32", gpu.tf32}, {"fp32", gpu.fp32}, {"fp8", gpu.fp8}});
}

std::string measured_text(const GpuSpec& gpu) {
  const std::string text = list_of({{"bf16", gpu.gemm_bf16}, {"fp16", gpu.gemm_fp16}, {"fp32", gpu.gemm_fp32}});
  return text.empty() ? "none published" : text;
}

std::string links_text(const GpuSpec& gpu) {
  std::string text;
  if (gpu.nvlink_per_direction.value > 0)
    text = fmt::format("{}, {} in each direction; ", gpu.nvlink_kind, format_rate(gpu.nvlink_per_direction));
  return text + fmt::format("PCIe {}.0 x{}, {}", gpu.pcie_generation, gpu.pcie_lanes,
                            gpu.has_p2p_over_pcie ? "peer-to-peer" : "no peer-to-peer");
}

std::string prices_text(const GpuReport& report, const Screen& screen) {
  if (report.prices.empty()) return "";
  std::vector<Fact> facts;
  for (const GpuPrice& price : report.prices)
    facts.push_back(
        {format_usd(price.usd_per_gpu_hour), fmt::format("{} {}{}: {}", price.provider, price.kind,
                                                         price.is_approximate ? ", approximately" : "", price.source)});
  return heading("Prices per GPU and hour", screen) + render(facts, 2, screen);
}

}  // namespace

std::string gpus_text(const std::vector<GpuReport>& reports, const Screen& screen) {
  Table table{.columns = {{"GPU"},
                          {"architecture", Align::Left, 2},
                          {"memory", Align::Right},
                          {"TFLOP/s", Align::Right},
                          {"measured", Align::Right},
                          {"bandwidth", Align::Right},
                          {"link", Align::Left, 1},
                          {"per hour", Align::Right}},
              .rows = {}};
  for (const GpuReport& report : reports) {
    const GpuSpec& gpu = report.gpu;
    table.add({{gpu.id, Ink::Strong},
               {gpu.architecture},
               {format_bytes(gpu.framework_memory)},
               {tera_cell(gpu.bf16)},
               {tera_cell(gpu.gemm_bf16)},
               {format_rate(gpu.memory_bandwidth)},
               {link_text(gpu)},
               {price_cell(report)}});
  }
  return render(fit_to(std::move(table), screen.width), screen) +
         paint(wrap("TFLOP/s: dense bf16, by the datasheet and by the best published GEMM. Per hour: one GPU.",
                    prose_width(screen), "", ""),
               Ink::Faint, screen);
}

std::string gpu_text(const GpuReport& report, const Screen& screen) {
  const GpuSpec& gpu = report.gpu;
  const std::string capability = gpu.compute_capability.empty() ? "" : ", compute capability " + gpu.compute_capability;
  return paint(gpu.id, Ink::Strong, screen) + fmt::format(" ({})\n", gpu.name) +
         render(std::vector<Fact>{{"architecture", fmt::format("{} {}, {}{}", gpu.vendor, gpu.architecture,
                                                               gpu.form_factor, capability)},
                                  {"memory",
                                   fmt::format("{} as frameworks see it, {} as nvidia-smi does",
                                               format_bytes(gpu.framework_memory), format_bytes(gpu.device_memory))},
                                  {"bandwidth", format_rate(gpu.memory_bandwidth)},
                                  {"dense rates", rates_text(gpu)},
                                  {"measured GEMM", measured_text(gpu)},
                                  {"links", links_text(gpu)},
                                  {"runs", gpu.is_plan_only ? "planned only, gpuplan does not run on it" : ""},
                                  {"source", gpu.source}},
                2, screen) +
         prices_text(report, screen);
}

}  // namespace gpuplan
