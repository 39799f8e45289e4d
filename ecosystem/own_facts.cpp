#include "ecosystem/own_facts.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_file.h"

namespace gpuplan {

bool is_fact_of_no_key(std::string_view fact) {
  constexpr std::array<std::string_view, 8> kFacts{"policy_loss",     "prompt_len",       "mean_prompt",
                                                   "mean_completion", "engine_sequences", "engine_version",
                                                   "engine_gpus",     "reward_seconds"};
  return std::ranges::find(kFacts, fact) != kFacts.end();
}

Setup read_own_facts(std::string_view text, const std::string& file) {
  Setup out;
  const std::size_t begin = text.starts_with(kOwnFacts) ? 0 : text.find(fmt::format("\n{}", kOwnFacts));
  if (begin == std::string_view::npos) return out;
  const std::string_view line = text.substr(begin + (begin > 0 ? 1 : 0) + kOwnFacts.size());
  const nlohmann::json facts = parse_json(std::string(line.substr(0, line.find('\n'))), file);
  for (const auto& [name, value] : facts.items()) {
    const SetupField* const field = find_setup_field(name);
    if (!field || !is_fact_of_no_key(name))
      throw InputError(file, fmt::format("its comment of gpuplan names {}", name));
    if (const std::string wanted = state(out, *field, value); !wanted.empty())
      throw InputError(file, fmt::format("{} in its comment of gpuplan must be {}", name, wanted));
  }
  return out;
}

}  // namespace gpuplan
