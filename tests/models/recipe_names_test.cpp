#include <doctest/doctest.h>

#include "base/error.h"
#include "models/recipe_names.h"

using namespace gpuplan;

namespace {

template <class Enum>
void check_table(std::span<const NameRow<Enum>> rows) {
  for (const NameRow<Enum>& row : rows) {
    CAPTURE(row.name);
    CHECK(find_name(rows, row.name) == &row);  // no spelling is hidden behind another
    CHECK(find_name(rows, name_in(rows, row.value))->value == row.value);
  }
}

}  // namespace

TEST_CASE("no spelling of a recipe's choices stands for two values") {
  check_table(method_names());
  check_table(quant_names());
  check_table(precision_names());
  check_table(attention_names());
  check_table(loss_names());
  check_table(kernels_names());
  check_table(checkpointing_names());
  check_table(offload_names());
  check_table(packing_names());
}

TEST_CASE("recipe names: every value has one canonical spelling, and aliases and slips are understood") {
  CHECK(to_string(Precision::Bf16Mixed) == "bf16-mixed");
  CHECK(parse_precision("bf16", "--precision") == Precision::Bf16Mixed);
  CHECK(parse_precision("AMP", "--precision") == Precision::Bf16Mixed);
  CHECK(parse_precision("BF16_true", "--precision") == Precision::Bf16True);
  CHECK(parse_attention("flash_attention_2", "--attention") == AttentionKernel::Flash);
  CHECK_THROWS_WITH_AS(parse_attention("flahs", "--attention"),
                       "--attention: unknown attention kernel 'flahs'\n  did you mean 'flash'?", InputError);
  CHECK_THROWS_WITH_AS(parse_packing("xyzzy", "--packing"),
                       "--packing: unknown packing 'xyzzy'\n  use one of packed, padded, dynamic", InputError);
  CHECK(parse_checkpointing_choice("every=4", "--checkpointing").every == 4);
  CHECK(parse_checkpointing_choice("Every-2", "--checkpointing").kind == Checkpointing::EveryK);
  CHECK(parse_checkpointing_choice("full", "--checkpointing").kind == Checkpointing::Full);
  CHECK_THROWS_AS(parse_checkpointing_choice("every=0", "--checkpointing"), InputError);
  CHECK_THROWS_AS(parse_checkpointing_choice("every-k", "--checkpointing"), InputError);
}
