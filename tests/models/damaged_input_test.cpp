// Whatever stands in a file a user gives us, the answer is a model or an InputError.
#include <random>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/catalogue.h"
#include "models/families.h"
#include "models/hf_config.h"
#include "models/safetensors.h"
#include "models/safetensors_fake.h"
#include "models/weights.h"
#include "scratch_folder.h"

using namespace gpuplan;
using nlohmann::json;

namespace {

constexpr unsigned kSeed = 20240607;

/// `text` with a few bytes changed, removed or doubled.
std::string damage(std::string text, std::mt19937& random) {
  for (auto left = 1 + random() % 4; left > 0 && !text.empty(); --left) {
    const std::size_t at = random() % text.size();
    if (const auto kind = random() % 3; kind == 0)
      text[at] = char(random() % 256);
    else if (kind == 1)
      text.erase(at, 1 + random() % 3);
    else
      text.insert(at, text.substr(at, 1 + random() % 3));
  }
  return text;
}

/// A value that does not belong where it is put.
json odd_value(std::mt19937& random) {
  const std::vector<json> values{
      nullptr,          true,      -1,        0,         1, 7, 1e300, 1.5, "text", "", json::array(), json::object(),
      json::array({1}), INT64_MAX, INT64_MIN, UINT64_MAX};
  return values[random() % values.size()];
}

}  // namespace

TEST_CASE("damaged checkpoints are refused or read") {
  const test::ScratchFolder scratch;
  std::mt19937 random(kSeed);
  const std::string whole = test::safetensors_text(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})",
      19);
  int num_refused = 0;
  for (int i = 0; i < 2000; ++i) {
    CAPTURE(i);
    const auto file = scratch.write("x.safetensors", damage(whole, random));
    try {
      read_safetensors_header(file);
    } catch (const InputError&) { ++num_refused; }
  }
  CHECK(num_refused > 1000);
}

TEST_CASE("configs with odd values in any field are refused or read, for every family") {
  std::mt19937 random(kSeed);
  for (const Family* family : families())
    for (const CatalogueEntry& entry : list_catalogue()) {
      if (entry.model_type != family->model_type || !entry.is_modelled) continue;
      const json good = to_hf_config(load_model(entry.name).spec);
      for (const auto& [key, value] : good.items())
        for (int i = 0; i < 4; ++i) {
          json bad = good;
          bad[key] = odd_value(random);
          CAPTURE(bad.dump());
          std::int64_t parameters = 1;
          try {
            parameters = list_weights(parse_hf_config(bad, "x")).total_elements();
          } catch (const InputError&) {}
          CHECK(parameters > 0);
        }
    }
}
