// The fake quantisers of quantisation-aware training around one linear: what they make, and what backward keeps of
// them.
#pragma once

#include "models/ledger/tape.h"

namespace gpuplan {

/// value: what the product reads. range: what the quantiser keeps to know which elements it cut off; kNoLocal: nothing.
struct FakeQuantised {
  LocalId value = kNoLocal, range = kNoLocal;
  bool is_made = false;
  bool exists() const { return is_made; }
};

/// Quantises the input of a linear; `in` itself where the recipe quantises none.
FakeQuantised fake_quantised_input(Tape& tape, const LinearRef& linear, LocalId in);
/// Quantises the weight, anew in each of `calls`.
FakeQuantised fake_quantised_weight(Tape& tape, const LinearRef& linear, std::int64_t calls = 1);
/// The gradient passes where nothing was cut off. `gradient`: kNoLocal where it stands in the unit's buffer.
void fake_quant_backward(Tape& tape, LocalId gradient, LocalId range);

}  // namespace gpuplan
