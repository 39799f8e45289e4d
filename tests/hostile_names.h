// 1,000 names, paths and arguments that break what is careless with them, the same every time.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace gpuplan::test {

/// Names as nobody should give them: quotes, line ends, shell words, YAML words, controls, Unicode.
inline std::vector<std::string> hostile_names() {
  std::vector<std::string> names{"",
                                 " ",
                                 "'",
                                 "\"",
                                 "no",
                                 "NO",
                                 "~",
                                 "null",
                                 "1e3",
                                 "0x1F",
                                 "- a",
                                 "a: b",
                                 "a #b",
                                 "{",
                                 "[",
                                 "&a",
                                 "*a",
                                 "!t",
                                 "|",
                                 ">",
                                 "%",
                                 "@",
                                 "`id`",
                                 "$(id)",
                                 "${HOME}",
                                 "; rm -rf /",
                                 "a\nb: c",
                                 "\r\n",
                                 "\t",
                                 "\x7f",
                                 "\xc2\x85",
                                 "\xe2\x80\xa8",
                                 "\xef\xbb\xbf"
                                 "a",
                                 "\xf0\x9f\x98\x80",
                                 "\\",
                                 "\\n",
                                 "'; touch x; '",
                                 "--flag",
                                 "a'b\"c",
                                 "EOF",
                                 "CHECK\n",
                                 "../../etc"};
  constexpr std::array kParts{"'",
                              "\"",
                              "\n",
                              "\\",
                              "$",
                              "`",
                              ";",
                              "&",
                              "|",
                              ":",
                              " ",
                              "#",
                              "-",
                              "{",
                              "}",
                              "[",
                              "]",
                              ",",
                              "%",
                              "a",
                              "0",
                              "\t",
                              "\r",
                              "\x01",
                              "\x1b",
                              "\xc3\xa9",
                              "\xe2\x80\xa9",
                              "\xf0\x9f\x92\xa3",
                              "!",
                              "*",
                              "?",
                              "~"};
  std::mt19937 random(24);
  while (names.size() < 1000) {
    std::string name;
    for (std::uint_fast32_t length = 1 + random() % 12; length > 0; --length) name += kParts[random() % kParts.size()];
    names.push_back(name);
  }
  return names;
}

}  // namespace gpuplan::test
