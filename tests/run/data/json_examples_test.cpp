#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "rows/json_rows.h"
#include "rows/text_tokenizer.h"
#include "run/data/examples.h"
#include "run/data/token_files.h"
#include "run/files/error_text.h"
#include "scratch_folder.h"

using namespace gpuplan;
using test::check_mentions;
using test::error_text;
using test::example;

namespace {

const std::string kThree = R"({"input_ids": [1, 2, 3]}
{"input_ids": [4, 5, 6, 7, 8], "labels": [-100, -100, 6, 7, 8]}

{"attention_mask": [1, 1, 1], "input_ids": [9, 10, 11]})";

DataOptions options(const std::filesystem::path& file, Packing packing) {
  return {.file = file,
          .tokenizer_folder = std::filesystem::path(GPUPLAN_TEST_DIR) / "run/data/tokenizer",
          .vocab_size = 100,
          .seq_len = 4,
          .packing = packing};
}

/// What opening such a file and reading its first example throws.
template <class Error = InputError>
std::string error_of(const std::string& content, Packing packing = Packing::Packed) {
  const test::ScratchFolder scratch;
  return error_text<Error>([&] { example(*open_examples(options(scratch.write("t.jsonl", content), packing)), 0, 4); });
}

}  // namespace

TEST_CASE("packed: all documents joined and cut in blocks; a label belongs to its token, wherever the cut is") {
  const test::ScratchFolder scratch;
  const auto examples = open_examples(options(scratch.write("t.jsonl", kThree), Packing::Packed));
  CHECK(examples->size() == 2);  // 11 tokens
  // ids 1 2 3 4 | 5 6 7 8 | 9 10 11; labels 1 2 3 -100 | -100 6 7 8 | 9 10 11, each one place to the left.
  CHECK(example(*examples, 0, 4) == test::Example{{1, 2, 3, 4}, {2, 3, -100, -100}});
  CHECK(example(*examples, 1, 4) == test::Example{{5, 6, 7, 8}, {6, 7, 8, -100}});
  CHECK(example(*examples, 0, 4).ids[0] == 1);  // also backwards
  CHECK(examples->describe() == "t.jsonl: 3 examples, 11 tokens, 2 blocks of 4");
}

TEST_CASE("padded: a document a row, cut at S or filled with what counts for nothing") {
  const test::ScratchFolder scratch;
  for (const Packing packing : {Packing::Padded, Packing::Dynamic}) {
    const auto examples = open_examples(options(scratch.write("t.jsonl", kThree), packing));
    CHECK(examples->size() == 3);
    CHECK(example(*examples, 0, 4) == test::Example{{1, 2, 3, 0}, {2, 3, -100, -100}});
    CHECK(example(*examples, 1, 4) == test::Example{{4, 5, 6, 7}, {-100, 6, 7, -100}});
    CHECK(example(*examples, 2, 4) == test::Example{{9, 10, 11, 0}, {10, 11, -100, -100}});
  }
}

TEST_CASE("rows without a label that a loss sees are counted; where no row has one, the data is refused") {
  const std::string none = R"({"input_ids": [1, 2, 3], "labels": [-100, -100, -100]})"
                           "\n",
                    first = R"({"input_ids": [1, 2, 3], "labels": [1, -100, -100]})"
                            "\n",
                    late = R"({"input_ids": [1, 2, 3, 4, 5], "labels": [-100, -100, -100, -100, 5]})"
                           "\n",
                    good = R"({"input_ids": [1, 2, 3]})"
                           "\n";
  const test::ScratchFolder scratch;
  const auto described = [&](const std::string& rows, Packing packing) {
    return open_examples(options(scratch.write("t.jsonl", rows), packing))->describe();
  };
  // a padded row of 4 tokens: nothing predicts its first token, and the fifth is cut off
  check_mentions(described(none + first + late + good, Packing::Padded),
                 "; 3 of 4 rows have no label and train nothing");
  check_mentions(described(none + first + late + good, Packing::Packed),
                 "; 1 of 4 rows have no label and train nothing");
  CHECK(described(good, Packing::Padded).find("no label") == std::string::npos);
  check_mentions(error_of(none + first + late, Packing::Padded), "none of its 3 rows has a label within 4 tokens");
  check_mentions(error_of(none + none), "none of its 2 rows has a label: there is nothing to train");
}

TEST_CASE("packed blocks are the same whatever the order they are read in, and by several threads") {
  const test::ScratchFolder scratch;
  std::string lines;
  std::vector<std::int32_t> all;
  for (int row = 0; row < 200; ++row) {  // documents of 0 to 16 tokens
    std::vector<std::int32_t> ids;
    for (int i = 0; i < row * 7 % 17; ++i) ids.push_back((row + 3 * i) % 100);
    all.insert(all.end(), ids.begin(), ids.end());
    lines += fmt::format("{{\"input_ids\": [{}]}}\r\n", fmt::join(ids, ","));
  }
  const auto examples = open_examples(options(scratch.write("t.jsonl", lines), Packing::Packed));
  REQUIRE(examples->size() == std::ssize(all) / 4);
  std::vector<int> wrong(3);
  const auto compare = [&](std::size_t thread) {
    const SampleOrder order{.num_examples = examples->size(), .seed = thread};
    for (std::int64_t i = 0; i < examples->size(); ++i) {
      const std::int64_t at = order.example_at(i);
      const auto first = all.begin() + 4 * at;
      wrong[thread] += example(*examples, at, 4).ids != std::vector<std::int32_t>(first, first + 4);
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < wrong.size(); ++i) threads.emplace_back(compare, i);
  threads.clear();
  CHECK(wrong == std::vector<int>(3));
}

TEST_CASE("a wrong line is named by its number, blank lines counted") {
  const std::string good = "{\"input_ids\": [1, 2, 3, 4]}\n\n";
  check_mentions(error_of(good + "{\"input_ids\": [1, 2"), "t.jsonl:3: not valid JSON");
  check_mentions(error_of(good + "[1, 2]"), "t.jsonl:3: is not a JSON object");
  check_mentions(error_of(good + R"({"ids": [1], "mask": 2})"),
                 "t.jsonl:3: has neither 'input_ids' nor 'text' (keys: ids, mask)");
  check_mentions(error_of(good + R"({"input_ids": "1 2"})"), "t.jsonl:3: 'input_ids' is a string, not a list");
  check_mentions(error_of(good + R"({"input_ids": [1, 100]})"),
                 "t.jsonl:3: input_ids[1] is 100, outside the vocabulary of 100");
  check_mentions(error_of(good + R"({"input_ids": [1, 2.5]})"), "input_ids[1] is 2.5, not a whole number");
  check_mentions(error_of(good + R"({"input_ids": [-100]})"), "input_ids[0] is -100");
  check_mentions(error_of(good + R"({"input_ids": [18446744073709551615]})"), "not a whole number");
  check_mentions(error_of(good + R"({"input_ids": [1, 2], "labels": [1]})"), "2 input_ids but 1 labels");
  check_mentions(error_of(good + R"({"messages": []})"), "scripts/tokenise.py");
  check_mentions(error_of(" \n\n"), "holds no example");
  check_mentions(error_of("{\"input_ids\": [1, 2, 3]}"), "holds 3 tokens, less than one block of 4");
}

TEST_CASE("text is encoded by the model's SentencePiece, between begin and end of sequence") {
  const std::filesystem::path folder = std::filesystem::path(GPUPLAN_TEST_DIR) / "run/data/tokenizer";
  try {
    open_tokenizer(folder);
  } catch (const EnvError& error) {
    check_mentions(error.what(), "libsentencepiece-dev");
    MESSAGE("skipped: gpuplan was built without SentencePiece");
    return;
  }
  // spm_encode --extra_options=bos:eos gives these ids.
  CHECK(open_tokenizer(folder)->encode("the quick fox") == std::vector<std::int32_t>{1, 47, 54, 41, 2});
  const test::ScratchFolder scratch;
  scratch.write("tokenizer_config.json", R"({"add_bos_token": false})");
  std::filesystem::copy(folder / "tokenizer.model", scratch.path());
  CHECK(open_tokenizer(scratch.path())->encode("the quick fox") == std::vector<std::int32_t>{47, 54, 41, 2});

  DataOptions data = options(scratch.write("t.jsonl", "{\"text\": \"the quick fox\"}\n{\"text\": \"the quick fox\"}\n"),
                             Packing::Packed);
  data.tokenizer_folder = folder;
  CHECK(example(*open_examples(data), 1, 4) == test::Example{{2, 1, 47, 54}, {1, 47, 54, -100}});
  data.vocab_size = 50;
  check_mentions(error_text<InputError>([&] { open_examples(data); }),
                 "t.jsonl:1: the tokenizer gives 54, outside the vocabulary of 50");
  scratch.write("tokenizer.model", "broken");
  check_mentions(error_text<InputError>([&] { open_tokenizer(scratch.path()); }), "is not a SentencePiece model");
  std::filesystem::resize_file(scratch.path() / "tokenizer.model", kFileLimit.bytes + 1);
  check_mentions(error_text<InputError>([&] { open_tokenizer(scratch.path()); }),
                 "tokenizer.model: is larger than 256 MiB");
}

TEST_CASE("the demo's tokens are its text, as its tokenizer encodes it") {
  const std::filesystem::path demo = data_dir() / "demo";
  try {
    open_tokenizer(demo);
  } catch (const EnvError&) {
    MESSAGE("skipped: gpuplan was built without SentencePiece");
    return;
  }
  const auto rows = [&](const char* file) {
    return JsonRows({.file = demo / file, .tokenizer_folder = demo, .vocab_size = 1024, .seq_len = 256});
  };
  const JsonRows text = rows("train.jsonl"), tokens = rows("tokens.jsonl");
  REQUIRE(text.size() == tokens.size());
  for (std::int64_t row = 0; row < text.size(); ++row) CHECK(text.read(row).ids == tokens.read(row).ids);
}

TEST_CASE("text without a tokenizer.model names what tokenises it") {
  const test::ScratchFolder scratch;
  DataOptions data = options(scratch.write("t.jsonl", "{\"text\": \"a b\"}\n"), Packing::Padded);
  data.tokenizer_folder = scratch.path();
  check_mentions(error_text<InputError>([&] { open_examples(data); }),
                 ": tokenizer.model not found; it is required for text data");
  scratch.write("tokenizer.json", "{}");
  check_mentions(error_text<InputError>([&] { open_examples(data); }), "python3 scripts/tokenise.py");
}
