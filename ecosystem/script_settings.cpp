// A script of one's own must do what files of a launcher and an engine do not say: this lists it.
#include <array>

#include <fmt/format.h>

#include "ecosystem/export_parts.h"
#include "ecosystem/field_flags.h"
#include "models/recipe_names.h"

namespace gpuplan {
namespace {

/// Fields of the recipe that accelerate's and DeepSpeed's files never say to a script.
constexpr std::array<std::string_view, 14> kFields{
    "method",    "trained", "seq_len", "packing",       "micro_batch",           "grad_accum", "optimizer",
    "attention", "loss",    "kernels", "torch_compile", "optimizer_in_backward", "qat",        "images.train"};

/// Fields that a file says in some plans only.
std::vector<std::string_view> fields_of(const ExportJob& job) {
  std::vector<std::string_view> fields(kFields.begin(), kFields.end());
  const Recipe& recipe = job.request.recipe;
  if (!job.request.model.vision.is_present()) fields.pop_back();
  if (recipe.checkpointing != Checkpointing::None && job.setup.fsdp_checkpointing != true)
    fields.push_back("checkpointing");
  if (recipe.precision == Precision::Bf16True || recipe.precision == Precision::Bf16Loaded)
    fields.push_back("precision");
  return fields;
}

}  // namespace

void let_engine_checkpoint(Setup& setup, const Recipe& recipe) {
  const bool forgets_dropout = setup.fsdp_version == 2 && recipe.is_adapter() && recipe.lora.dropout > 0;  // R19
  if (setup.distributed != "fsdp" || recipe.checkpointing != Checkpointing::Full || forgets_dropout) return;
  if (recipe.offload.activations) return;  // the script moves what it keeps itself
  setup.fsdp_checkpointing = true;
  setup.checkpointing = false;
}

std::string script_settings(const ExportJob& job, bool says_fp8) {
  std::string out;
  for (const std::string_view field : fields_of(job)) {
    const FieldFlag* row = find_field_flag(field);
    const std::string words = row ? row->words(job.request, job.strategy) : "";
    if (!words.empty() && !words.starts_with("without ")) out += " " + words;
  }
  if (const double epochs = job.request.dataset.epochs; epochs != Dataset{}.epochs)
    out += fmt::format(" --epochs {:g}", epochs);
  if (job.request.recipe.offload.activations) out += " --offload activations";
  if (job.request.recipe.fp8_matmul && !says_fp8) out += " --fp8";
  return out.substr(1);
}

}  // namespace gpuplan
