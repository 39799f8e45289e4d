#include "base/toml_file.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/narrow.h"

// Lists and inline tables inside each other. With the dots of a line below it bounds the depth of what the library
// keeps, which it frees by recursion.
#define TOML_MAX_NESTED_VALUES 32
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostDots = 200;  // of one line: each dot of a key is a table
constexpr int kMostDepth = 64;

[[noreturn]] void fail(const std::string& file, std::int64_t line, const std::string& problem) {
  throw InputError(fmt::format("{}:{}", file, line), problem, "TOML 1.0 is read");
}

void refuse_deep_keys(std::string_view text, const std::string& file) {
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::string_view here = text.substr(0, text.find('\n'));
    if (std::ranges::count(here, '.') > kMostDots)
      fail(file, line, fmt::format("has more than {} dots: too many keys below each other", kMostDots));
    text.remove_prefix(std::min(text.size(), here.size() + 1));
  }
}

class TreeBuilder {
 public:
  explicit TreeBuilder(ValueTree& tree) : tree_(tree) {}

  json read_table(const toml::table& table, const std::string& path) {
    json out = json::object();
    for (const auto& [key, value] : table) {
      const std::string name(key.str()), at = path.empty() ? name : path + "." + name;
      place(at, key.source());
      out[name] = read(value, at);
    }
    return out;
  }

 private:
  void place(const std::string& path, const toml::source_region& source) {
    ValueTree::Place& place = tree_.places[path];
    place.line = place.key_line = narrow<int>(source.begin.line);
    place.order = tree_.places.size();
  }

  json read_list(const toml::array& list, const std::string& path) {
    json out = json::array();
    for (const toml::node& item : list) {
      const std::string at = fmt::format("{}[{}]", path, out.size());
      place(at, item.source());
      out.push_back(read(item, at));
    }
    return out;
  }

  json read(const toml::node& node, const std::string& path) {
    if (depth_ == kMostDepth) fail(tree_.file, node.source().begin.line, "values too deep inside each other");
    ++depth_;
    json out = read_kind(node, path);
    --depth_;
    return out;
  }

  json read_kind(const toml::node& node, const std::string& path) {
    return node.visit([&](const auto& value) -> json {
      if constexpr (toml::is_table<decltype(value)>)
        return read_table(value, path);
      else if constexpr (toml::is_array<decltype(value)>)
        return read_list(value, path);
      else if constexpr (toml::is_floating_point<decltype(value)>) {
        if (!std::isfinite(*value)) fail(tree_.file, node.source().begin.line, path + " is no finite number");
        return *value;
      } else if constexpr (toml::is_date<decltype(value)> || toml::is_time<decltype(value)> ||
                           toml::is_date_time<decltype(value)>) {
        std::ostringstream text;
        text.imbue(std::locale::classic());
        text << *value;
        return text.str();
      } else
        return *value;
    });
  }

  ValueTree& tree_;
  int depth_ = 0;
};

}  // namespace

std::shared_ptr<ValueTree> parse_toml(std::string_view text, const std::string& file) {
  refuse_deep_keys(text, file);
  auto tree = std::make_shared<ValueTree>();
  tree->file = file;
  tree->format = FileFormat::Yaml;  // whose places are kept
  try {
    tree->root = TreeBuilder(*tree).read_table(toml::parse(text, file), "");
  } catch (const toml::parse_error& error) { fail(file, error.source().begin.line, std::string(error.description())); }
  return tree;
}

}  // namespace gpuplan
