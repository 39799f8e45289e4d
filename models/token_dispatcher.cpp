#include "models/token_dispatcher.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

std::vector<TokenDispatcher> read_dispatchers() {
  YamlFile file = YamlFile::read(data_dir() / "token_dispatchers.yaml");
  std::vector<TokenDispatcher> rows;
  for (Fields& f : file.top().list("dispatchers")) {
    TokenDispatcher& row = rows.emplace_back();
    f("name", row.name);
    f("title", row.title);
    f("sends_once", row.sends_once);
    f("source", row.source);
    f.refuse_unknown();
  }
  file.top().refuse_unknown();
  file.finish();
  return rows;
}

}  // namespace

std::span<const TokenDispatcher> token_dispatchers() { return read_once<read_dispatchers>(); }

const TokenDispatcher& find_token_dispatcher(std::string_view name) {
  const std::string wanted = squash(name);
  std::vector<std::string> names;
  for (const TokenDispatcher& row : token_dispatchers()) {
    if (squash(row.name) == wanted) return row;
    names.push_back(row.name);
  }
  throw InputError("--dispatcher", fmt::format("unknown dispatcher '{}'", name),
                   did_you_mean(name, names, fmt::format("known: {}", fmt::join(names, ", "))));
}

const TokenDispatcher& row_named(std::string_view name, std::type_identity<TokenDispatcher>) {
  return name.empty() ? token_dispatchers().front() : find_token_dispatcher(name);
}

double mean_groups_reached(std::int64_t groups, std::int64_t experts, std::int64_t chosen) {
  const std::int64_t size = experts / groups;
  double none = 1;
  for (std::int64_t i = 0; i < chosen; ++i)
    none *= double(std::max<std::int64_t>(0, experts - size - i)) / double(experts - i);
  return double(groups) * (1 - none);
}

}  // namespace gpuplan
