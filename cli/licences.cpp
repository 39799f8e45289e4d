#include "cli/licences.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/files.h"
#include "base/yaml_file.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

/// "name  what", the second column `indent` columns in, below where the name is too long.
std::string terms_line(const std::string& name, const std::string& what, int indent, const Screen& screen) {
  const std::string rest(std::size_t(indent), ' ');
  const std::string first = "  " + name;
  if (width_of(first) + 2 <= indent) return wrap(what, prose_width(screen), pad_right(first, indent), rest);
  return first + "\n" + wrap(what, prose_width(screen), rest, rest);
}

}  // namespace

Licences read_licences() {
  Licences all;
  YamlFile file = YamlFile::read(data_dir() / "licences.yaml");
  Fields top = file.top();
  for (Fields& row : top.list("libraries")) {
    all.libraries.push_back({.name = row.text("name"), .licence = row.text("licence"), .use = row.text("use")});
    row.refuse_unknown();
  }
  for (Fields& row : top.list("sources")) {
    SourceTerms& one = all.sources.emplace_back();
    one.name = row.text("name");
    one.licence = row.text("licence");
    one.checked = row.optional_text("checked").value_or("");
    one.marks = row.texts("marks");
    one.marks.push_back(one.name);
    row.refuse_unknown();
  }
  file.finish("the fields are explained at the top of the file");
  return all;
}

std::string licences_text(const Licences& licences, const Screen& screen) {
  constexpr int kLibraries = 26, kSources = 34;
  const int width = prose_width(screen);
  std::string out = wrap(
      fmt::format("gpuplan {} is licensed under the Apache License, Version 2.0 (Apache-2.0): you may use, change and "
                  "pass it on under its terms. The files LICENSE and NOTICE have the text.",
                  GPUPLAN_VERSION),
      width, "", "");
  out += heading("Libraries it is built with", screen);
  for (const LibraryTerms& one : licences.libraries)
    out += terms_line(one.name, fmt::format("{}: {}", one.licence, one.use), kLibraries, screen);
  out += heading("Sources of its data", screen);
  out += wrap(
      "Facts of these sources are stated in data/, each with its source; their text and code are not. Terms that "
      "were read have the place behind them; the others are generally known and were not checked.",
      width, "", "");
  for (const SourceTerms& one : licences.sources)
    out += terms_line(one.name, one.checked.empty() ? one.licence : fmt::format("{} ({})", one.licence, one.checked),
                      kSources, screen);
  return out;
}

}  // namespace gpuplan
