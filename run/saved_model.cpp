#include "run/saved_model.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "models/hf_config.h"
#include "models/model_files.h"
#include "models/training_method.h"
#include "run/files/adapter_files.h"
#include "run/files/tensor_files.h"

namespace gpuplan {
namespace {

using Trained = Executor::TrainedTensor;

std::vector<std::int64_t> shape_of(const NativeJob& job, const Trained& t) {
  if (t.placed.use != WeightUse::Tensor) return {t.placed.rows, t.placed.cols};
  return job.weights_of(t.unit)[t.placed.tensor].shape;
}

std::vector<TensorToWrite> tensors_of(const NativeJob& job, const std::vector<Trained>& trained) {
  std::vector<TensorToWrite> out;
  for (const Trained& t : trained)
    out.push_back({saved_name(job, t.unit, t.placed), t.placed.dtype, shape_of(job, t), t.data});
  return out;
}

AdapterConfig config_of(const NativeJob& job, const std::vector<Trained>& trained) {
  std::set<std::string> targets;
  std::vector<std::string> whole;
  for (const Trained& t : trained) {
    if (t.placed.use == WeightUse::Tensor) {
      whole.push_back(module_of(job.tensor_name(t.unit, t.placed.tensor)));
      continue;
    }
    const auto parts = split(module_of(job.tensor_name(t.unit, t.placed.tensor)), '.');
    targets.insert(parts.back());
  }
  const LoraSpec& lora = job.recipe().lora;
  return {.base_model = job.model.spec.id,
          .rank = lora.rank,
          .alpha = lora.alpha,
          .dropout = lora.dropout,
          .target_modules = {targets.begin(), targets.end()},
          .modules_to_save = whole,
          .task_type = has_own_head(job.recipe()) ? "SEQ_CLS" : "CAUSAL_LM"};
}

/// Copies the files that make the folder a model beside its weights: as they were, or as transformers would write them.
void copy_companions(const NativeJob& job, const std::filesystem::path& from, const std::filesystem::path& to) {
  for (const char* file : kModelFiles)
    if (is_there(from / file)) write_file_atomically(to / file, read_file(from / file));
  if (!is_there(to / "config.json")) write_file_atomically(to / "config.json", json_text(to_hf_config(job.model.spec)));
}

/// A file of a model in `folder` that gpuplan did not write; empty where there is none. Configurations are copies: they
/// are ours beside weights or checkpoints of ours.
std::string file_of_other_model(const std::filesystem::path& folder) {
  std::string weights, config;
  bool has_ours = false;
  for (const std::string& name : names_in(folder)) {
    if (is_folder(folder / name)) has_ours |= name.starts_with("checkpoint-");
    if (!is_file(folder / name)) continue;
    if (name == "config.json" || name == "adapter_config.json") config = name;
    if (!name.ends_with(".safetensors") && !name.starts_with("pytorch_model")) continue;
    if (holds_at(folder / name, kHeaderAt, kMadeByGpuplan))
      has_ours = true;
    else
      weights = name;
  }
  return !weights.empty() ? weights : has_ours ? std::string() : config;
}

}  // namespace

void require_no_other_model(const std::filesystem::path& folder) {
  if (const std::string file = file_of_other_model(folder); !file.empty())
    throw InputError("--output",
                     fmt::format("{} holds {} of a model that gpuplan did not write", folder.string(), file),
                     "name another folder; --force replaces it");
}

std::string saved_name(const NativeJob& job, std::uint16_t unit, const PlacedTensor& t) {
  const std::string name = job.tensor_name(unit, t.tensor);
  if (t.use != WeightUse::Tensor) return lora_key(name, t.use == WeightUse::LowRankA);
  return job.recipe().is_adapter() ? saved_key(name) : name;
}

void save_model(const Executor& executor, const RankPlace& place, const std::filesystem::path& model_folder,
                const std::filesystem::path& to) {
  const std::vector<Trained> trained = executor.gather_trained();
  if (place.rank != 0) return;
  const NativeJob& job = executor.job();
  make_folders(to);
  if (!job.recipe().is_adapter()) {
    copy_companions(job, model_folder, to);
    return write_tensors(to, "model", tensors_of(job, trained));
  }
  write_adapter_config(to, config_of(job, trained));
  write_tensors(to, "adapter_model", tensors_of(job, trained));
}

}  // namespace gpuplan
