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

TEST_CASE("content: of the bytes and not of the place; a small file is read whole either way") {
  const test::ScratchFolder scratch;
  const auto a = scratch.write("a", "some tokens"), b = scratch.write("folder/b", "some tokens");
  const auto other = scratch.write("other", "some tokenz");
  for (const ContentReach reach : {ContentReach::Sample, ContentReach::AllBytes}) {
    CHECK(content_digest(a, reach) == content_digest(b, reach));
    CHECK(content_digest(a, reach) != content_digest(other, reach));
  }
  CHECK(content_digest(a, ContentReach::Sample) == content_digest(a, ContentReach::AllBytes));
  CHECK(content_digest(scratch.write("none", ""), ContentReach::Sample).starts_with("0:"));
  std::string most(16 << 20, 'a');  // of which every byte counts
  const std::string before = content_digest(scratch.write("most", most), ContentReach::Sample);
  most[130 << 10] = 'b';
  CHECK(content_digest(scratch.write("most", most), ContentReach::Sample) != before);
  CHECK_THROWS_AS(content_digest(scratch.path() / "missing", ContentReach::Sample), InputError);
}

TEST_CASE("content: of a large file the sample sees both ends and another training, all bytes see each one") {
  const test::ScratchFolder scratch;
  std::string bytes(40 << 20, 'a');
  const auto file = scratch.write("large", bytes);
  const std::string sample = content_digest(file, ContentReach::Sample);
  const std::string all = content_digest(file, ContentReach::AllBytes);
  const auto with = [&](std::size_t at) {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(std::streamoff(at)), out.put('b'), out.close();
    const std::pair<std::string, std::string> now{content_digest(file, ContentReach::Sample),
                                                  content_digest(file, ContentReach::AllBytes)};
    std::fstream back(file, std::ios::in | std::ios::out | std::ios::binary);
    back.seekp(std::streamoff(at)), back.put('a');
    return now;
  };
  CHECK(with(0).first != sample);
  CHECK(with(bytes.size() - 1).first != sample);
  const std::size_t between = 130 << 10;  // behind the first two pieces of the sample
  CHECK(with(between).first == sample);
  CHECK(with(between).second != all);
  std::ofstream(file, std::ios::binary | std::ios::app) << 'a';
  CHECK(content_digest(file, ContentReach::Sample) != sample);
}

TEST_CASE("content: weights are the same wherever their folder lies, and others once they are changed in place") {
  const test::ScratchFolder scratch;
  write_model(scratch.path() / "a", 1), write_model(scratch.path() / "deep/b", 1), write_model(scratch.path() / "c", 2);
  const auto digest = [&](const char* folder) { return weights_digest(scratch.path() / folder, ContentReach::Sample); };
  CHECK(digest("a") == digest("deep/b"));
  CHECK(digest("a") == digest("a/"));
  CHECK(digest("a") != digest("c"));
  CHECK_THROWS_AS(digest("none"), InputError);
}
