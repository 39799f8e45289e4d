// Recognises jobs that gpuplan does not plan by the keys of their files: data/ecosystem/methods.yaml.
// Preference tuning, reinforcement learning and distillation hold further models or generate; read as supervised
// fine-tuning, their files would get figures of another job.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace gpuplan {

/// Ends a refusal of a training that generates answers or holds models of another kind.
constexpr std::string_view kPlannedMethods =
    "planned are supervised fine-tuning and, without generation, the trainings of --method";

/// A program whose files are not read, or a method of one whose files are.
struct ForeignJob {
  std::string name, why, source;         // "KTO", "it compares with a reference model"; a program has no `why`
  std::vector<std::string> formats;      // names of key tables; empty: a program that is not read
  std::vector<std::string> keys;         // with dots below mappings; "x.*" is x and all below it
  std::vector<nlohmann::json> harmless;  // values that name nothing, beside null, false and empty ones
  std::string objective;                 // the row of data/methods.yaml as which it is planned; empty: it is not

  bool is_program() const { return formats.empty(); }
  bool has_key(const std::string& key) const;
};

/// Every row. Throws InputError for a broken data file.
std::span<const ForeignJob> foreign_jobs();

/// The foreign job that a file is of, and the keys that show it.
struct ForeignSign {
  std::string name, why;            // "KTO"; "DPO, KTO or another method" where no key says which
  std::vector<std::string> keys;    // of the file, in the order of the row; the first names the job
  std::string objective;            // as which it is planned
  std::vector<std::string> others;  // jobs whose keys these are too, and whose steps are alike
  bool is_open = false;             // no key says which of several it is
};

/// The program whose own keys a file has, and gpuplan does not read; the one with most of them. `top` is a mapping.
std::optional<ForeignSign> find_foreign_program(const nlohmann::json& top);

/// The method that most keys of a file of `format` belong to; of several the one that is planned as `objective`, where
/// that is said elsewhere. `top` is a mapping.
std::optional<ForeignSign> find_foreign_method(std::string_view format, const nlohmann::json& top,
                                               std::string_view objective = {});

/// Says whether a key belongs to a method that `format` has; its value may be harmless.
bool names_foreign_method(std::string_view format, const std::string& key);

/// The word by which a key that no table knows names a second model, generation or another method; empty: none.
std::string foreign_word(std::string_view key);

}  // namespace gpuplan
