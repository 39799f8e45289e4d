#include "report/text/screen.h"

#include <algorithm>
#include <array>
#include <ostream>

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/names.h"
#include "base/utf8.h"
#include "report/text/notes.h"

namespace gpuplan {
namespace {

/// The locale's encoding, as the first of these variables that is set says.
bool is_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const std::string value = squash(text_of_variable(name)); !value.empty())
      return value.find("utf8") != std::string::npos;
  return false;
}

int terminal_width(int file) {
  constexpr int kNarrowest = 60, kWidest = 200, kUsual = 80;
  winsize size{};
  const int width = ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
  return std::clamp(width, kNarrowest, kWidest);
}

struct Replacement {
  std::string_view text, ascii;
};
constexpr Replacement kReplacements[]{
    {"█", "#"},  {"▉", "#"}, {"▊", "#"}, {"▋", "#"},  {"▌", "#"},  {"▍", "-"},  {"▎", "-"},   {"▏", "-"},
    {"░", "."},  {"▶", ">"}, {"★", ">"}, {"×", "x"},  {"·", "-"},  {"•", "-"},  {"–", "-"},   {"—", "-"},
    {"±", "~"},  {"µ", "u"}, {"≈", "~"}, {"≤", "<="}, {"≥", ">="}, {"→", "->"}, {"…", "..."}, {"√", "sqrt "},
    {"³", "^3"}, {"’", "'"}, {"├", "|"}, {"└", "`"},  {"│", "|"},  {"─", "-"},  {"“", "\""},  {"”", "\""}};

}  // namespace

Screen screen_of(StandardStream stream) {
  Screen screen;
  const bool is_dumb = text_of_variable("TERM") == "dumb";
  screen.has_unicode = is_utf8_locale() && !is_dumb;
  const bool is_refused = !text_of_variable("NO_COLOR").empty();  // https://no-color.org
  const std::string forced = text_of_variable("FORCE_COLOR");     // https://force-color.org
  screen.has_colour = !is_refused && !forced.empty() && forced != "0";
  if (!is_terminal(stream)) return screen;
  screen.width = terminal_width(int(stream));
  screen.has_colour |= !is_dumb && !is_refused;
  return screen;
}

std::string paint(std::string_view text, Ink ink, const Screen& screen) {
  static constexpr std::array<std::string_view, 6> kCodes{"", "1", "2", "32", "31", "36"};
  if (!screen.has_colour || ink == Ink::Plain || text.empty()) return std::string(text);
  if (text.ends_with('\n')) return paint(text.substr(0, text.size() - 1), ink, screen) + "\n";
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[std::size_t(ink)], text);
}

std::string to_ascii(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto row = std::find_if(std::begin(kReplacements), std::end(kReplacements),
                                  [&](const Replacement& r) { return text.starts_with(r.text); });
    if (row == std::end(kReplacements)) {
      out += text.front();
      text.remove_prefix(1);
    } else {
      out += row->ascii;
      text.remove_prefix(row->text.size());
    }
  }
  return out;
}

void Console::tell(std::string_view line) const {
  err << for_standard_error(printable("gpuplan: " + in_our_lines(std::string(line)))) << "\n";
}

void Console::print(std::string_view text) {
  std::ostream& to = answers_on_err ? err : out;
  if (screen.format != TableFormat::Text && text.find(kTableBegins) != std::string_view::npos)
    to << tables_alone(text);
  else
    to << (screen.has_unicode ? std::string(text) : to_ascii(text));
}

std::string tables_alone(std::string_view text) {
  std::string out;
  for (std::size_t begin; (begin = text.find(kTableBegins)) != std::string_view::npos;) {
    text.remove_prefix(begin + 1);
    const std::size_t end = std::min(text.find(kTableEnds), text.size());
    out += (out.empty() ? "" : "\n") + std::string(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace gpuplan
