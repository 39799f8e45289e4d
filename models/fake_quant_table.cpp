#include "models/fake_quant_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"
#include "models/recipe_names.h"

namespace gpuplan {
namespace {

FakeQuantWork work_from(Fields f) {
  FakeQuantWork work;
  f("forward_bytes", work.forward_bytes);
  f("backward_bytes", work.backward_bytes);
  f("forward_kernels", work.forward_kernels);
  f("backward_kernels", work.backward_kernels);
  f.refuse_unknown();
  return work;
}

FakeQuantTable read_fake_quant_table() {
  YamlFile file = YamlFile::read(data_dir() / "fake_quant.yaml");
  FakeQuantTable table;
  for (Fields& f : file.top().list("kinds")) {
    FakeQuantRow& row = table.rows.emplace_back();
    row.kind = parse_name<Qat>(f.text("kind"), "kind");
    f("weight_bytes", row.weight_bytes);
    f("input_bytes", row.input_bytes);
    f("value_bytes", row.value_bytes);
    f.optional("dtypes", row.dtypes);
    f.optional("inputs", row.quantises_inputs);
    row.quantises_inputs |= row.input_bytes > 0 || row.value_bytes > 0;
    if (f.has("work")) row.work = work_from(f.fields("work"));
    static_cast<void>(f.text("source"));
    f.refuse_unknown();
  }
  table.eager = work_from(file.top().fields("eager"));
  table.compiled = work_from(file.top().fields("compiled"));
  for (const char* const source : {"dtypes_source", "work_source"}) static_cast<void>(file.top().text(source));
  file.top().refuse_unknown();
  file.finish();
  return table;
}

}  // namespace

const FakeQuantTable& fake_quant_table() { return read_once<read_fake_quant_table>(); }

const FakeQuantRow& fake_quant_row(Qat kind) {
  const auto& rows = fake_quant_table().rows;
  const auto row = std::ranges::find(rows, kind, &FakeQuantRow::kind);
  GPUPLAN_CHECK(row != rows.end(), "a fake quantiser without a row");
  return *row;
}

const FakeQuantRow* find_fake_quant(std::string_view weights, std::string_view inputs) {
  const std::string both = fmt::format("{} {}", weights, inputs);
  for (const FakeQuantRow& row : fake_quant_table().rows)
    if (std::ranges::find(row.dtypes, both) != row.dtypes.end()) return &row;
  return nullptr;
}

}  // namespace gpuplan
