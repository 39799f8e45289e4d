#include "models/safetensors.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "models/safetensors_fake.h"
#include "scratch_folder.h"

using namespace gpuplan;
using test::safetensors_text;

namespace {

/// The error that reading these bytes gives; empty when they are accepted.
std::string bytes_error(const std::string& bytes) {
  const test::ScratchFolder scratch;
  try {
    read_safetensors_header(scratch.write("x.safetensors", bytes));
  } catch (const InputError& error) {
    const std::string text = error.what();
    CHECK(text.find("x.safetensors") != std::string::npos);
    CHECK(text.find("byte ") != std::string::npos);
    return text;
  }
  return {};
}

std::string header_error(const std::string& header, std::size_t data_bytes = 0) {
  return bytes_error(safetensors_text(header, data_bytes));
}

void check_mentions(const std::string& error, const std::string& part) {
  CAPTURE(error);
  CAPTURE(part);
  CHECK(error.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("a safetensors header gives names, shapes and places") {
  const test::ScratchFolder scratch;
  // The example of the format's description: 88 bytes of header, then 16 of data.
  std::string header = R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  header.resize(88, ' ');
  const auto tensors = read_safetensors_header(scratch.write("w.safetensors", safetensors_text(header, 16)));
  REQUIRE(tensors.size() == 1);
  CHECK(tensors[0].name == "w");
  CHECK(tensors[0].dtype == "F32");
  CHECK(tensors[0].shape == std::vector<std::int64_t>{2, 2});
  CHECK(tensors[0].elements == 4);
  CHECK(tensors[0].begin == 96);
  CHECK(tensors[0].end == 112);
}

TEST_CASE("scalars, empty tensors, small types and any order are accepted") {
  CHECK(
      header_error(
          R"({"s":{"dtype":"BF16","shape":[],"data_offsets":[6,8]},"e":{"dtype":"F32","shape":[0,9],"data_offsets":[6,6]},
                         "b":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]},"q":{"dtype":"F4","shape":[5],"data_offsets":[3,6]}})",
          8)
          .empty());
  CHECK(header_error("{}").empty());
}

TEST_CASE("a file cut off anywhere is refused, with the byte where it ends") {
  const std::string whole = safetensors_text(R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})", 16);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    CAPTURE(bytes);
    check_mentions(bytes_error(whole.substr(0, bytes)), fmt::format("byte {}: the file ends inside", bytes));
  }
  CHECK(bytes_error(whole).empty());
}

TEST_CASE("what is not safetensors is refused") {
  check_mentions(bytes_error(std::string(64, 'x')), "is this a safetensors file?");
  check_mentions(bytes_error("version https://git-lfs.github.com/spec/v1\noid sha256:1\n"), "Git LFS pointer");
  check_mentions(bytes_error(test::length_prefix(100'000'001) + "{}"), "a header of 100000001 bytes cannot be");
  check_mentions(bytes_error(test::length_prefix(~0ull) + "{}"), "cannot be");
  check_mentions(header_error("[1, 2, 3]"), "must start with '{'");
  check_mentions(header_error(R"({"w": )"), "not valid JSON");
  check_mentions(header_error(R"({"w": 3})"), "tensor 'w' is not an object");
}

TEST_CASE("headers that contradict themselves are refused") {
  const auto tensor = [](const char* fields, std::size_t data) {
    return header_error(fmt::format(R"({{"w":{{{}}}}})", fields), data);
  };
  check_mentions(tensor(R"("dtype":"F99","shape":[2],"data_offsets":[0,4])", 4), "unknown dtype 'F99'");
  check_mentions(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4), "takes 8 bytes");
  check_mentions(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])", 4), "takes 4 bytes");
  check_mentions(tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", 4), "needs dtype, shape");
  check_mentions(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0])", 4), "needs dtype, shape");
  check_mentions(tensor(R"("shape":[1],"data_offsets":[0,4])", 4), "needs dtype, shape");
  check_mentions(tensor(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4])", 4), "is too large");
  check_mentions(tensor(R"("dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807])", 4),
                 "is too large");
  check_mentions(tensor(R"("dtype":"U8","shape":[0],"data_offsets":[9223372036854775807,9223372036854775807])", 0),
                 "beyond any file");
  check_mentions(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])", 5), "1 bytes after the last tensor");
  check_mentions(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])", 8),
                 "4 bytes before tensor 'w' belong to no tensor");
}

TEST_CASE("overlapping tensors and repeated names are refused") {
  check_mentions(
      header_error(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
          6),
      "tensor 'b' overlaps the one before it");
  const test::ScratchFolder scratch;
  const auto file = scratch.write(
      "x",
      safetensors_text(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
          4));
  CHECK_THROWS_WITH_AS(read_safetensors_header(file), doctest::Contains("the key 'a' comes twice"), InputError);
}

TEST_CASE("a file that is not there or is a folder cannot be read") {
  const test::ScratchFolder scratch;
  CHECK_THROWS_WITH_AS(read_safetensors_header(scratch.path() / "none"), doctest::Contains("cannot be read"),
                       InputError);
  CHECK_THROWS_AS(read_safetensors_header(scratch.path()), InputError);
}
