// Fake quantisers of quantisation-aware training, as data/fake_quant.yaml has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/recipe.h"

namespace gpuplan {

/// Memory traffic per element, and kernels.
struct FakeQuantWork {
  double forward_bytes{}, backward_bytes{};
  std::int64_t forward_kernels{}, backward_kernels{};
};

/// Bytes that backward keeps of an element beside the value that is multiplied.
struct FakeQuantRow {
  Qat kind{};
  double weight_bytes{}, input_bytes{};  // input_bytes 0: inputs are not quantised
  double value_bytes{};                  // of that value; 0: the compute dtype's
  bool quantises_inputs{};               // where nothing of them is kept beside their values
  std::optional<FakeQuantWork> work{};   // its own, eager or compiled; unset: the table's
  std::vector<std::string> dtypes{};     // "int4 none": of weights and inputs, as files name them together
};

struct FakeQuantTable {
  std::vector<FakeQuantRow> rows;
  FakeQuantWork eager, compiled;
};

const FakeQuantTable& fake_quant_table();

/// Requires: `kind` is not None.
const FakeQuantRow& fake_quant_row(Qat kind);

/// The row of weights and inputs that are named so, inputs "none" for 16 bit; nullptr where there is none.
const FakeQuantRow* find_fake_quant(std::string_view weights, std::string_view inputs);

}  // namespace gpuplan
