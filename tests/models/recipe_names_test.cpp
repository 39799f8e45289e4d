#include <doctest/doctest.h>

#include "base/error.h"
#include "models/recipe_names.h"

using namespace gpuplan;

namespace {

template <class Enum>
void check_table() {
  const NameTable<Enum> table = names_of(Enum{});
  for (const NameRow<Enum>& row : table.rows) {
    CAPTURE(row.name);
    CHECK(table.find(row.name) == &row);  // no spelling is hidden behind another
    CHECK(table.find(to_string(row.value))->value == row.value);
  }
}

}  // namespace

TEST_CASE("no spelling of a recipe's choices stands for two values") {
  check_table<Method>();
  check_table<BaseQuant>();
  check_table<Precision>();
  check_table<AttentionKernel>();
  check_table<LossKernel>();
  check_table<LayerKernels>();
  check_table<Checkpointing>();
  check_table<OffloadTarget>();
  check_table<Packing>();
}

TEST_CASE("recipe names: every value has one canonical spelling, and aliases and slips are understood") {
  CHECK(to_string(Precision::Bf16Mixed) == "bf16-mixed");
  CHECK(parse_name<Precision>("bf16", "--precision") == Precision::Bf16Mixed);
  CHECK(parse_name<Precision>("AMP", "--precision") == Precision::Bf16Mixed);
  CHECK(parse_name<Precision>("BF16_true", "--precision") == Precision::Bf16True);
  CHECK(parse_name<AttentionKernel>("flash_attention_2", "--attention") == AttentionKernel::Flash);
  CHECK_THROWS_WITH_AS(parse_name<AttentionKernel>("eagr", "--attention"),
                       "--attention: unknown attention kernel 'eagr'\n  did you mean 'eager'?", InputError);
  CHECK_THROWS_WITH_AS(parse_name<Packing>("xyzzy", "--packing"),
                       "--packing: unknown packing 'xyzzy'\n  use one of packed, padded, dynamic", InputError);
  CHECK(parse_checkpointing_choice("every=4", "--checkpointing").every == 4);
  CHECK(parse_checkpointing_choice("Every-2", "--checkpointing").kind == Checkpointing::EveryK);
  CHECK(parse_checkpointing_choice("full", "--checkpointing").kind == Checkpointing::Full);
  CHECK_THROWS_AS(parse_checkpointing_choice("every=0", "--checkpointing"), InputError);
  CHECK_THROWS_AS(parse_checkpointing_choice("every-k", "--checkpointing"), InputError);
}
