#include "models/trained_names.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/names.h"
#include "models/expert_layout.h"
#include "models/layer_marks.h"

namespace gpuplan {
namespace {

/// "24-27,31" holds 25. Nothing where it is no such list.
std::optional<bool> holds_number(std::string_view list, std::int64_t number) {
  bool holds = false;
  const auto read = [](std::string_view text) -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    return end.ec == std::errc{} && end.ptr == text.data() + text.size() ? std::optional(value) : std::nullopt;
  };
  for (const std::string& part : split(std::string(list), ',')) {
    const std::size_t dash = part.find('-');
    const auto first = read(std::string_view(part).substr(0, dash));
    const auto last = dash == std::string::npos ? first : read(std::string_view(part).substr(dash + 1));
    if (!first || !last) return std::nullopt;
    holds |= *first <= number && number <= *last;
  }
  return holds;
}

/// The part of a path that begins at `at`.
std::string_view part_at(std::string_view path, std::size_t at) {
  return path.substr(at, std::min(path.find('.', at), path.size()) - at);
}

/// A part of digits is one of numbers: "7", "24-31", "3,7,11".
bool says_numbers(std::string_view part) {
  return !part.empty() && part[0] >= '0' && part[0] <= '9' &&
         part.find_first_not_of("0123456789,-") == std::string_view::npos;
}

struct Cursor {
  std::size_t name = 0, text = 0;
};

/// Passes one letter of the name other than '*', or a part of numbers, and what it means in the text.
bool pass(std::string_view name, std::string_view text, Cursor& at) {
  const bool begins_part = at.name == 0 || name[at.name - 1] == '.';
  const std::string_view numbers = part_at(name, at.name);
  if (!begins_part || !says_numbers(numbers)) return at.text < text.size() && name[at.name++] == text[at.text++];
  const std::string_view digits = part_at(text, std::min(at.text, text.size()));
  std::int64_t number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (read.ec != std::errc{} || read.ptr != digits.data() + digits.size()) return false;
  at = {at.name + numbers.size(), at.text + digits.size()};
  return holds_number(numbers, number).value_or(false);
}

/// Says whether the name means a beginning of the text that ends at a dot or at the end. The last '*' alone is tried
/// with more, so the work is at most their lengths multiplied.
bool means_beginning(std::string_view name, std::string_view text) {
  Cursor at, star;
  bool has_star = false;
  for (;;) {
    const bool is_through = at.name == name.size();
    if (is_through && (at.text == text.size() || text[at.text] == '.')) return true;
    if (!is_through && name[at.name] == '*') {
      star = {++at.name, at.text};
      has_star = true;
      continue;
    }
    if (!is_through && pass(name, text, at)) continue;
    if (!has_star || star.text == text.size()) return false;
    at = {star.name, ++star.text};
  }
}

/// "layers.3,30-40" as layers.3 and layers.40: the last layer of each range, which must be there too. Experts are
/// alike, and their numbers are not looked at.
std::vector<std::string> last_of_ranges(const std::string& name) {
  std::vector<std::string> lasts;
  const std::vector<std::string> parts = split(name, '.');
  const auto numbers = std::ranges::find_if(parts, [](const std::string& part) { return says_numbers(part); });
  if (numbers == parts.end() || (numbers != parts.begin() && *(numbers - 1) == "experts")) return lasts;
  const auto index = numbers - parts.begin();
  for (const std::string& range : split(*numbers, ',')) {
    std::vector<std::string> own = parts;
    own[std::size_t(index)] = range.substr(range.find('-') + 1);  // npos + 1 is 0: no range
    lasts.push_back(fmt::format("{}", fmt::join(own, ".")));
  }
  return lasts;
}

std::vector<std::string> modules_of(const ModelWeights& weights) {
  std::vector<std::string> modules;
  const auto add = [&](const std::vector<WeightTensor>& list) {
    for (const WeightTensor& t : list)
      if (std::ranges::find(modules, module_name(t.name)) == modules.end()) modules.push_back(module_name(t.name));
  };
  add(weights.before);
  for (const LayerKind& kind : weights.kinds) add(kind.tensors);
  add(weights.after);
  return modules;
}

}  // namespace

bool names_parameter(std::string_view name, std::string_view parameter) {
  if (name.empty()) return false;
  for (std::size_t at = 0; at != std::string_view::npos;) {
    if (means_beginning(name, parameter.substr(at))) return true;
    const std::size_t dot = parameter.find('.', at);
    at = dot == std::string_view::npos ? dot : dot + 1;
  }
  return false;
}

std::vector<std::string> parse_trained_names(std::string_view text, std::string_view where) {
  std::vector<std::string> names;
  for (const std::string& part : split(std::string(text), '+')) {
    const std::string name(trim(part));
    if (name.empty()) throw InputError(std::string(where), "has an empty name", "for example layers.24-31+lm_head");
    for (const std::string& own : split(name, '.'))
      if (says_numbers(own) && !holds_number(own, 0))
        throw InputError(std::string(where), fmt::format("'{}' is no list of numbers", own),
                         "for example layers.24-31 or layers.3,7,11");
    names.push_back(name);
  }
  return names;
}

std::string parameter_name(const LayerKind& kind, std::int64_t position, const WeightTensor& tensor) {
  const auto numbered = [](std::string text, std::int64_t number) {
    if (const std::size_t at = text.find("{}"); at != std::string::npos) text.replace(at, 2, std::to_string(number));
    return text;
  };
  const std::int64_t layer = position - kind.offset;
  if (tensor.name.starts_with('/')) return numbered(tensor.name.substr(1), layer);  // not relative to its layer
  return numbered(kind.prefix, layer) + numbered(tensor.name, 0);
}

std::optional<InputError> mark_frozen(ModelWeights& weights, const std::vector<std::string>& trained) {
  std::vector<bool> is_used(trained.size());
  std::vector<std::string> missing;  // layers that a range ends with
  for (const std::string& name : trained) {
    const std::vector<std::string> lasts = last_of_ranges(name);
    missing.insert(missing.end(), lasts.begin(), lasts.end());
  }
  const auto is_trained = [&](const std::string& parameter) {
    bool is_named = false;
    for (std::size_t i = 0; i < trained.size(); ++i)
      if (names_parameter(trained[i], parameter)) is_named = is_used[i] = true;
    if (is_named) std::erase_if(missing, [&](const std::string& name) { return names_parameter(name, parameter); });
    return is_named;
  };
  for (auto* list : {&weights.before, &weights.after})
    for (WeightTensor& t : *list) t.is_frozen = !is_trained(t.name);
  bool is_before = true;
  const bool is_marked = mark_layers(weights, [&](LayerKind& kind, std::int64_t position) {
    for (WeightTensor& t : kind.tensors) {
      t.is_frozen = !is_trained(parameter_name(kind, position, t));
      is_before &= t.is_frozen;
    }
    kind.is_before_trained = is_before;
  });
  if (!is_marked) return InputError("--train-only", "more than 255 kinds of layers differ in what is trained");
  const auto unused = std::ranges::find(is_used, false);
  if (unused == is_used.end() && !missing.empty())
    return InputError("--train-only", fmt::format("the model has no '{}'", missing.front()),
                      fmt::format("it has {} layers, which are counted from 0", weights.num_layers()));
  if (unused == is_used.end()) return {};
  const std::string& name = trained[std::size_t(unused - is_used.begin())];
  const std::vector<std::string> modules = modules_of(weights);
  return InputError("--train-only", fmt::format("the model has no parameter or module '{}'", name),
                    did_you_mean(name, modules, fmt::format("modules: {}", fmt::join(modules, ", "))));
}

}  // namespace gpuplan
