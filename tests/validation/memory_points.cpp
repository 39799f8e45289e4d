#include "validation/memory_points.h"

#include <algorithm>
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "models/catalogue.h"

namespace gpuplan {
namespace {

using nlohmann::json;

// Names the points use for models of the catalogue.
const std::map<std::string, std::string> kModels{{"llama2-7b", "llama-2-7b"},
                                                 {"llama2-13b", "llama-2-13b"},
                                                 {"llama2-70b", "llama-2-70b"},
                                                 {"llama3.1-8b", "llama-3.1-8b"},
                                                 {"llama3.1-70b", "llama-3.1-70b"},
                                                 {"llama3.2-1b", "llama-3.2-1b"},
                                                 {"llama3.2-3b", "llama-3.2-3b"},
                                                 {"mistral-7b-v0.1", "mistral-7b-v0.1"},
                                                 {"mistral-7b-v0.2", "mistral-7b-v0.1"},
                                                 {"gpt2-xl", "gpt2-xl"},
                                                 {"gemma-2b", "gemma-2b"},
                                                 {"gemma-2-2b", "gemma-2-2b"},
                                                 {"tinyllama-1.1b", "tinyllama-1.1b"}};

const std::map<std::string, LossKernel> kLosses{{"plain", LossKernel::Plain},
                                                {"plain_fp32", LossKernel::Plain},
                                                {"plain_fp32_shifted", LossKernel::Plain},
                                                {"triton", LossKernel::InPlace},
                                                {"chunked_head", LossKernel::Chunked},
                                                {"chunked_logits", LossKernel::Chunked},
                                                {"fused_linear", LossKernel::Fused}};

const std::map<std::string, std::string> kOptimizers{{"adamw", "adamw-foreach"},
                                                     {"adamw_fused", "adamw-fused"},
                                                     {"paged_adamw", "paged-adamw"},
                                                     {"paged_adamw8bit", "paged-adamw-8bit"},
                                                     {"adamw8bit", "adamw-8bit"}};

const std::map<std::string, std::string> kTargets{
    {"output_proj", "o_proj"}, {"w1", "gate_proj"}, {"w2", "down_proj"}, {"w3", "up_proj"}};

std::string text(const json& value) { return value.is_string() ? value.get<std::string>() : std::string(); }

std::optional<double> number(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object.at(key).is_number()) return std::nullopt;
  return object.at(key).get<double>();
}

void read_lora(const json& point, Recipe& r) {
  const json& lora = point.at("lora");
  r.lora.rank = lora.value("r", 8);
  if (!lora.contains("target_modules") || lora.at("target_modules").is_null()) {
    r.lora.targets = {"q_proj", "v_proj"};
    return;
  }
  const json& targets = lora.at("target_modules");
  if (targets.is_string()) {
    r.lora.targets = {"all-linear"};
    if (targets.get<std::string>().find("lm_head") != std::string::npos) r.lora.targets.push_back("lm_head");
    return;
  }
  r.lora.targets.clear();
  for (const json& t : targets) {
    const auto known = kTargets.find(t.get<std::string>());
    r.lora.targets.push_back(known == kTargets.end() ? t.get<std::string>() : known->second);
  }
}

void read_quant(const json& point, Recipe& r) {
  const std::string quant = text(point.at("quant"));
  if (quant.empty()) return;
  if (!quant.starts_with("nf4")) throw InputError("quant", quant);
  r.method = Method::Qlora;
  r.quant.kind = BaseQuant::Nf4;
  // the accelerated-PEFT plug-in of fms-hf-tuning sets double quantisation; elsewhere the point says so
  r.quant.double_quant = quant == "nf4-dq" || text(point.at("framework")).find("fms") != std::string::npos;
}

Recipe read_recipe(const json& p) {
  Recipe r;
  const json& norm = p.at("norm");
  r.framework = norm.at("framework").get<std::string>();
  if (text(p.at("framework")).find("fms-hf-tuning") != std::string::npos) r.framework = "fms-hf-tuning";
  if (text(p.at("framework")).find("lightning") != std::string::npos) r.framework = "lightning";
  if (r.framework == "hf-deepspeed") r.framework = "hf-trainer";
  r.method = text(p.at("method")) == "full" ? Method::Full : Method::Lora;
  if (r.method != Method::Full) read_lora(p, r);
  read_quant(p, r);
  const std::string precision = norm.at("precision").get<std::string>();
  r.precision = precision == "bf16-true"    ? Precision::Bf16True
                : precision == "fp32"       ? Precision::Fp32
                : precision == "fp16-mixed" ? Precision::Fp16Mixed
                                            : Precision::Bf16Mixed;
  r.optimizer = kOptimizers.at(text(p.at("optimizer")));
  r.optimizer_in_backward = p.at("optimizer_in_backward") == true;
  r.micro_batch = p.at("micro_batch_size").get<std::int64_t>();
  r.seq_len = p.at("seq_len").get<std::int64_t>();
  r.grad_accum = p.at("grad_accum").is_null() ? 1 : p.at("grad_accum").get<std::int64_t>();
  if (r.optimizer_in_backward) r.grad_accum = 1;
  const std::string checkpointing = norm.at("checkpointing").get<std::string>();
  r.checkpointing = checkpointing == "full"        ? Checkpointing::Full
                    : checkpointing == "selective" ? Checkpointing::Selective
                                                   : Checkpointing::None;
  const std::string attention = text(p.at("attention"));
  r.attention = attention == "eager"   ? AttentionKernel::Eager
                : attention == "flash" ? AttentionKernel::Flash
                                       : AttentionKernel::Sdpa;
  const std::string loss = norm.at("loss").is_null() ? "plain" : norm.at("loss").get<std::string>();
  r.loss = kLosses.at(loss);
  if (loss == "chunked_head" || loss == "chunked_logits")
    r.loss_chunks = r.framework == "litgpt" ? std::max<std::int64_t>(1, ceil_div(r.seq_len * r.micro_batch, 128)) : 8;
  if (loss == "triton" || loss == "fused_linear" || p.at("torch_compile") == true) r.kernels = LayerKernels::Fused;
  if (r.framework == "litgpt" && r.is_adapter()) r.lora.dropout = 0.05;  // finetune/lora.py
  r.offload.activations = p.at("activation_offload") == true;
  if (p.at("cpu_offload") == true) r.offload.optimizer = r.offload.params = OffloadTarget::Cpu;
  return r;
}

ClusterSpec read_cluster(const json& p) {
  ClusterSpec c;
  c.name = text(p.at("gpu"));
  GpuSpec gpu;
  gpu.id = gpu.name = "a100-sxm-80gb";
  gpu.framework_memory = Bytes{std::int64_t(number(p, "gpu_mem_gib").value_or(1000) * 0x1p30)};
  gpu.bf16 = gpu.gemm_bf16 = gpu.fp16 = gpu.fp32 = FlopsPerSec{1e14};
  gpu.memory_bandwidth = BytesPerSec{1e12};
  c.gpus.assign(p.at("num_gpus").get<std::size_t>(), gpu);
  c.gpus_per_node = 8;
  return c;
}

}  // namespace

std::vector<MemoryPoint> read_memory_points() {
  std::ifstream in(data_dir() / "validation/memory.jsonl");
  std::vector<MemoryPoint> out;
  for (std::string line; std::getline(in, line);) {
    const json p = json::parse(line);
    if (p.at("fully_specified") != true || p.at("use_for_scoring") != true || p.at("in_scope") != true ||
        p.at("outcome") != "ok")
      continue;
    MemoryPoint m{.id = text(p.at("id")),
                  .source = text(p.at("source_key")),
                  .group = text(p.at("group")),
                  .metric = text(p.at("memory_metric"))};
    const auto value = number(p, "peak_memory_gib");
    const json& alt = p.at("peak_alt_gib");
    m.allocated_gib = m.metric == "max_allocated" || m.metric == "max_active" ? value : number(alt, "max_allocated");
    if (!m.allocated_gib) m.allocated_gib = number(alt, "max_active");
    m.reserved_gib = m.metric == "max_reserved" ? value : number(alt, "max_reserved");
    m.process_gib = m.metric == "nvidia-smi" || m.metric == "unspecified" ? value : number(alt, "nvidia-smi");
    const auto name = kModels.find(text(p.at("model")));
    try {
      if (name == kModels.end()) throw InputError("model", text(p.at("model")) + " is not modelled yet");
      m.request.model = load_model(name->second).spec;
      m.request.recipe = read_recipe(p);
      m.request.cluster = read_cluster(p);
      m.request.options.fsdp_version =
          text(p.at("framework")).find("FSDP2") != std::string::npos && m.id.find("fsdp1") == std::string::npos ? 2 : 1;
      m.request.strategy = canonical_strategy(text(p.at("strategy")));
    } catch (const InputError& error) { m.unsupported = error.what(); }
    out.push_back(std::move(m));
  }
  return out;
}

MemoryTiers predict(const MemoryPoint& point) {
  const EstimateRequest& r = point.request;
  const FrameworkConvention& framework = find_framework(r.recipe.framework);
  const TrainedModel model = prepare(r.model, r.recipe, framework);
  StepProgram program;
  const Strategy strategy = make_strategy(r.strategy, r.cluster, r.options);
  return estimate_strategy(r, model, framework, default_profile(r.cluster.gpus.front().id), strategy, program).tiers;
}

}  // namespace gpuplan
