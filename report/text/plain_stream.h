// A stream that a terminal only shows: names, files and plans of strangers pass through it on their way to one.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace gpuplan {

/// Passes text on to another stream. Control characters become "\x1b", and those above ASCII that a terminal obeys or
/// that turn the direction of writing become "\u202e", which in JSON is the same character. Line feeds, tabs, carriage
/// returns, and colours (SGR) where the screen has them, stay.
class PlainBuffer : public std::streambuf {
 public:
  PlainBuffer(std::ostream& to, bool has_colour) : to_(to), has_colour_(has_colour) {}

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  void pass_on(bool is_all);

  std::ostream& to_;
  bool has_colour_;
  std::string pending_;  // the beginning of a character or of a colour
};

}  // namespace gpuplan
