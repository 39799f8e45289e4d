#include "execute/commands.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "cli/flag_ranges.h"

namespace gpuplan {
namespace {

std::optional<Dtype> token_dtype(const CLI::App& app) {
  const auto text = given(app, "--token-dtype");
  if (!text) return {};
  if (*text == "uint16") return Dtype::I16;
  if (*text == "uint32") return Dtype::I32;
  throw InputError("--token-dtype", fmt::format("unknown dtype '{}'", *text), "uint16 or uint32");
}

/// The folder of --model: weights and tokenizer are there.
std::filesystem::path model_folder(const EstimateRequest& r) {
  const std::filesystem::path source = r.model.source;
  return source.filename() == "config.json" ? source.parent_path() : source;
}

/// A name of the catalogue has a shape and no weights.
void require_weights(const std::filesystem::path& folder, const EstimateRequest& r) {
  if (is_there(folder / "config.json")) return;
  throw InputError("--model", fmt::format("{} is known by its shape, and there are no weights to train", r.model.name),
                   "give the folder of the model (config.json, model.safetensors), or --init random to measure");
}

std::set<std::string> settings_in(const std::string& text) {
  std::set<std::string> names;
  for (const std::string& name : split(text, ',')) {
    if (std::ranges::find(kRunSettings, name) == kRunSettings.end())
      throw InputError("--allow-changed", fmt::format("'{}' is no setting that may change", name),
                       fmt::format("{}", fmt::join(kRunSettings, ", ")));
    names.insert(name);
  }
  return names;
}

}  // namespace

void add_run_flags(CLI::App& app) {
  const char* const kTraining = "Training";
  add_flag(app, "--demo", "", "fine-tune the small model that comes with gpuplan, on its documents", kTraining);
  add_flag(app, "--data", "FILE",
           "tokens (.bin, .npy), JSON lines with input_ids or text. Default: random tokens, to measure", kTraining);
  add_flag(app, "--token-dtype", "uint16|uint32", "of a .bin without header. Default by the vocabulary", kTraining);
  add_flag(app, "--init", "random", "random weights instead of the model's files", kTraining);
  add_flag(app, "--adapter", "DIR", "go on from this PEFT adapter", kTraining);
  add_flag(app, "--max-steps", "N", "optimizer steps. Default: --epochs of the data, 10 without data", kTraining);
  add_flag(app, "--lr", "RATE", "highest learning rate. Default 2e-4 for adapters, 2e-5 for full", kTraining);
  add_flag(app, "--schedule", "constant|linear|cosine", "after the warm-up. Default linear", kTraining);
  add_flag(app, "--warmup", "N", "steps. Default 0", kTraining);
  add_flag(app, "--beta", "B",
           "of a --method that compares answers: how strongly it holds on to the reference. Default the method's",
           kTraining);
  add_flag(app, "--weight-decay", "W", "AdamW's; never of norms and biases. Default 0", kTraining);
  add_flag(app, "--clip", "NORM", "largest global gradient norm, 0: none. Default 1", kTraining);
  add_flag(app, "--seed", "S", "of order and random weights. Default 0", kTraining);
  add_flag(app, "--no-shuffle", "", "blocks in the order of the file", kTraining);
  add_flag(app, "--output", "DIR", "write adapter or model, and checkpoints, here", kTraining);
  add_flag(app, "--save-every", "K", "checkpoint every K steps. Default: none but at Ctrl-C", kTraining);
  add_flag(app, "--keep", "K", "checkpoints that stay. Default: all", kTraining);
  add_flag(app, "--resume", "", "go on from the latest checkpoint of --output", kTraining);
  add_flag(app, "--allow-changed", "NAME,...",
           "go on with another lr, schedule, warmup, weight-decay, clip or max-steps than the checkpoint's", kTraining);
  add_flag(app, "--metrics", "FILE", "one JSON line per step", kTraining);
  add_flag(app, "--trace", "FILE", "write the last step's real timeline for Perfetto", kTraining);
  add_flag(app, "--no-cuda-graphs", "", "launch kernels of GPUs one by one, not a step's as one graph", kTraining);
  add_flag(app, "--json", "", "the report as JSON, in base units");
}

TrainingOptions read_training_options(const CLI::App& app, const EstimateRequest& r) {
  TrainingOptions o;
  o.model_folder = model_folder(r);
  if (!is_given(app, "--init")) require_weights(o.model_folder, r);
  if (const auto init = given(app, "--init")) {
    if (*init != "random") throw InputError("--init", fmt::format("unknown '{}'", *init), "random");
    o.is_random = true;
  }
  if (const auto adapter = given(app, "--adapter")) o.adapter = *adapter;
  if (const auto file = given(app, "--data"))
    o.data = DataOptions{.file = *file,
                         .tokenizer_folder = o.model_folder,
                         .token_dtype = token_dtype(app),
                         .vocab_size = r.model.vocab_size,
                         .seq_len = r.recipe.seq_len,
                         .packing = r.recipe.packing};
  if (o.data) ask_for_answers(*o.data, r.recipe);
  o.beta = given_number(app, "--beta");
  if (o.beta && r.recipe.objective.method.is_usual())
    throw InputError("--beta", "supervised fine-tuning compares with no reference", "leave it out, or name a --method");
  if (const auto output = given(app, "--output")) o.output = *output;
  if (const auto metrics = given(app, "--metrics")) o.metrics = *metrics == "-" ? "/dev/stdout" : *metrics;
  o.save_every = given_integer(app, "--save-every").value_or(0);
  o.keep = given_integer(app, "--keep").value_or(0);
  o.resumes = is_given(app, "--resume");
  o.optimizer.weight_decay = given_number(app, "--weight-decay").value_or(0);
  o.optimizer.clip = given_number(app, "--clip").value_or(1);
  o.learning_rate = given_number(app, "--lr").value_or(r.recipe.is_adapter() ? 2e-4 : 2e-5);
  o.schedule = parse_lr_schedule(given(app, "--schedule").value_or("linear"), "--schedule");
  o.warmup_steps = given_integer(app, "--warmup").value_or(0);
  o.max_steps = given_integer(app, "--max-steps").value_or(o.data ? 0 : 10);
  o.epochs = r.dataset.epochs;
  o.shuffles = !is_given(app, "--no-shuffle");
  o.seed = std::uint64_t(given_integer(app, "--seed").value_or(0));
  o.records_last_step = true;
  o.uses_graph = !is_given(app, "--no-cuda-graphs");
  if (const auto names = given(app, "--allow-changed")) o.allow_changed = settings_in(*names);
  if (!o.allow_changed.empty() && !o.resumes)
    throw InputError("--allow-changed", "needs --resume", "it names what differs from the checkpoint");
  for (const char* flag : {"--resume", "--save-every", "--keep"})
    if (is_given(app, flag) && o.output.empty())
      throw InputError(flag, "needs --output", "the folder that holds the checkpoints");
  return o;
}

}  // namespace gpuplan
