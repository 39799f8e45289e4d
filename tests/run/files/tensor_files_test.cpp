#include "run/files/tensor_files.h"

#include <cstring>
#include <deque>
#include <iterator>
#include <numeric>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "device/narrow_floats.h"
#include "models/safetensors.h"
#include "run/files/error_text.h"
#include "run/files/failing_disk.h"
#include "scratch_folder.h"

using namespace gpuplan;
using test::check_mentions;
using test::error_text;

namespace {

template <class T>
TensorToWrite tensor_of(std::string name, Dtype dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  return {.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .data = std::as_bytes(std::span(values))};
}

/// A tensor of `count` floats whose i-th is `first` + i.
TensorToWrite counting(std::string name, std::int64_t count, float first) {
  static std::deque<std::vector<float>> values;  // what tensors point to
  std::vector<float>& own = values.emplace_back(std::size_t(count));
  std::iota(own.begin(), own.end(), first);
  return tensor_of(std::move(name), Dtype::F32, {count}, own);
}

std::vector<float> floats(const MappedTensor& tensor, std::int64_t begin, std::int64_t end) {
  std::vector<float> out(std::size_t(end - begin));
  read_elements(tensor, begin, end, out.data(), Dtype::F32);
  return out;
}

std::ptrdiff_t num_files(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

}  // namespace

TEST_CASE("tensors that were written are read back, whole or in part, in every pair of dtypes") {
  const test::ScratchFolder scratch;
  const std::vector<float> values{1,    -2.5F, 3.140625F, 65504, 0.00006103515625F,
                                  1e30F};  // the last is infinite in fp16
  std::vector<std::uint16_t> half, bf16;
  for (const float v : values) half.push_back(float_to_f16(v)), bf16.push_back(float_to_bf16(v));
  write_tensors(scratch.path(), "model",
                {tensor_of("f", Dtype::F32, {2, 3}, values), tensor_of("h", Dtype::F16, {6}, half),
                 tensor_of("b", Dtype::BF16, {3, 2}, bf16)});
  const TensorFiles files(scratch.path());
  CHECK(floats(files.get("f", {2, 3}), 0, 6) == values);
  CHECK(floats(*files.find("f"), 2, 5) == std::vector<float>(values.begin() + 2, values.begin() + 5));
  for (std::size_t i = 0; i < 6; ++i) {
    const auto at = std::int64_t(i);
    CHECK(floats(*files.find("h"), at, at + 1)[0] == f16_to_float(half[i]));
    CHECK(floats(*files.find("b"), at, at + 1)[0] == bf16_to_float(bf16[i]));
    for (const auto& [name, as_float] :
         {std::pair{"f", values[i]}, {"h", f16_to_float(half[i])}, {"b", bf16_to_float(bf16[i])}}) {
      std::uint16_t bits = 0;
      read_elements(*files.find(name), at, at + 1, &bits, Dtype::BF16);
      CHECK(bits == float_to_bf16(as_float));
    }
  }
}

TEST_CASE("reading the same elements again gives the same, although their pages were given back") {
  const test::ScratchFolder scratch;
  write_tensors(scratch.path(), "model", {counting("w", 10'000, 0)});
  const TensorFiles files(scratch.path());
  const auto first = floats(*files.find("w"), 0, 10'000);
  CHECK(first[9'999] == 9'999);
  CHECK(floats(*files.find("w"), 0, 10'000) == first);
}

TEST_CASE("a written file is what safetensors itself writes: wide dtypes first, then by name, header a multiple of 8") {
  const test::ScratchFolder scratch;
  const std::vector<float> one{1};
  const std::vector<std::uint16_t> half{0};
  write_tensors(scratch.path(), "adapter_model",
                {tensor_of("z", Dtype::F32, {1}, one), tensor_of("h", Dtype::F16, {1}, half),
                 tensor_of("c", Dtype::BF16, {1}, half), tensor_of("a", Dtype::F32, {1}, one)});
  const std::string text = read_file(scratch.path() / "adapter_model.safetensors");
  // F32 before BF16 before F16 (the order of safetensors' Dtype, last first), a before z.
  const std::string header =
      R"({"__metadata__":{"format":"pt","made_by":"gpuplan"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("z":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"c":{"dtype":"BF16","shape":[1],"data_offsets":[8,10]},)"
      R"("h":{"dtype":"F16","shape":[1],"data_offsets":[10,12]}})";
  CHECK(text.substr(8, header.size()) == header);
  const auto length =
      std::size_t(static_cast<unsigned char>(text[0])) + 256 * std::size_t(static_cast<unsigned char>(text[1]));
  CHECK(length % 8 == 0);
  CHECK(text.substr(8 + header.size(), length - header.size()).find_first_not_of(' ') == std::string::npos);
  CHECK(text.size() == 8 + length + 12);
  CHECK(num_files(scratch.path()) == 1);  // nothing temporary stays
}

TEST_CASE("a large model is cut into shards as transformers does, and read through its index") {
  const test::ScratchFolder scratch;
  // 10 floats take 40 bytes: 40 + 40 fit 100, the third begins a shard; 200 bytes get one of their own, before that one
  // ends.
  const std::vector<TensorToWrite> tensors{counting("c", 10, 0), counting("b", 10, 100), counting("a", 10, 200),
                                           counting("big", 50, 300)};
  write_tensors(scratch.path(), "model", tensors, 100);
  const auto index = read_json_file(scratch.path() / "model.safetensors.index.json");
  CHECK(index["metadata"]["total_size"] == 320);
  CHECK(index["weight_map"]["c"] == "model-00001-of-00003.safetensors");
  CHECK(index["weight_map"]["b"] == "model-00001-of-00003.safetensors");
  CHECK(index["weight_map"]["big"] == "model-00002-of-00003.safetensors");
  CHECK(index["weight_map"]["a"] == "model-00003-of-00003.safetensors");
  const TensorFiles files(scratch.path());
  CHECK(files.all().size() == 4);
  CHECK(floats(files.get("big", {50}), 49, 50)[0] == 349);
  CHECK(floats(files.get("b", {10}), 3, 4)[0] == 103);
}

TEST_CASE("a model written over an earlier one is not mixed with it") {
  const test::ScratchFolder scratch;
  const std::vector<TensorToWrite> tensors{counting("a", 10, 0), counting("b", 10, 0)};
  write_tensors(scratch.path(), "model", {counting("a", 10, 5), counting("old", 10, 0)});
  scratch.write("model-notes.txt", "stays");
  write_tensors(scratch.path(), "model", tensors, 40);
  CHECK(TensorFiles(scratch.path()).find("old") == nullptr);
  CHECK(num_files(scratch.path()) == 4);  // two shards, the index, the notes
  write_tensors(scratch.path(), "model", {counting("c", 10, 0)});
  CHECK(TensorFiles(scratch.path()).all().size() == 1);
  CHECK(num_files(scratch.path()) == 2);
}

TEST_CASE("what is not there or of another shape is named, with its file and both shapes") {
  const test::ScratchFolder scratch;
  check_mentions(error_text<InputError>([&] { TensorFiles files(scratch.path()); }), "no model.safetensors");
  write_tensors(scratch.path(), "model", {counting("w", 6, 0)});
  const TensorFiles files(scratch.path());
  check_mentions(error_text<InputError>([&] { files.get("v", {2, 3}); }), "no tensor 'v' [2, 3]");
  const std::string error = error_text<InputError>([&] { files.get("w", {2, 3}); });
  for (const char* part : {"model.safetensors", "'w'", "[6]", "[2, 3]"}) check_mentions(error, part);
  std::vector<std::uint16_t> room(6);
  check_mentions(error_text<InputError>([&] { read_elements(*files.find("w"), 0, 6, room.data(), Dtype::F16); }),
                 "'w'");
}

TEST_CASE("a file of any cut-off length is refused, never read past its end") {
  const test::ScratchFolder scratch;
  write_tensors(scratch.path(), "model", {counting("w", 6, 0)});
  const std::string whole = read_file(scratch.path() / "model.safetensors");
  for (std::size_t length = 0; length < whole.size(); length += 7)
    CHECK_THROWS_AS(TensorFiles(scratch.write("cut.safetensors", whole.substr(0, length))), InputError);
}

TEST_CASE("a full disk is told with what is needed and free, leaves nothing behind, and the old file as it was") {
  const test::ScratchFolder scratch;
  write_tensors(scratch.path(), "model", {counting("w", 6, 1)});
  std::string error;
  {
    const test::FailingDisk disk(4096);
    error = error_text<EnvError>([&] {
      write_tensors(scratch.path(), "model", {counting("w", 10, 0), counting("v", 2000, 0)}, 4000);
    });
  }
  for (const char* part : {"model-0000", "needs 7.9", "KiB", "free there"})
    check_mentions(error, part);  // 8,000 bytes and a header
  CHECK(num_files(scratch.path()) == 1);
  CHECK(floats(TensorFiles(scratch.path()).get("w", {6}), 0, 1)[0] == 1);
}

TEST_CASE("a model larger than the disk is refused before any of it is made") {
  const test::ScratchFolder scratch;
  const std::byte first{};  // the others are not there, and are not read
  const TensorToWrite huge{
      .name = "w", .dtype = Dtype::F32, .shape = {std::int64_t(1) << 50}, .data = {&first, std::size_t(1) << 52}};
  check_mentions(error_text<EnvError>([&] { write_tensors(scratch.path(), "model", {huge}, std::int64_t(1) << 60); }),
                 "needs 4096 TiB");
  CHECK(num_files(scratch.path()) == 0);
}
