#include "report/text/text.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/names.h"
#include "base/narrow.h"

namespace gpuplan {
namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

/// The bytes of the first `count` characters.
std::size_t bytes_of_first(std::string_view text, int count) {
  std::size_t at = 0;
  while (at < text.size() && (count > 0 || !begins_character(text[at]))) {
    ++at;
    if (at == text.size() || begins_character(text[at])) --count;
    if (count == 0) break;
  }
  return at;
}

/// True of "%", "GiB)," and "min", which stand in the line of their number.
bool is_unit(std::string_view word) {
  static constexpr std::string_view kUnits[] = {"%", "B",  "KiB", "MiB", "GiB", "TiB", "GB", "TB",      "GB/s",
                                                "M", "ms", "us",  "s",   "min", "h",   "d",  "tokens/s"};
  const std::size_t end = word.find_last_not_of(".,;:)");
  return std::ranges::find(kUnits, word.substr(0, end == std::string_view::npos ? 0 : end + 1)) != std::end(kUnits);
}

bool ends_in_digit(std::string_view word) { return !word.empty() && word.back() >= '0' && word.back() <= '9'; }

/// Words of `text`, a number and its unit as one.
std::vector<std::string> words_to_wrap(std::string_view text) {
  std::vector<std::string> out;
  for (std::string& word : split(text, ' '))
    if (!out.empty() && ends_in_digit(out.back()) && is_unit(word))
      out.back() += ' ' + word;
    else
      out.push_back(std::move(word));
  return out;
}

}  // namespace

int width_of(std::string_view utf8) { return narrow<int>(std::count_if(utf8.begin(), utf8.end(), begins_character)); }

std::string wrap(std::string_view text, int width, std::string_view first, std::string_view rest) {
  std::string out, line(first);
  bool is_fresh = true;  // nothing but the indent on this line
  const auto end_line = [&] {
    out += line + "\n";
    line = rest;
    is_fresh = true;
  };
  for (const std::string& token : words_to_wrap(text)) {
    std::string_view word = token;
    if (!is_fresh && width_of(line) + 1 + width_of(word) > width) end_line();
    if (!is_fresh) line += ' ';
    for (int room = width - width_of(line); room > 0 && width_of(word) > room; room = width - width_of(line)) {
      std::size_t bytes = bytes_of_first(word, room);
      // behind a sign that separates parts of a long word: "a|b|", "dir/"
      if (const std::size_t sign = word.substr(0, bytes).find_last_of(",|/"); sign != std::string_view::npos)
        bytes = sign + 1;
      line += word.substr(0, bytes);
      word.remove_prefix(bytes);
      end_line();
    }
    line += word;
    is_fresh = false;
  }
  return out + line + "\n";
}

std::string pad_right(std::string text, int width) {
  text.append(std::size_t(std::max(0, width - width_of(text))), ' ');
  return text;
}

std::string pad_left(std::string text, int width) {
  return std::string(std::size_t(std::max(0, width - width_of(text))), ' ') + text;
}

std::string bar(double share, int width) {
  static constexpr std::array<std::string_view, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  std::string out;
  if (share > 1) {
    for (int i = 1; i < width; ++i) out += "█";
    return out + "▶";
  }
  const int eighths = narrow<int>(std::lround(std::max(0.0, share) * 8 * width));
  for (int i = 0; i < eighths / 8; ++i) out += "█";
  out += kEighths[std::size_t(eighths % 8)];
  while (width_of(out) < width) out += "░";
  return out;
}

int prose_width(const Screen& screen) { return std::min(screen.width, kPipeWidth); }

std::string render(const std::vector<Fact>& facts, int indent, const Screen& screen) {
  int width = 0;
  for (const Fact& fact : facts) width = std::max(width, width_of(fact.label));
  const std::string margin(std::size_t(indent), ' '), hanging(std::size_t(indent + width + 2), ' ');
  std::string out;
  for (const Fact& fact : facts) {
    if (fact.text.empty()) continue;
    const std::string text = wrap(fact.text, prose_width(screen), hanging, hanging);
    out += margin + paint(fact.label, Ink::Faint, screen) + text.substr(std::size_t(indent + width_of(fact.label)));
  }
  return out;
}

std::string heading(std::string_view title, const Screen& screen) {
  return "\n" + paint(title, Ink::Strong, screen) + "\n";
}

std::string points(const std::vector<std::string>& texts, const Screen& screen) {
  std::string out;
  for (const std::string& text : texts) out += wrap(text, prose_width(screen), "  - ", "    ");
  return out;
}

}  // namespace gpuplan
