#include <cmath>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_file.h"
#include "models/rope.h"

using namespace gpuplan;

namespace {

RopeSpec read(const nlohmann::json& config) {
  Fields fields(config, "config.json");
  const RopeSpec rope = read_rope(fields);
  fields.finish();
  return rope;
}

}  // namespace

TEST_CASE("rope: without scaling pair i turns by theta^(-2 i / rotary)") {
  // theta 100, rotary 4: 100^0 = 1, 100^(-1/2) = 0.1
  CHECK(inverse_frequencies({.theta = 100}, 4) == std::vector<double>{1.0, 0.1});
}

TEST_CASE("rope: linear scaling divides every angle by the factor") {
  const auto f = inverse_frequencies({.theta = 100, .type = "linear", .factor = 4}, 4);
  CHECK(f[0] == doctest::Approx(0.25));
  CHECK(f[1] == doctest::Approx(0.025));
}

TEST_CASE("rope: llama3 keeps short wavelengths, divides long ones, and blends between") {
  // original 8192, low 1, high 4: wavelengths below 2048 stay, above 8192 are divided by 8.
  const RopeSpec rope{.theta = 500000, .type = "llama3", .factor = 8, .original_positions = 8192};
  const auto plain = inverse_frequencies({.theta = 500000}, 128), scaled = inverse_frequencies(rope, 128);
  CHECK(scaled[0] == plain[0]);
  CHECK(scaled[63] == doctest::Approx(plain[63] / 8));
  // i = 32: f = 500000^(-1/2) = 0.00141421, wavelength 4442.9, smooth = (8192 / 4442.9 - 1) / 3 = 0.281284
  // f' = 0.718716 f / 8 + 0.281284 f = 0.371123 f
  CHECK(scaled[32] / plain[32] == doctest::Approx(0.371123).epsilon(1e-5));
}

TEST_CASE("rope: config keys of transformers 4 and 5 are read") {
  const nlohmann::json four{
      {"rope_theta", 500000.0},
      {"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}, {"original_max_position_embeddings", 8192}}}};
  const RopeSpec rope = read(four);
  CHECK(rope.type == "llama3");
  CHECK(rope.theta == 500000);
  CHECK(read({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e6}}}}).theta == 1e6);
  CHECK(read({{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}).type == "linear");
}

TEST_CASE("rope: llama3 without its original context is refused") {
  CHECK_THROWS_AS(read({{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}}}), InputError);
}

TEST_CASE("rope: a type that is not computed is known by name") {
  CHECK_FALSE(is_known_rope(read({{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}}})));
}
