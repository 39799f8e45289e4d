#include "diagnose/profiler_names.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

/// A text of a name, and what names with it are.
template <class Is>
struct NamePart {
  std::string text;
  Is is{};
};
template <class Is>
using NameParts = std::vector<NamePart<Is>>;

struct NameRows {
  NameParts<KernelClass> kernels, ops;  // lower case
  NameParts<EventKind> categories;
  NameParts<FramedPart> frames;
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return out;
}

template <class Is>
NameParts<Is> read_parts(Fields& file, const char* list, const char* key) {
  NameParts<Is> out;
  for (Fields& row : file.list(list)) {
    const Is is = parse_name<Is>(row.text(key), key);
    for (std::string& text : row.texts("texts")) out.push_back({std::move(text), is});
    row.text("source");
    row.refuse_unknown();
  }
  return out;
}

NameRows read_name_rows() {
  YamlFile file = YamlFile::read(data_dir() / "profiler.yaml");
  NameRows rows{
      read_parts<KernelClass>(file.top(), "kernels", "class"), read_parts<KernelClass>(file.top(), "ops", "class"),
      read_parts<EventKind>(file.top(), "categories", "kind"), read_parts<FramedPart>(file.top(), "frames", "part")};
  for (auto* parts : {&rows.kernels, &rows.ops})
    for (auto& part : *parts) part.text = lower(part.text);
  file.top().refuse_unknown();
  file.finish();
  return rows;
}

KernelClass find(const NameParts<KernelClass>& parts, std::string_view name, KernelClass otherwise) {
  const std::string lowered = lower(name);
  const auto part =
      std::ranges::find_if(parts, [&](const auto& p) { return lowered.find(p.text) != std::string::npos; });
  return part == parts.end() ? otherwise : part->is;
}

}  // namespace

KernelClass class_of_kernel(std::string_view name) {
  return find(read_once<read_name_rows>().kernels, name, KernelClass::Memory);
}

KernelClass class_of_op(std::string_view name) {
  return find(read_once<read_name_rows>().ops, name, KernelClass::Count);
}

EventKind kind_of_category(std::string_view category) {
  const auto& rows = read_once<read_name_rows>().categories;
  const auto row = std::ranges::find(rows, category, &NamePart<EventKind>::text);
  return row == rows.end() ? EventKind::Other : row->is;
}

FramedPart framed_by(std::string_view name) {
  const auto& rows = read_once<read_name_rows>().frames;
  const auto row = std::ranges::find_if(rows, [&](const auto& r) { return name.starts_with(r.text); });
  return row == rows.end() ? FramedPart::None : row->is;
}

}  // namespace gpuplan
