#include "mend/toml_text.h"

#include <vector>

#include "base/error.h"
#include "base/names.h"
#include "base/toml_file.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr const char* kName = "changed.toml";

json root_of(const std::string& text) { return parse_toml(text, kName)->root; }

/// The values of the whole text: every way to write it is read again and compared with them.
json wanted_root(json root, const std::vector<std::string>& path, const json& value) {
  json* at = &root;
  for (std::size_t k = 0; k + 1 < path.size(); ++k) at = &(*at)[path[k]];
  if (value.is_null())
    at->erase(path.back());
  else
    (*at)[path.back()] = value;
  return root;
}

bool says(const std::string& text, const json& wanted) {
  try {
    return root_of(text) == wanted;
  } catch (const InputError&) { return false; }
}

struct TomlLine {
  std::size_t begin = 0, end = 0;  // without its line break
};

std::vector<TomlLine> lines_in(const std::string& text) {
  std::vector<TomlLine> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out.push_back({at, end > at && text[end - 1] == '\r' ? end - 1 : end});
    at = end + 1;
  }
  return out;
}

std::string_view text_of(const std::string& text, const TomlLine& line) {
  return trim(std::string_view(text).substr(line.begin, line.end - line.begin));
}

bool is_header(std::string_view line) { return line.starts_with('['); }

/// "[trainer.model]", without spaces and what stands behind it.
bool is_header_of(std::string_view line, const std::string& table) {
  std::string bare;
  for (const char c : line.substr(0, line.find('#')))
    if (c != ' ' && c != '\t') bare += c;
  return bare == "[" + table + "]";
}

std::string joined(const std::vector<std::string>& path, std::size_t first, std::size_t last) {
  std::string out;
  for (std::size_t k = first; k < last; ++k) out += (out.empty() ? "" : ".") + path[k];
  return out;
}

std::string toml_value(const OrderedJson& value) {
  const std::string line = toml_text({{"k", value}});
  return line.substr(line.find('=') + 2, line.size() - line.find('=') - 3);
}

/// The value in its line, whatever it ends with: the shortest piece that reads as the value itself.
std::optional<std::string> with_value(const std::string& text, const TomlLine& line, const json& before,
                                      const OrderedJson& value) {
  const std::size_t equals = text.find('=', line.begin);
  if (equals == std::string::npos || equals >= line.end) return {};
  const std::size_t begin = text.find_first_not_of(" \t", equals + 1);
  for (std::size_t end = begin + 1; begin < line.end && end <= line.end; ++end) {
    const std::string rest(trim(std::string_view(text).substr(end, line.end - end)));
    if (!rest.empty() && rest[0] != '#') continue;
    if (!says("k = " + text.substr(begin, end - begin) + "\n", {{"k", before}})) continue;
    if (!value.is_null()) return text.substr(0, begin) + toml_value(value) + text.substr(end);
    const std::size_t next = text.find('\n', line.begin);
    return text.substr(0, line.begin) + (next == std::string::npos ? "" : text.substr(next + 1));
  }
  return {};
}

/// Ways to add a line: in the table's own part, in a new one at the end, and with dots in the parts above.
std::vector<std::string> with_line(const std::string& text, const std::vector<std::string>& path,
                                   const OrderedJson& value) {
  const std::vector<TomlLine> lines = lines_in(text);
  const std::string line_break = text.find("\r\n") == std::string::npos ? "\n" : "\r\n";
  std::vector<std::string> out;
  const auto add_in = [&](std::size_t depth) {
    const std::string entry = joined(path, depth, path.size()) + " = " + toml_value(value);
    std::size_t first = lines.size();
    if (depth == 0) first = 0;
    for (std::size_t k = 0; depth > 0 && k < lines.size(); ++k)
      if (is_header_of(text_of(text, lines[k]), joined(path, 0, depth))) first = k + 1;
    if (depth > 0 && first == lines.size()) return;
    std::size_t behind = first;  // the last line of the part that says something
    for (std::size_t k = first; k < lines.size() && !is_header(text_of(text, lines[k])); ++k)
      if (const std::string_view line = text_of(text, lines[k]); !line.empty() && line[0] != '#') behind = k + 1;
    if (behind == 0)
      out.push_back(entry + line_break + text);
    else
      out.push_back(text.substr(0, lines[behind - 1].end) + line_break + entry + text.substr(lines[behind - 1].end));
  };
  const std::size_t own = path.size() - 1;
  add_in(own);
  if (own > 0) {
    const std::string gap = text.empty() || text.ends_with('\n') ? line_break : line_break + line_break;
    out.push_back(text + gap + "[" + joined(path, 0, own) + "]" + line_break + path.back() + " = " + toml_value(value) +
                  line_break);
  }
  for (std::size_t depth = own; depth-- > 0;) add_in(depth);
  return out;
}

}  // namespace

std::optional<std::string> toml_with(const std::string& text, const std::string& key, const OrderedJson& value) {
  if (value.is_object()) return {};
  const std::vector<std::string> path = split(key, '.');
  const auto tree = parse_toml(text, kName);
  const json* before = &tree->root;
  for (const std::string& name : path) {
    const auto below = before->is_object() ? before->find(name) : before->end();
    if (!before->is_object() || below == before->end()) {
      before = nullptr;
      break;
    }
    before = &*below;
  }
  if (!before && value.is_null()) return text;
  const json wanted = wanted_root(tree->root, path, json::parse(value.dump()));
  if (before) {
    const auto place = tree->places.find(key);
    const std::vector<TomlLine> lines = lines_in(text);
    if (place == tree->places.end() || place->second.line < 1 || std::size_t(place->second.line) > lines.size())
      return {};
    auto changed = with_value(text, lines[std::size_t(place->second.line) - 1], *before, value);
    return changed && says(*changed, wanted) ? changed : std::nullopt;
  }
  for (std::string& changed : with_line(text, path, value))
    if (says(changed, wanted)) return std::move(changed);
  return {};
}

}  // namespace gpuplan
