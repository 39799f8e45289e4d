#include "report/text/answers_text.h"

#include <initializer_list>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/unit_text.h"
#include "cluster/gpu_file.h"
#include "report/text/amounts.h"
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
  if (!report.usual) return kUnknown;
  const GpuPrice& usual = *report.usual;
  return fmt::format("{} {}", format_usd(usual.usd_per_gpu_hour), usual.date == "undated" ? usual.date : usual.vendor);
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
        {format_usd(price.usd_per_gpu_hour), fmt::format("{}, {}{}: {}", offer_of(price), price.date,
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
  return render(table, screen) +
         paint(
             wrap("TFLOP/s: dense bf16, by the datasheet and by the best published GEMM. Per hour: one GPU, the lowest "
                  "on-demand price that has a date, else another. `gpuplan gpus NAME` lists all prices with their "
                  "dates.",
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
                                  {"source", gpu.source},
                                  {"machines", fmt::format("{}", fmt::join(report.machines, ", "))}},
                2, screen) +
         prices_text(report, screen);
}

namespace {

std::string parameters_text(const ModelReport& report) {
  const std::string count = fmt::format("{} ({})", format_grouped(report.parameters), format_count(report.parameters));
  if (!report.spec) return count + ", as recorded";
  if (!report.spec->recorded_parameters) return count + ", computed from the architecture";
  return count + (report.parameters == report.entry.parameters
                      ? ", computed from the architecture; the recorded count is equal"
                      : fmt::format(", computed from the architecture; {} are recorded",
                                    format_grouped(report.entry.parameters)));
}

std::string attention_text(const ModelSpec& m) {
  if (m.num_layers_with(attends) == 0) return {};
  std::string text = fmt::format("{} heads of {}", m.num_attention_heads, m.head_dim);
  if (m.num_key_value_heads != m.num_attention_heads)
    text += fmt::format(", {} key-value head{}", m.num_key_value_heads, m.num_key_value_heads == 1 ? "" : "s");
  if (m.qk_norm != QkNorm::None) text += ", norms on queries and keys";
  if (m.sliding_window > 0)
    text += fmt::format(", a window of {} tokens in {} layers", format_grouped(m.sliding_window), m.sliding_layers);
  return text;
}

/// Says how many layers have each recurrent mixer, and its sizes.
std::string recurrence_text(const ModelSpec& m) {
  std::vector<std::string> parts;
  const auto add = [&](bool (*accepts)(Mixer), const std::string& what) {
    if (const std::int64_t count = m.num_layers_with(accepts); count > 0)
      parts.push_back(fmt::format("{} in {} of {} layers", what, count, m.num_hidden_layers));
  };
  const Mamba2Spec& mamba = m.mamba2;
  const DeltaNetSpec& net = m.delta_net;
  add(has_mamba1, fmt::format("Mamba ({} channels, a state of {} each)", format_grouped(m.mamba1.inner_width),
                              m.mamba1.state_size));
  add(has_mamba2,
      fmt::format("Mamba-2 ({} heads of {}, a state of {})", mamba.num_heads, mamba.head_dim, mamba.state_size));
  add(has_delta_net, fmt::format("gated delta net ({} key and {} value heads of {})", net.num_key_heads,
                                 net.num_value_heads, net.value_dim));
  add(has_short_convolution, fmt::format("convolution over {} tokens", m.short_convolution.kernel));
  add(attends_to_images, "attention to images");
  add(attends, "attention");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string mlp_text(const ModelSpec& m) {
  if (m.intermediate_size == 0 && !m.moe.is_present()) return {};
  if (m.moe.is_present())
    return fmt::format("{} of {} experts, {} wide, {}{}", m.moe.experts_per_token, m.moe.num_experts,
                       format_grouped(m.moe.intermediate_size), m.activation,
                       m.moe.shared_intermediate_size > 0
                           ? fmt::format(", and a shared one, {} wide", format_grouped(m.moe.shared_intermediate_size))
                           : "");
  return fmt::format("{} wide, {}{}", format_grouped(m.intermediate_size), m.activation,
                     m.mlp == MlpKind::Gated ? ", gated" : "");
}

std::vector<Fact> shape_facts(const ModelSpec& m) {
  const std::string layers = m.num_encoder_layers > 0
                                 ? fmt::format("{} encoder and {} decoder", m.num_encoder_layers, m.num_hidden_layers)
                                 : fmt::format("{}", m.num_hidden_layers);
  std::vector<Fact> facts{
      {"layers", fmt::format("{}, {} wide", layers, format_grouped(m.hidden_size))},
      {"attention", attention_text(m)},
      {"MLP", mlp_text(m)},
      {"vocabulary", fmt::format("{}, {}", format_grouped(m.vocab_size),
                                 m.tie_word_embeddings ? "the head is the embedding" : "embedding and head apart")},
      {"context", format_grouped(m.max_position_embeddings) + " tokens"}};
  if (m.is_hybrid()) facts.insert(facts.begin() + 1, {"mixed by", recurrence_text(m)});
  if (const VisionSpec& v = m.vision; v.is_present())
    facts.insert(facts.begin() + 1,
                 {"vision tower", fmt::format("{} blocks, {} wide, patches of {} x {} pixels", v.num_layers,
                                              format_grouped(v.hidden_size), v.patch_size, v.patch_size)});
  return facts;
}

void add_tensors(Table& table, const std::vector<WeightTensor>& tensors, const std::string& prefix) {
  for (const WeightTensor& tensor : tensors)
    table.add({{"  " + prefix + tensor.name},
               {fmt::format("{}{}", tensor.copies > 1 ? fmt::format("{} of ", tensor.copies) : "",
                            fmt::join(tensor.shape, " × "))},
               {format_grouped(tensor.elements())}});
}

std::string tensors_text(const ModelReport& report, const Screen& screen) {
  const ModelWeights& weights = report.weights;
  Table table{.columns = {{"  tensor"}, {"shape", Align::Right}, {"elements", Align::Right}}, .rows = {}};
  add_tensors(table, weights.before, "");
  for (std::size_t k = 0; k < weights.kinds.size(); ++k) {
    const LayerKind& kind = weights.kinds[k];
    const std::int64_t count = weights.num_of_kind(k);
    const std::string title =
        count == 1 ? fmt::format("  {}", kind.name) : fmt::format("  one of {} {}s", count, kind.name);
    table.add({{title, Ink::Strong}, {""}, {format_grouped(kind.elements()), Ink::Strong}});
    add_tensors(table, kind.tensors, "  ");
  }
  add_tensors(table, weights.after, "");
  table.add({{"  all", Ink::Strong}, {""}, {format_grouped(weights.total_elements()), Ink::Strong}});
  return heading("Tensors", screen) + render(table, screen);
}

std::string published_text(const ModelReport& report) {
  if (report.published.empty()) return "";
  return (report.is_verified ? "the same count: " : "another count (the catalogue file says why): ") + report.published;
}

}  // namespace

std::string models_text(const std::vector<CatalogueEntry>& entries, const Screen& screen) {
  Table table{.columns = {{"model"},
                          {"family", Align::Left, 2},
                          {"parameters", Align::Right},
                          {"modelled"},
                          {"id", Align::Left, 1}},
              .rows = {}};
  for (const CatalogueEntry& entry : entries) {
    const Ink ink = entry.is_modelled ? Ink::Plain : Ink::Faint;
    table.add({{entry.name, ink},
               {entry.family, ink},
               {format_count(entry.parameters), ink},
               {entry.is_modelled ? "yes" : "not yet", ink},
               {entry.id, ink}});
  }
  return render(table, screen);
}

std::string model_text(const ModelReport& report, const Screen& screen) {
  const CatalogueEntry& entry = report.entry;
  std::string out =
      paint(entry.name, Ink::Strong, screen) + (entry.id == entry.name ? "" : fmt::format(" ({})", entry.id)) + "\n";
  std::vector<Fact> facts{{"family", fmt::format("{}, {}", entry.family, entry.architecture)},
                          {"parameters", parameters_text(report)},
                          {"published", published_text(report)}};
  if (report.spec) {
    const std::vector<Fact> shape = shape_facts(*report.spec);
    facts.insert(facts.end(), shape.begin(), shape.end());
    facts.push_back({"source", report.spec->source});
  } else {
    facts.push_back({"modelled", "not yet: it is listed, but cannot be planned"});
  }
  for (const std::string& note : report.notes) facts.push_back({"note", note});
  out += render(facts, 2, screen);
  return report.spec ? out + tensors_text(report, screen) : out;
}

}  // namespace gpuplan
