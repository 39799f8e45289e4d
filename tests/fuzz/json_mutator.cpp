// Mutates JSON by its structure for targets whose input is JSON: bytes changed at random are hardly ever valid, so they
// never reach what stands behind the parser. Every fourth time the bytes are mutated all the same.
#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "fuzz/fuzz_input.h"
#include "models/framework.h"
#include "models/optimizers.h"
#include "models/recipe_names.h"
#include "planner/strategy.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using namespace gpuplan;
using nlohmann::json;
using Random = std::minstd_rand;

template <class List>
auto& any_of(List& list, Random& random) {
  return list[random() % list.size()];
}

/// Every name that a field of a plan may hold.
std::vector<std::string> known_names() {
  std::vector<std::string> names;
  const auto add = [&](const auto& rows) {
    for (const auto& row : rows) names.emplace_back(row.name);
  };
  add(names_of(Method{}).rows), add(names_of(BaseQuant{}).rows), add(names_of(Precision{}).rows);
  add(names_of(AttentionKernel{}).rows), add(names_of(LossKernel{}).rows), add(names_of(LayerKernels{}).rows);
  add(names_of(Checkpointing{}).rows), add(names_of(OffloadTarget{}).rows), add(names_of(Packing{}).rows);
  add(optimizers());
  add(list_frameworks());
  for (const std::string_view name : strategy_names()) names.emplace_back(name);
  for (const char* name : {"fp32", "bf16", "fp16", "u8", "lm_head", "embed_tokens", "q_proj", "all-linear"})
    names.emplace_back(name);
  return names;
}

void collect(json& value, std::vector<json*>& all) {
  all.push_back(&value);
  if (value.is_structured())
    for (json& item : value) collect(item, all);
}

json number_like(const json& old, Random& random) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  static const std::vector<json> odd{0,
                                     1,
                                     2,
                                     3,
                                     7,
                                     64,
                                     1000,
                                     1 << 20,
                                     std::int64_t(1) << 31,
                                     -1,
                                     0.5,
                                     1e-12,
                                     1e9,
                                     1e30,
                                     -0.0,
                                     kMost,
                                     std::int64_t(1) << 53,
                                     1e300,
                                     1.0 / 3,
                                     100'000};
  if (!old.is_number() || random() % 2 == 0) return any_of(odd, random);
  if (!old.is_number_integer()) return old.get<double>() * (random() % 2 == 0 ? 2 : 0.5);
  const auto number = std::clamp<std::int64_t>(old.get<std::int64_t>(), -kMost / 4, kMost / 4);
  const std::int64_t options[]{number + 1, number - 1, 2 * number, number / 2, 10 * (number / 4)};
  return options[random() % 5];
}

void change(json& value, Random& random) {
  static const std::vector<std::string> names = known_names();
  const auto kind = random() % 8;
  if (kind == 0)
    value = nullptr;
  else if (value.is_boolean())
    value = !value.get<bool>();
  else if (value.is_number())
    value = number_like(value, random);
  else if (value.is_string())
    value = any_of(names, random);
  else if (kind == 1)
    value = json::array({any_of(names, random)});
  else if (kind == 2)
    value = number_like(value, random);
  else if (value.is_array() && !value.empty())
    value.push_back(json(any_of(value, random)));
  else if (value.is_object() && !value.empty() && kind == 3)
    value.erase(std::next(value.begin(), long(random() % value.size())));
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  Random random(seed);
  if (random() % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  json document = json::parse(data, data + size, nullptr, false);
  if (document.is_discarded()) return LLVMFuzzerMutate(data, size, max_size);
  for (auto left = 1 + random() % 3; left > 0; --left) {
    std::vector<json*> all;
    collect(document, all);
    change(*any_of(all, random), random);
  }
  const std::string text = document.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}
