#include "base/inflate.h"

#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "base/child_process.h"
#include "base/error.h"
#include "base/files.h"
#include "base/input_stream.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

std::string unpacked(const std::string& packed) {
  std::stringbuf in(packed);
  Inflater inflater(in, "a.gz");
  std::string out;
  for (std::string_view piece; !(piece = inflater.next()).empty();) out += piece;
  return out;
}

std::string text_of(const std::filesystem::path& file) {
  const auto in = open_stream(file);
  return {std::istreambuf_iterator<char>(*in), {}};
}

/// Words of few letters, runs, and bytes of any value: what packs well, and what does not.
std::string some_text(std::mt19937_64& random, std::size_t size) {
  std::string text;
  while (text.size() < size) {
    const std::uint64_t draw = random();
    if (draw % 3 == 0)
      text.append(draw % 400, char('a' + draw % 5));
    else if (draw % 3 == 1)
      text += "word " + std::to_string(draw % 50) + ",\n";
    else
      for (int i = 0; i < 40; ++i) text += char(random());
  }
  return text;
}

}  // namespace

TEST_CASE("gzip: what gzip packed comes back, whatever its size and strength") {
  if (find_program("gzip").empty()) return;
  const test::ScratchFolder folder;
  std::mt19937_64 random(7);
  for (const std::size_t size : {0, 1, 100, 40'000, 70'000, 900'000})
    for (const char* strength : {"-1", "-9"}) {
      const std::string text = some_text(random, size);
      const auto file = folder.path() / "text";
      write_file_atomically(file, text);
      const auto packed = output_of({"gzip", "-c", strength, file.string()});
      REQUIRE(packed);
      CHECK(unpacked(*packed) == text);
      CHECK(unpacked(*packed + *packed) == text + text);  // two members
      write_file_atomically(folder.path() / "text.gz", *packed);
      CHECK(text_of(folder.path() / "text.gz") == text);
      CHECK(text_of(file) == text);
    }
}

TEST_CASE("gzip: a file that is cut off or damaged is refused, wherever") {
  if (find_program("gzip").empty()) return;
  const test::ScratchFolder folder;
  std::mt19937_64 random(8);
  const std::string text = some_text(random, 3000);
  write_file_atomically(folder.path() / "text", text);
  const std::string packed = *output_of({"gzip", "-c", (folder.path() / "text").string()});
  for (std::size_t size = 0; size < packed.size(); size += 7)
    CHECK_THROWS_AS(unpacked(packed.substr(0, size)), InputError);
  int num_refused = 0;
  for (std::size_t at = 20; at < packed.size(); at += 11) {
    std::string damaged = packed;
    damaged[at] = char(damaged[at] ^ 0x10);
    std::string out = text;  // a bit that nothing looks at may be wrong
    try {
      out = unpacked(damaged);
    } catch (const InputError&) { ++num_refused; }
    CHECK(out == text);
  }
  CHECK(num_refused > 50);
}

}  // namespace gpuplan
