#include "run/files/content.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files.h"
#include "run/files/tensor_files.h"
#include "scratch_folder.h"

using namespace gpuplan;

namespace {

void write_model(const std::filesystem::path& folder, std::uint8_t value) {
  std::filesystem::create_directories(folder);
  const std::vector<std::byte> data(64, std::byte(value));
  write_tensors(folder, "model", {{.name = "w", .dtype = Dtype::U8, .shape = {64}, .data = data}});
}

}  // namespace

TEST_CASE("content: of every byte and not of the place") {
  const test::ScratchFolder scratch;
  const auto a = scratch.write("a", "some tokens"), b = scratch.write("folder/b", "some tokens");
  const auto other = scratch.write("other", "some tokenz");
  CHECK(content_digest(a) == content_digest(b));
  CHECK(content_digest(a) != content_digest(other));
  CHECK(content_digest(scratch.write("none", "")).starts_with("0:"));
  CHECK_THROWS_AS(content_digest(scratch.path() / "missing"), InputError);
}

TEST_CASE("content: one byte of a large file, wherever it is, makes another") {
  const test::ScratchFolder scratch;
  const std::string bytes(40 << 20, 'a');
  const auto file = scratch.write("large", bytes);
  const std::string before = content_digest(file);
  const auto write_at = [&](std::size_t at, char byte) {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(std::streamoff(at)), out.put(byte);
  };
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{130} << 10, (std::size_t{16} << 20) - 1, std::size_t{16} << 20, bytes.size() - 1}) {
    CAPTURE(at);
    write_at(at, 'b');
    CHECK(content_digest(file) != before);
    write_at(at, 'a');
  }
  CHECK(content_digest(file) == before);
  std::ofstream(file, std::ios::binary | std::ios::app) << 'a';
  CHECK(content_digest(file) != before);
}

TEST_CASE("content: weights are the same wherever their folder lies, and others once they are changed in place") {
  const test::ScratchFolder scratch;
  write_model(scratch.path() / "a", 1), write_model(scratch.path() / "deep/b", 1), write_model(scratch.path() / "c", 2);
  const auto digest = [&](const char* folder) { return weights_digest(scratch.path() / folder); };
  CHECK(digest("a") == digest("deep/b"));
  CHECK(digest("a") == digest("a/"));
  CHECK(digest("a") != digest("c"));
  CHECK_THROWS_AS(digest("none"), InputError);
}
