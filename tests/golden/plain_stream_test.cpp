// Names and files of strangers cannot steer the terminal that an answer is shown on.
#include <sstream>

#include <doctest/doctest.h>

#include "hostile_names.h"
#include "report/text/plain_stream.h"

namespace gpuplan {
namespace {

/// The text written in pieces of `piece` bytes.
std::string passed_on(const std::string& text, bool has_colour, std::size_t piece) {
  std::ostringstream out;
  PlainBuffer buffer(out, has_colour);
  std::ostream to(&buffer);
  for (std::size_t at = 0; at < text.size(); at += piece) to << text.substr(at, piece);
  to.flush();
  return out.str();
}

}  // namespace

TEST_CASE("a terminal gets colours and line feeds, and nothing else that it obeys") {
  const std::string text =
      "a\x1b[1;31mb\x1b[0m\n\tc\r\x1b[K \x1b]0;title\x07 \x1b[2J \xc2\x9b"
      "31m \xe2\x80\xae \x7f \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xff \x1b";
  const std::string shown =
      "a\x1b[1;31mb\x1b[0m\n\tc\r\x1b[K \\x1b]0;title\\x07 \\x1b[2J \\u009b31m \\u202e \\u007f \xc3\xa9 \xe2\x82\xac "
      "\xf0\x9f\x98\x80 \xff \\x1b";
  for (const std::size_t piece : {1, 2, 3, 5, 1000}) CHECK(passed_on(text, true, piece) == shown);
  CHECK(passed_on("\x1b[31mred", false, 1) == "\\x1b[31mred");
}

TEST_CASE("no hostile text passes, however it is cut into pieces") {
  for (const std::string& name : test::hostile_names())
    for (const std::size_t piece : {1, 4}) {
      const std::string shown = passed_on(name + "\xe2\x81\xa6\xe2\x80\xaa", false, piece);
      CHECK(shown == passed_on(name + "\xe2\x81\xa6\xe2\x80\xaa", false, 1000));
      for (const char c : shown) CHECK((static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t' || c == '\r'));
      for (const char* const bad : {"\x7f", "\xc2\x85", "\xe2\x81\xa6", "\xe2\x80\xaa"})
        CHECK(shown.find(bad) == std::string::npos);
    }
}

}  // namespace gpuplan
