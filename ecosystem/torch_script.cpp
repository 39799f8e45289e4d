// The script of plain PyTorch (data/ecosystem/scripts/train_torch.py) and its settings.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/files.h"
#include "ecosystem/export_parts.h"
#include "ecosystem/key_table.h"
#include "models/rope.h"

namespace gpuplan {
namespace {

/// The families whose decoder the script has.
constexpr std::array<std::string_view, 4> kScriptFamilies{"llama", "mistral", "qwen2", "qwen3"};

/// The shape in the words of config.json, for weights that begin at random.
OrderedJson config_of(const ModelSpec& m) {
  OrderedJson out{{"model_type", m.family},
                  {"vocab_size", m.vocab_size},
                  {"hidden_size", m.hidden_size},
                  {"intermediate_size", m.intermediate_size},
                  {"num_hidden_layers", m.num_hidden_layers},
                  {"num_attention_heads", m.num_attention_heads},
                  {"num_key_value_heads", m.num_key_value_heads},
                  {"head_dim", m.head_dim},
                  {"rms_norm_eps", m.norm_epsilon},
                  {"max_position_embeddings", m.max_position_embeddings},
                  {"rope_theta", m.rope.theta},
                  {"tie_word_embeddings", m.tie_word_embeddings},
                  {"attention_bias", m.has_o_bias},
                  {"mlp_bias", m.has_mlp_bias}};
  if (m.rope.type == RopeSpec{}.type) return out;
  nlohmann::json scaling{{"rope_type", m.rope.type}, {"factor", m.rope.factor}};
  if (m.rope.type == "llama3")
    scaling.update({{"low_freq_factor", m.rope.low_freq_factor},
                    {"high_freq_factor", m.rope.high_freq_factor},
                    {"original_max_position_embeddings", m.rope.original_positions}});
  out["rope_scaling"] = scaling;
  return out;
}

}  // namespace

ExportedFile script_file(const ExportJob& job, const char* table, const char* name) {
  const Versions versions = find_key_table(table)->versions;
  std::string text = read_file(data_dir() / "ecosystem" / "scripts" / name);
  constexpr std::string_view kShebang = "#!/usr/bin/env python3\n";
  if (text.starts_with(kShebang)) text.erase(0, kShebang.size());
  return {.name = name, .content = std::string(kShebang) + head_of(job, versions) + text, .is_program = true};
}

void adapt_to_torch(Setup& setup, const EstimateRequest& request, const Strategy&) {
  if (setup.distributed != "deepspeed" || setup.zero_stage != 1) return;
  setup.distributed = "torch-zero";
  setup.zero_stage.reset();
  setup.deepspeed_file.reset();
  if (request.recipe.precision == Precision::Bf16Mixed && !request.recipe.is_adapter()) setup.dtype = "fp32";
}

WhyNot why_not_torch(const ExportJob& job) {
  constexpr const char* kOther = "--for trl, axolotl or accelerate";
  const std::string distributed = job.setup.distributed.value_or("no");
  const ModelSpec& m = job.request.model;
  const bool splits_layers = distributed == "no" && job.strategy.mesh.world() > 1;
  if (splits_layers || (distributed != "no" && distributed != "multi" && distributed != "torch-zero"))
    return {fmt::format("the PyTorch script trains on one GPU, with DDP and with ZeRO-1, and the plan is {}",
                        job.strategy.name),
            "--for accelerate", job.strategy.layout.shards_optimizer ? "zero1" : "ddp"};
  if (std::find(kScriptFamilies.begin(), kScriptFamilies.end(), m.family) == kScriptFamilies.end())
    return {fmt::format("the PyTorch script has the decoders of {}, and {} is of the family {}",
                        fmt::join(kScriptFamilies, ", "), m.name, m.family),
            kOther};
  if (!is_known_rope(m.rope))
    return {fmt::format("the PyTorch script has no rotary scaling of the kind that {} has", m.name), kOther};
  if (m.moe.is_present()) return {"the PyTorch script has no experts", kOther};
  if (m.sliding_layers > 0 && m.sliding_layers < m.num_hidden_layers && m.sliding_window < job.request.recipe.seq_len)
    return {"the PyTorch script has no sliding window in some layers only", kOther};
  return {};
}

void add_torch(std::vector<ExportedFile>& files, const ExportJob& job) {
  const OrderedJson config = config_of(job.request.model);
  OrderedJson extra;
  for (const auto& [key, value] : config.items()) extra["config." + key] = value;
  extra["ranks"] = *job.setup.num_processes;
  files.push_back(table_file(job, *find_key_table("torch"), extra));
  files.push_back(script_file(job, "torch", "train_torch.py"));
  files.push_back(script_file(job, "torch", "gpuplan_metrics.py"));
  files.push_back(
      launch_file(job, find_key_table("torch")->versions, "", torchrun_command(job) + " train_torch.py torch.json"));
}

}  // namespace gpuplan
