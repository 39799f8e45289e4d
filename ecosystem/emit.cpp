#include "ecosystem/emit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/names.h"
#include "base/utf8.h"

namespace gpuplan {
namespace {

constexpr std::array<std::string_view, 11> kYamlWords{"y",  "n",   "yes",  "no", "true", "false",
                                                      "on", "off", "null", "~",  ""};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
/// Letters first, then only what no YAML reader takes for anything else.
bool is_plain(std::string_view text) {
  const std::string lower = to_lower(text);
  if (std::find(kYamlWords.begin(), kYamlWords.end(), lower) != kYamlWords.end()) return false;
  if (!is_letter(text.front())) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '/'; });
}

/// The next code point of valid UTF-8, and its length.
struct CodePoint {
  char32_t value = 0;
  std::size_t length = 1;
};

CodePoint code_point_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return char32_t(static_cast<unsigned char>(text[i])); };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  char32_t value = first & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) value = (value << 6U) | (byte(i) & 0x3FU);
  return {value, length};
}

/// Says whether a code point may stand as it is in a YAML file: c-printable without the line ends of Unicode.
bool is_printable(char32_t c) {
  if (c < 0x20 || (c >= 0x7F && c < 0xA0)) return false;
  return c != 0x2028 && c != 0x2029 && c != 0xFEFF && c != 0xFFFE && c != 0xFFFF;
}

std::string valid_utf8(std::string_view text) {
  std::string out(text);
  while (const auto bad = first_invalid_utf8(out)) out[*bad] = '?';
  return out;
}

std::string in_yaml_quotes(std::string_view given) {
  const std::string text = valid_utf8(given);
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = code_point_at(std::string_view(text).substr(i));
    if (point.value == '"' || point.value == '\\')
      out += fmt::format("\\{}", text[i]);
    else if (is_printable(point.value))
      out += text.substr(i, point.length);
    else
      out += fmt::format("\\u{:04X}", std::uint32_t(point.value));
    i += point.length;
  }
  return out + "\"";
}

std::string yaml_number(double value) {
  std::string text = fmt::format("{}", value);  // the fewest digits that read back
  const std::size_t mark = text.find('e');
  if (text.find('.') == std::string::npos) text.insert(mark == std::string::npos ? text.size() : mark, ".0");
  return text;
}

std::string yaml_scalar(const OrderedJson& value) {
  if (value.is_string()) return yaml_word(value.get<std::string>());
  if (value.is_number_float()) return yaml_number(value.get<double>());
  return value.dump();  // whole numbers, true, false, null
}

void add_mapping(std::string& out, const OrderedJson& mapping, const std::string& indent);

/// Mappings below each other, each with a dash at its first key.
void add_items(std::string& out, const OrderedJson& items, const std::string& indent) {
  for (const OrderedJson& item : items) {
    std::string block;
    add_mapping(block, item, indent + "  ");
    block[indent.size()] = '-';
    out += block;
  }
}

std::string yaml_list(const OrderedJson& items) {
  std::string out;
  for (const OrderedJson& item : items) out += (out.empty() ? "" : ", ") + yaml_scalar(item);
  return "[" + out + "]";
}

void add_mapping(std::string& out, const OrderedJson& mapping, const std::string& indent) {
  for (const auto& [key, value] : mapping.items()) {
    out += indent + yaml_word(key) + ":";
    if (value.is_object() && !value.empty()) {
      out += "\n";
      add_mapping(out, value, indent + "  ");
    } else if (value.is_array() && !value.empty() && value.front().is_object()) {
      out += "\n";
      add_items(out, value, indent);
    } else if (value.is_array()) {
      out += " " + yaml_list(value) + "\n";
    } else {
      out += " " + (value.is_object() ? "{}" : yaml_scalar(value)) + "\n";
    }
  }
}

/// Texts and numbers of JSON are those of TOML. What stands in a table comes before the tables below it.
void add_table(std::string& out, const OrderedJson& table, const std::string& path) {
  for (const auto& [key, value] : table.items())
    if (!value.is_object()) out += fmt::format("{} = {}\n", key, value.dump());
  for (const auto& [key, value] : table.items()) {
    if (!value.is_object()) continue;
    const std::string below = path.empty() ? key : path + "." + key;
    out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", below);
    add_table(out, value, below);
  }
}

}  // namespace

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-+:=@,";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  std::string out = "'";
  for (const char c : text)
    if (c == '\'')
      out += "'\\''";
    else if (c != '\0')  // no argument can hold one
      out += c;
  return out + "'";
}

std::string yaml_word(std::string_view text) {
  return !text.empty() && is_plain(text) ? std::string(text) : in_yaml_quotes(text);
}

std::string yaml_text(const OrderedJson& mapping) {
  std::string out;
  add_mapping(out, mapping, "");
  return out;
}

std::string toml_text(const OrderedJson& mapping) {
  std::string out;
  add_table(out, mapping, "");
  return out;
}

std::string comment_word(std::string_view given) {
  const std::string text = valid_utf8(given);
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = code_point_at(std::string_view(text).substr(i));
    out += is_printable(point.value) ? text.substr(i, point.length) : "?";
    i += point.length;
  }
  return out;
}

}  // namespace gpuplan
