#include "models/rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <nlohmann/json.hpp>

#include "base/json_file.h"

namespace gpuplan {
namespace {

constexpr std::array<std::string_view, 3> kKnown{"default", "linear", "llama3"};

void read_scaling(Fields fields, RopeSpec& rope, Fields& config) {
  rope.type = fields.optional_text("rope_type").value_or(fields.optional_text("type").value_or("default"));
  rope.theta = fields.optional_number("rope_theta", kAnyNumber).value_or(rope.theta);
  rope.factor = fields.optional_number("factor", kAnyNumber).value_or(1);
  rope.low_freq_factor = fields.optional_number("low_freq_factor", kAnyNumber).value_or(1);
  rope.high_freq_factor = fields.optional_number("high_freq_factor", kAnyNumber).value_or(4);
  rope.original_positions = fields.optional_integer("original_max_position_embeddings", {1, 1 << 28}).value_or(0);
  if (rope.theta <= 0 || rope.factor <= 0) config.report("rope_scaling", "theta and factor must be positive");
  if (rope.type == "llama3" && (rope.original_positions == 0 || rope.high_freq_factor <= rope.low_freq_factor))
    config.report("rope_scaling",
                  "llama3 needs original_max_position_embeddings and high_freq_factor above low_freq_factor");
}

}  // namespace

RopeSpec read_rope(Fields& config) {
  RopeSpec rope;
  rope.theta = config.optional_number("rope_theta", kAnyNumber).value_or(rope.theta);
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (const nlohmann::json* given = config.find(key); given && given->is_object())
      read_scaling(config.fields(key), rope, config);
  return rope;
}

bool is_known_rope(const RopeSpec& rope) { return std::find(kKnown.begin(), kKnown.end(), rope.type) != kKnown.end(); }

std::vector<double> inverse_frequencies(const RopeSpec& rope, std::int64_t rotary) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < rotary / 2; ++i) out.push_back(std::pow(rope.theta, -2.0 * double(i) / double(rotary)));
  if (rope.type == "linear")
    for (double& f : out) f /= rope.factor;
  if (rope.type != "llama3") return out;
  const double original = double(rope.original_positions), longest = original / rope.low_freq_factor,
               shortest = original / rope.high_freq_factor;
  for (double& f : out) {
    const double wavelength = 2 * std::numbers::pi / f;
    const double smooth =
        (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    if (wavelength > longest)
      f /= rope.factor;
    else if (wavelength >= shortest)
      f = (1 - smooth) * f / rope.factor + smooth * f;
  }
  return out;
}

}  // namespace gpuplan
