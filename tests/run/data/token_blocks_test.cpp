#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "base/error.h"
#include "run/data/examples.h"
#include "run/data/token_files.h"
#include "run/files/error_text.h"
#include "sanitized.h"
#include "scratch_folder.h"

using namespace gpuplan;
using test::check_mentions;
using test::counting;
using test::error_text;
using test::packed_bytes;

namespace {

std::string llmc_header(std::int32_t magic, std::int32_t version, std::int32_t num_tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = magic, header[1] = version, header[2] = num_tokens;
  return packed_bytes(header);
}

/// As numpy.save writes it: version 1, header padded so that the data begins at a multiple of 64.
std::string npy(const std::string& dictionary, const std::string& data, char version = 1) {
  std::string header = dictionary;
  const std::size_t before = version == 1 ? 10 : 12;
  header.resize((before + header.size() + 1 + 63) / 64 * 64 - before, ' ');
  header.back() = '\n';
  std::string length{char(header.size() & 0xff), char(header.size() >> 8)};
  if (version != 1) length += std::string(2, '\0');
  return std::string("\x93NUMPY") + version + '\0' + length + header + data;
}

std::string npy_1d(const std::string& descr, std::size_t count, const std::string& data) {
  return npy("{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",), }", data);
}

/// What opening `content` under `name` and reading its first block throws.
std::string error_of(const std::string& name, const std::string& content,
                     DataOptions options = {.vocab_size = 1000, .seq_len = 4}) {
  const test::ScratchFolder scratch;
  options.file = scratch.write(name, content);
  return error_text<InputError>([&] { test::example(*open_examples(options), 0, options.seq_len); });
}

}  // namespace

namespace {

/// Memory of this process that no file stands behind (proc(5), status: RssAnon, in kB).
std::int64_t held_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) << 10;
  return 0;
}

}  // namespace

TEST_CASE("files of a gigabyte are not held in memory") {
  constexpr std::uintmax_t kGigabyte = std::uintmax_t(1) << 30;
  const test::ScratchFolder scratch;
  const auto tokens = scratch.write("t.bin", "");
  std::filesystem::resize_file(tokens, kGigabyte);
  const auto array = scratch.write("t.npy", npy_1d("<u2", kGigabyte / 2, ""));
  std::filesystem::resize_file(array, std::filesystem::file_size(array) + kGigabyte);
  std::string rows;
  while (rows.size() < std::size_t(48) << 20)
    rows += R"({"input_ids":[1,2,3,4],"note":")" + std::string(100'000, 'x') + "\"}\n";
  const auto lines = scratch.write("t.jsonl", rows);
  rows = {};
  rows.shrink_to_fit();
  for (const auto& file : {tokens, array, lines}) {
    CAPTURE(file.filename().string());
    const std::int64_t before = held_bytes();
    REQUIRE(before > 0);
    const auto examples = open_examples({.file = file, .vocab_size = 1000, .seq_len = 4});
    for (const std::int64_t index : {std::int64_t(0), examples->size() / 2, examples->size() - 1})
      test::example(*examples, index, 4);
    if (!test::kIsSanitized) CHECK(held_bytes() - before < std::int64_t(24) << 20);
  }
}

TEST_CASE("block i begins at token i S; labels are the next tokens, the last one has none, a short rest is left out") {
  const test::ScratchFolder scratch;
  const auto file = scratch.write("t.bin", packed_bytes(counting<std::uint16_t>(11)));
  const auto examples = open_examples({.file = file, .vocab_size = 1000, .seq_len = 4});
  CHECK(examples->size() == 2);  // 11 / 4
  CHECK(test::example(*examples, 0, 4) == test::Example{{0, 1, 2, 3}, {1, 2, 3, -100}});
  CHECK(test::example(*examples, 1, 4) == test::Example{{4, 5, 6, 7}, {5, 6, 7, -100}});
  CHECK(examples->describe() == "t.bin: 11 tokens of uint16, 2 blocks of 4");
}

TEST_CASE(
    "a headerless .bin is uint16 up to a vocabulary of 65,536, else uint32, and --token-dtype decides otherwise") {
  const test::ScratchFolder scratch;
  const auto narrow = scratch.write("narrow.bin", packed_bytes(counting<std::uint16_t>(8, 65'528)));
  CHECK(test::example(*open_examples({.file = narrow, .vocab_size = 65'536, .seq_len = 4}), 1, 4).ids.back() == 65'535);
  const auto wide = scratch.write("wide.bin", packed_bytes(counting<std::uint32_t>(8, 100'000)));
  CHECK(test::example(*open_examples({.file = wide, .vocab_size = 100'008, .seq_len = 4}), 1, 4).ids.back() == 100'007);
  const auto forced = scratch.write("forced.bin", packed_bytes(counting<std::uint32_t>(8)));
  CHECK(open_examples({.file = forced, .token_dtype = Dtype::I32, .vocab_size = 100, .seq_len = 4})->size() == 2);
  CHECK(open_examples({.file = forced, .token_dtype = Dtype::I16, .vocab_size = 100'000, .seq_len = 4})->size() == 4);
}

TEST_CASE("token files of llm.c are recognised, of GPT-2 with 16 bits and of Llama 3 with 32") {
  const test::ScratchFolder scratch;
  const auto gpt2 = scratch.write("gpt2.bin", llmc_header(20240520, 1, 8) + packed_bytes(counting<std::uint16_t>(8)));
  CHECK(test::example(*open_examples({.file = gpt2, .vocab_size = 100'000, .seq_len = 4}), 1, 4).ids.front() == 4);
  const auto llama = scratch.write("llama.bin", llmc_header(20240801, 7, 8) + packed_bytes(counting<std::uint32_t>(8)));
  CHECK(test::example(*open_examples({.file = llama, .vocab_size = 100, .seq_len = 4}), 1, 4).ids.front() == 4);
}

TEST_CASE("a damaged .bin says what is wrong with it") {
  const std::string tokens = packed_bytes(counting<std::uint16_t>(8));
  check_mentions(error_of("t.bin", llmc_header(20240520, 2, 8) + tokens), "version 2");
  check_mentions(error_of("t.bin", llmc_header(20240520, 1, 9) + tokens),
                 "says 9 tokens of uint16, but 16 bytes follow");
  check_mentions(error_of("t.bin", tokens + "x"), "17 bytes are no whole number of uint16 tokens");
  check_mentions(error_of("t.bin", packed_bytes(counting<std::uint16_t>(3))),
                 "holds 3 tokens, less than one block of 4");
  check_mentions(error_of("t.bin", ""), "holds 0 tokens");
  check_mentions(error_of("t.bin", packed_bytes(counting<std::uint16_t>(8, 996))),
                 "t.bin: token 4: 1000 is outside the vocabulary of 1,000");
}

TEST_CASE("a .bin whose tokens are right in the other width alone is refused with the flag") {
  const auto width_error = [](const std::string& content, DataOptions options) {
    return error_of("t.bin", content, options);
  };
  // 32 bits read as 16: every second token is the upper half, 0, which is in any vocabulary
  const std::string wide = packed_bytes(counting<std::uint32_t>(100, 5));
  check_mentions(width_error(wide, {.vocab_size = 1000, .seq_len = 4}),
                 "every second token is 0, as in a file of uint32");
  check_mentions(width_error(wide, {.vocab_size = 1000, .seq_len = 4}), "--token-dtype uint32");
  CHECK(width_error(wide, {.token_dtype = Dtype::I32, .vocab_size = 1000, .seq_len = 4}) == "");
  CHECK(width_error(wide, {.token_dtype = Dtype::I16, .vocab_size = 1000, .seq_len = 4}) == "");  // who says so
  // 65,000 is outside this vocabulary in either width: the token is told, and no flag
  const std::string large = packed_bytes(std::vector<std::uint32_t>{65'000, 3, 64'999, 8});
  check_mentions(width_error(large, {.token_dtype = Dtype::I16, .vocab_size = 60'000, .seq_len = 4}),
                 "is outside the vocabulary of 60,000");  // wrong in both
  // 16 bits read as 32
  const std::string narrow = packed_bytes(counting<std::uint16_t>(100, 5));
  for (const DataOptions& options : {DataOptions{.vocab_size = 100'000, .seq_len = 4},
                                     DataOptions{.token_dtype = Dtype::I32, .vocab_size = 1000, .seq_len = 4}}) {
    check_mentions(width_error(narrow, options), "read as uint16 they are inside");
    check_mentions(width_error(narrow, options), "--token-dtype uint16");
  }
  // zeros alone, as of padding, say nothing
  CHECK(width_error(std::string(400, '\0'), {.vocab_size = 1000, .seq_len = 4}) == "");
}

TEST_CASE("a token of 64 bits is shown as it stands in the file") {
  check_mentions(error_of("t.npy", npy_1d("<u8", 4, packed_bytes(std::vector<std::uint64_t>(4, ~std::uint64_t(0))))),
                 "18446744073709551615 is outside the vocabulary of 1,000");
}

TEST_CASE("a token outside the vocabulary far into a file is found when it is read, by its position") {
  const test::ScratchFolder scratch;
  std::vector<std::uint16_t> tokens(1'000'000);
  tokens[999'999] = 77;
  const auto examples =
      open_examples({.file = scratch.write("t.bin", packed_bytes(tokens)), .vocab_size = 50, .seq_len = 100});
  CHECK(test::example(*examples, 0, 100).ids[0] == 0);
  check_mentions(error_text<InputError>([&] { test::example(*examples, 9'999, 100); }),
                 "t.bin: token 999,999: 77 is outside");
}

TEST_CASE(".npy files of every integer type and version are read") {
  const test::ScratchFolder scratch;
  const auto first_of = [&](const std::string& content) {
    return test::example(*open_examples({.file = scratch.write("t.npy", content), .vocab_size = 1000, .seq_len = 4}), 1,
                         4)
        .ids;
  };
  const std::vector<std::int32_t> second{4, 5, 6, 7};
  CHECK(first_of(npy_1d("|u1", 8, packed_bytes(counting<std::uint8_t>(8)))) == second);
  CHECK(first_of(npy_1d("<u2", 8, packed_bytes(counting<std::uint16_t>(8)))) == second);
  CHECK(first_of(npy_1d("<u4", 8, packed_bytes(counting<std::uint32_t>(8)))) == second);
  CHECK(first_of(npy_1d("<i4", 8, packed_bytes(counting<std::int32_t>(8)))) == second);
  CHECK(first_of(npy_1d("<i8", 8, packed_bytes(counting<std::int64_t>(8)))) == second);
  const std::string rows = "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 4), }",
                    data = packed_bytes(counting<std::uint16_t>(8));
  for (const char version : {'\1', '\2', '\3'}) CHECK(first_of(npy(rows, data, version)) == second);
}

TEST_CASE("a .npy that does not fit says why") {
  const std::string data = packed_bytes(counting<std::uint16_t>(8));
  check_mentions(error_of("t.npy", npy_1d(">u2", 8, data)), "'>u2', not little-endian");
  check_mentions(error_of("t.npy", npy_1d("<f4", 4, data)), "'<f4'");
  check_mentions(error_of("t.npy", npy_1d("<u2", 9, data)), "says 9 tokens of uint16, but 16 bytes follow");
  check_mentions(error_of("t.npy", npy_1d("<i8", 2, packed_bytes(counting<std::int64_t>(2, -1)))), "holds 2 tokens");
  check_mentions(error_of("t.npy", npy_1d("<i8", 4, packed_bytes(counting<std::int64_t>(4, -1)))),
                 "token 0: -1 is outside");
  check_mentions(error_of("t.npy", npy("{'descr': '<u2', 'fortran_order': False, 'shape': (4, 2), }", data)),
                 "rows of 2 tokens, but the sequence length is 4");
  check_mentions(error_of("t.npy", npy("{'descr': '<u2', 'fortran_order': True, 'shape': (2, 4), }", data)), "Fortran");
  check_mentions(error_of("t.npy", npy("{'descr': '<u2', 'fortran_order': False, 'shape': (2, 2, 2), }", data)),
                 "3 dimensions");
  check_mentions(
      error_of("t.npy", npy("{'descr': '<u2', 'fortran_order': False, 'shape': (9223372036854775807, 4), }", data)),
      "larger than any file");
  const std::string whole = npy_1d("<u2", 8, data);
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK(!error_of("t.npy", whole.substr(0, length)).empty());
}

TEST_CASE("what data a file holds is told by its name, and files that cannot be read are named") {
  check_mentions(error_of("t.txt", "x"), "t.txt: its name does not say");
  check_mentions(error_of("t.jsonl.gz", "x"), "unpack it first");
  const DataOptions missing{.file = "/nowhere/t.bin", .vocab_size = 10, .seq_len = 4};
  check_mentions(error_text<InputError>([&] { open_examples(missing); }),
                 "/nowhere/t.bin: cannot be read: No such file");
}
