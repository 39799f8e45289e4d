#include "diagnose/kernel_class.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

struct NamePart {
  std::string text;  // lower case
  KernelClass is{};
};

struct NameRows {
  std::vector<NamePart> kernels, ops;
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return out;
}

std::vector<NamePart> read_parts(Fields& file, const char* list) {
  std::vector<NamePart> out;
  for (Fields& row : file.list(list)) {
    const KernelClass is = parse_name<KernelClass>(row.text("class"), "class");
    for (const std::string& text : row.texts("texts")) out.push_back({lower(text), is});
    row.text("source");
    row.refuse_unknown();
  }
  return out;
}

NameRows read_name_rows() {
  YamlFile file = YamlFile::read(data_dir() / "profiler.yaml");
  NameRows rows{read_parts(file.top(), "kernels"), read_parts(file.top(), "ops")};
  file.top().refuse_unknown();
  file.finish();
  return rows;
}

KernelClass find(const std::vector<NamePart>& parts, std::string_view name, KernelClass otherwise) {
  const std::string lowered = lower(name);
  const auto part =
      std::ranges::find_if(parts, [&](const NamePart& p) { return lowered.find(p.text) != std::string::npos; });
  return part == parts.end() ? otherwise : part->is;
}

}  // namespace

KernelClass class_of_kernel(std::string_view name) {
  return find(read_once<read_name_rows>().kernels, name, KernelClass::Memory);
}

KernelClass class_of_op(std::string_view name) {
  return find(read_once<read_name_rows>().ops, name, KernelClass::Count);
}

}  // namespace gpuplan
