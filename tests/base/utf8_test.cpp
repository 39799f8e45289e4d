#include "base/utf8.h"

#include <string>

#include <doctest/doctest.h>

using namespace gpuplan;

TEST_CASE("utf8: text in any script is valid") {
  CHECK_FALSE(first_invalid_utf8(""));
  CHECK_FALSE(first_invalid_utf8("80 GiB"));
  CHECK_FALSE(first_invalid_utf8("μs, 机器, 🙂"));
  CHECK_FALSE(first_invalid_utf8(std::string("\0", 1)));
}

TEST_CASE("utf8: the first byte that is wrong is found") {
  CHECK(first_invalid_utf8("ab\xff") == 2);
  CHECK(first_invalid_utf8("\x80") == 0);              // a continuation without a start
  CHECK(first_invalid_utf8("a\xc3") == 1);             // cut off
  CHECK(first_invalid_utf8("\xe2\x82") == 0);          // cut off
  CHECK(first_invalid_utf8("\xc0\xaf") == 0);          // '/' in two bytes
  CHECK(first_invalid_utf8("\xe0\x80\x80") == 0);      // longer than needed
  CHECK(first_invalid_utf8("\xed\xa0\x80") == 0);      // a surrogate
  CHECK(first_invalid_utf8("\xf4\x90\x80\x80") == 0);  // above U+10FFFF
  CHECK(first_invalid_utf8("\xe2\x28\xa1") == 0);
}

TEST_CASE("printable: control characters are shown and not sent, everything else stays") {
  CHECK(gpuplan::printable("a\x1b[31mb\x07\x7f") == "a\\x1b[31mb\\x07\\u007f");
  CHECK(gpuplan::printable("\xc2\x9b"
                           "2J") ==
        "\\u009b"
        "2J");
  CHECK(gpuplan::printable("Müller: 3 %\n\tnext – line") == "Müller: 3 %\n\tnext – line");
  CHECK(gpuplan::printable_line("a\n\tb") == "a\\x0a\\x09b");
  CHECK(gpuplan::printable("μs, 机器, 🙂, שלום") == "μs, 机器, 🙂, שלום");
  CHECK(gpuplan::printable("\xff\x80 \xe2\x80") == "\xff\x80 \xe2\x80");  // not UTF-8: as it is
  // U+202E turns what follows round; U+2066 and U+061C change its direction too
  CHECK(gpuplan::printable("a\xe2\x80\xae"
                           "b\xe2\x81\xa6\xd8\x9c") == "a\\u202eb\\u2066\\u061c");
}
