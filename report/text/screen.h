// What the answer is shown on: how wide, with which colours and characters. The default is a pipe.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/name_table.h"

namespace gpuplan {

constexpr int kPipeWidth = 100;

/// Says how tables are given: for people, or alone and to paste.
enum class TableFormat : std::uint8_t { Text, Markdown, Csv };
inline constexpr std::array kTableFormats{NameRow<TableFormat>{"text", TableFormat::Text},
                                          NameRow<TableFormat>{"md", TableFormat::Markdown},
                                          NameRow<TableFormat>{"csv", TableFormat::Csv}};
constexpr NameTable<TableFormat> names_of(TableFormat) { return {"format", kTableFormats}; }

struct Screen {
  int width = kPipeWidth;
  bool has_colour = false;
  bool has_unicode = true;  // else bars and stars are drawn in ASCII
  TableFormat format{};     // other than Text: of an answer its tables alone are printed, with all their columns
};

/// The terminal behind a stream, or a pipe. Reads NO_COLOR, FORCE_COLOR, TERM and the locale's variables.
Screen screen_of(StandardStream stream);

/// Names what a piece of text means; the six basic colours read well on light and dark.
enum class Ink : unsigned char { Plain, Strong, Faint, Good, Bad, Accent };

std::string paint(std::string_view text, Ink ink, const Screen& screen);

/// Bars, stars and dashes replaced by ASCII of the same width.
std::string to_ascii(std::string_view text);

/// Around a table of an answer that is not Text; no text that is shown holds these characters.
inline constexpr char kTableBegins = '\x02', kTableEnds = '\x03';
/// The tables of such an answer, an empty line between them.
std::string tables_alone(std::string_view text);

/// Says where a command reads and writes. Only the answer goes to `out`. Both pass on what a terminal only shows
/// (report/text/plain_stream.h); `raw` is for the output of a program that the user named.
struct Console {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  std::ostream& raw;
  Screen screen;
  std::string command_line;  // as it was typed
  std::vector<std::string> arguments;
  bool answers_on_err = false;  // a file has standard output

  /// Writes an answer to `out`, in ASCII where the screen has nothing else.
  void print(std::string_view text);
  /// Writes "gpuplan: " and a line to `err`; a name in it may hold what a terminal would obey.
  void tell(std::string_view line) const;
};

}  // namespace gpuplan
