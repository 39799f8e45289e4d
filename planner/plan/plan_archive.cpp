#include "planner/plan/plan_archive.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/names.h"

namespace gpuplan {
namespace {

constexpr std::array kPreferences{NameRow<Preference>{"speed", Preference::Speed},
                                  NameRow<Preference>{"cost", Preference::Cost},
                                  NameRow<Preference>{"memory", Preference::Memory}};

std::string shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

}  // namespace

std::span<const NameRow<Preference>> preference_names() { return kPreferences; }
std::string_view to_string(Preference preference) { return name_in(preference_names(), preference); }

void PlanProblems::add(const InputError& error, const std::string& prefix) {
  const std::string problem =
      error.hint().empty() ? error.problem() : fmt::format("{}; {}", error.problem(), error.hint());
  if (error.where() != where_)  // "file: key"
    return add(
        prefix + (error.where().starts_with(where_ + ": ") ? error.where().substr(where_.size() + 2) : error.where()),
        problem);
  constexpr std::string_view kLine = "\n  ";  // JsonFields lists several as "2 problems:\n  key: text\n  key: text"
  auto begin = problem.find(kLine);
  if (begin == std::string::npos) return add(prefix.empty() ? prefix : prefix.substr(0, prefix.size() - 1), problem);
  while (begin != std::string::npos) {
    begin += kLine.size();
    const auto end = problem.find(kLine, begin);
    const std::string line = problem.substr(begin, end == std::string::npos ? end : end - begin);
    const auto colon = line.find(": ");
    add(prefix + line.substr(0, colon), colon == std::string::npos ? "" : line.substr(colon + 2));
    begin = end;
  }
}

void PlanProblems::finish() const {
  if (lines_.empty()) return;
  const std::string hint = "docs/plan.schema.json describes the file";
  if (lines_.size() == 1) throw InputError(fmt::format("{}: {}", where_, lines_[0].key), lines_[0].problem, hint);
  std::string text = fmt::format("{} problems:", lines_.size());
  for (const Line& line : lines_) text += fmt::format("\n  {}: {}", line.key, line.problem);
  throw InputError(where_, text, hint);
}

bool PlanReader::operator()(const char* key, double& value, RealRange range) {
  const auto found = require(key) ? fields_.optional_number(key) : std::nullopt;
  if (!found) return false;
  if (*found < range.least || *found > range.most) {
    fields_.report(key, *found < range.least ? fmt::format("{} is too small, must be {} or more", *found, range.least)
                                             : fmt::format("{} is too large, must be {} or less", *found, range.most));
    return false;
  }
  value = *found;
  return true;
}

bool PlanReader::operator()(const char* key, std::vector<std::string>& values) {
  const nlohmann::json* found = any(key);
  if (!found) return false;
  if (!found->is_array() ||
      !std::all_of(found->begin(), found->end(), [](const auto& item) { return item.is_string(); }))
    return report_type(key, "a list of texts in quotes", *found);
  values = found->get<std::vector<std::string>>();
  return true;
}

bool PlanReader::operator()(const char* key, std::vector<Bytes>& values) {
  const auto is_amount = [](const nlohmann::json& item) {
    if (item.is_number_unsigned()) return item.get<std::uint64_t>() <= std::uint64_t(kMostBytes);
    return item.is_number_integer() && item.get<std::int64_t>() >= 0 && item.get<std::int64_t>() <= kMostBytes;
  };
  const nlohmann::json* found = any(key);
  if (!found) return false;
  if (!found->is_array() || !std::all_of(found->begin(), found->end(), is_amount))
    return report_type(key, fmt::format("a list of whole numbers from 0 to {}", kMostBytes), *found);
  values.clear();
  for (const auto& item : *found) values.push_back({item.get<std::int64_t>()});
  return true;
}

void PlanReader::close() {
  fields_.refuse_unknown();
  try {
    fields_.finish();
  } catch (const InputError& error) { problems_.add(error); }
}

bool PlanReader::require(const char* key) {
  if (fields_.find(key)) return true;
  fields_.report(key, fields_.has(key) ? "is null, a value is needed" : "is missing");
  return false;
}

bool PlanReader::report_type(std::string_view key, std::string_view wanted, const nlohmann::json& found) {
  fields_.report(key, fmt::format("must be {}, found {}", wanted, shown(found)));
  return false;
}

bool PlanReader::report_name(const char* key, const std::string& given, const std::string& meant,
                             const std::vector<std::string>& names) {
  const std::string advice = meant.empty()
                                 ? did_you_mean(given, names, fmt::format("use one of {}", fmt::join(names, ", ")))
                                 : fmt::format("did you mean '{}'?", meant);
  fields_.report(key, fmt::format("unknown name '{}': {}", given, advice));
  return false;
}

bool PlanReader::choose(const char* key, const std::string& given, Dtype& value) {
  try {
    const Dtype dtype = parse_dtype(given, key);
    if (to_string(dtype) == given) return value = dtype, true;
    return report_name(key, given, std::string(to_string(dtype)), {});
  } catch (const InputError& error) {
    fields_.report(key, fmt::format("{}; {}", error.problem(), error.hint()));
    return false;
  }
}

bool PlanReader::choose(const char* key, const std::string& given, FabricKind& value) {
  const auto fabric = find_fabric(given);
  if (fabric) return value = *fabric, true;
  return report_name(key, given, {}, fabric_names());
}

}  // namespace gpuplan
