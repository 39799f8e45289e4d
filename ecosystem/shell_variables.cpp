#include "ecosystem/shell_variables.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace gpuplan {

std::string ShellValue::joined() const { return fmt::format("{}", fmt::join(items, " ")); }

ShellValue unknown_value(const std::string& written) {
  const std::string shown = written.size() > 40 ? written.substr(0, 37) + "..." : written;
  std::string text = written.substr(0, 200);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }, '_');
  return {{text}, {shown}, false};
}

void add_names(std::vector<std::string>& to, const std::vector<std::string>& more) {
  constexpr std::size_t kMostNames = 16;
  for (const std::string& name : more)
    if (std::find(to.begin(), to.end(), name) == to.end() && to.size() < kMostNames) to.push_back(name);
}

const ShellValue* ShellVariables::find(const std::string& name) {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return nullptr;
  num_items_found_ += found->second.items.size();
  return &found->second;
}

void ShellVariables::assign(const std::string& name, ShellValue value) {
  if (!branches_.empty()) {
    const ShellValue* before = find(name);
    branches_.back().try_emplace(name, before ? std::optional(*before) : std::nullopt);
  }
  variables_[name] = std::move(value);
}

namespace {

/// "$1", "${2}", "$@"
bool is_own_argument(const std::string& written) {
  const std::size_t at = written.starts_with("${") ? 2 : written.starts_with("$") ? 1 : written.size();
  return at < written.size() && (std::isdigit(static_cast<unsigned char>(written[at])) != 0 || written[at] == '@');
}

}  // namespace

bool ShellVariables::open_branch() {
  constexpr std::size_t kMostBranches = 256;
  if (branches_.size() >= kMostBranches) return false;
  branches_.emplace_back();
  return true;
}

namespace {

/// The value after a branch that may have been taken.
ShellValue either_value(const std::string& name, const ShellValue& before, const ShellValue& now) {
  const std::size_t had = before.items.size();
  const bool grew = before.is_array && now.is_array && now.items.size() > had &&
                    std::equal(before.items.begin(), before.items.end(), now.items.begin());
  ShellValue open = grew ? before : ShellValue{};
  open.items.push_back("$" + name);
  add_names(open.unknown, {"$" + name});
  return open;
}

}  // namespace

void ShellVariables::close_branch(BranchIs branch) {
  if (branches_.empty()) return;
  const Branch changed = std::move(branches_.back());
  branches_.pop_back();
  for (const auto& [name, before] : changed) {
    if (branch == BranchIs::Skipped) {
      if (before)
        variables_[name] = *before;
      else
        variables_.erase(name);
      continue;
    }
    if (!branches_.empty()) branches_.back().try_emplace(name, before);
    if (branch == BranchIs::Taken || !variables_.contains(name)) continue;
    ShellValue& now = variables_[name];
    const auto is_own = [](const ShellValue& v) { return v.unknown.size() == 1 && is_own_argument(v.unknown.front()); };
    if (!before && is_own(now)) variables_.erase(name);  // case $1 in --lr) LR=$2, and ${LR:-1e-4} below
    if (!before || *before == now) continue;
    if (is_own(*before)) continue;  // OUT=$1; if [ -z "$OUT" ]; then OUT=out
    now = is_own(now) ? *before : either_value(name, *before, now);
  }
}

}  // namespace gpuplan
