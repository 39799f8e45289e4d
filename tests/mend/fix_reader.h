// Files as fix reads them in tests: those of a question, and again once they are changed.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cluster/gpu_list.h"
#include "ecosystem/module_targets.h"
#include "mend/fix.h"
#include "models/catalogue.h"
#include "planner/estimate.h"

namespace gpuplan::test {

/// Files as `estimate --from` reads them, on these GPUs.
class Reader {
 public:
  explicit Reader(const std::string& gpus) : cluster_(parse_gpus(gpus)) {}

  ReadFiles read(const std::vector<ConfigFile>& files, Broken broken = Broken::Refused) const {
    const FindConfig find = [&](const std::string& named, const std::string&) -> std::optional<ConfigFile> {
      for (const ConfigFile& file : files)
        if (file.name == named) return file;
      return std::nullopt;
    };
    std::vector<ConfigFile> given = files;
    if (files.size() > num_given_ && num_given_ > 0) given.resize(num_given_);
    ReadFiles out{.files = files, .reading = read_configs(given, find, {}, {}, {}, broken), .request = {}};
    out.why_refused = out.reading.why_mended;
    out.request = out.reading.request;
    out.request.model = load_model(*out.reading.model).spec;
    settle_stack(out.request);
    out.request.cluster = cluster_;
    std::vector<std::string> notes;
    settle_targets(out.request, notes);
    settle_strategy(out.reading, out.request, notes);
    settle_passes(out.reading, out.request, notes);
    return out;
  }

  FixQuestion question(const std::vector<ConfigFile>& files) {
    num_given_ = files.size();
    FixQuestion question{.given = read(files, Broken::Mended), .profile = {}};
    question.profile = profile_of(question.given.request);
    question.read = [this](const std::vector<ConfigFile>& changed) { return read(changed); };
    return question;
  }

 private:
  ClusterSpec cluster_;
  std::size_t num_given_ = 0;
};

inline std::vector<ConfigFile> with(std::vector<ConfigFile> files, const MendedFiles& mended) {
  for (const MendedFile& changed : mended.files) {
    const auto found = std::ranges::find(files, changed.name, &ConfigFile::name);
    if (found != files.end())
      found->text = changed.after;
    else
      files.push_back({changed.name, changed.after});
  }
  return files;
}

inline bool names(const MendedFiles& mended, const std::string& key) {
  return std::ranges::find(mended.keys, key, &KeyChange::key) != mended.keys.end();
}

inline const ConfigFile kLora{"axolotl.yaml",
                              "base_model: meta-llama/Llama-3.1-8B # ours\n"
                              "adapter: lora\n"
                              "lora_r: 16\n"
                              "lora_alpha: 32\n"
                              "lora_target_linear: true\n"
                              "sequence_len: 4096\n"
                              "sample_packing: true\n"
                              "micro_batch_size: 4  # as in the tutorial\n"
                              "gradient_accumulation_steps: 2\n"
                              "optimizer: adamw_torch_fused\n"
                              "bf16: auto\n"
                              "flash_attention: true\n"};

}  // namespace gpuplan::test
