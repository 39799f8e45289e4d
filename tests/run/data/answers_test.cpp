// Rows of answers: each a sequence of its own behind the prompt.
#include <doctest/doctest.h>

#include "base/error.h"
#include "run/data/examples.h"
#include "run/data/token_files.h"
#include "run/files/error_text.h"
#include "scratch_folder.h"

using namespace gpuplan;
using test::check_mentions;
using test::error_text;
using test::example;

namespace {

Recipe trained_for(const char* method, std::optional<Reference> reference = {}) {
  Recipe r;
  r.framework = "native";
  r.objective.method = method;
  r.objective.reference = reference;
  return r;
}

DataOptions options(const std::filesystem::path& file, const Recipe& recipe) {
  DataOptions o{.file = file,
                .tokenizer_folder = std::filesystem::path(GPUPLAN_TEST_DIR) / "run/data/tokenizer",
                .token_dtype = {},
                .vocab_size = 100,
                .seq_len = 5};
  ask_for_answers(o, recipe);
  return o;
}

std::unique_ptr<Examples> open(const test::ScratchFolder& scratch, const std::string& content, const Recipe& recipe) {
  return open_examples(options(scratch.write("t.jsonl", content), recipe));
}

std::string error_of(const std::string& content, const Recipe& recipe) {
  const test::ScratchFolder scratch;
  return error_text<InputError>([&] { open(scratch, content, recipe); });
}

const std::string kPair = R"({"prompt": [1, 2], "chosen": [3, 4], "rejected": [5, 6, 7, 8]})";

}  // namespace

TEST_CASE("answers: a row is its answers, each behind the prompt, whose tokens have no labels") {
  const test::ScratchFolder scratch;
  const auto examples = open(scratch, kPair, trained_for("dpo"));
  CHECK(examples->size() == 1);
  // 1 2 3 4 and 1 2 5 6 7 8, which is cut at 5; labels one place to the left
  CHECK(example(*examples, 0, 10) ==
        test::Example{{1, 2, 3, 4, 0, 1, 2, 5, 6, 7}, {-100, 3, 4, -100, -100, -100, 5, 6, 7, -100}});
  CHECK(examples->describe() ==
        "t.jsonl: 1 rows of chosen and rejected, each padded or cut to 5 tokens; 1 answers are cut");
}

TEST_CASE("answers: a score stands at the last token of each") {
  const test::ScratchFolder scratch;
  const auto examples = open(scratch, kPair, trained_for("reward"));
  CHECK(example(*examples, 0, 10).labels == std::vector<std::int32_t>{-100, -100, -100, 4, -100,  //
                                                                      -100, -100, -100, -100, 7});
}

TEST_CASE("answers: without a prompt all of an answer counts, and so does all of it that is text") {
  const test::ScratchFolder scratch;
  const auto bare = open(scratch, R"({"chosen": [3, 4], "rejected": [5]})", trained_for("dpo"));
  CHECK(example(*bare, 0, 10).labels == std::vector<std::int32_t>{4, -100, -100, -100, -100,  //
                                                                  -100, -100, -100, -100, -100});
  const auto text = open(scratch, R"({"prompt": "the", "chosen": " cat", "rejected": " dog"})", trained_for("dpo"));
  const test::Example read = example(*text, 0, 10);
  CHECK(text->is_text());
  CHECK(read.ids[0] == read.ids[5]);  // the same prompt
  CHECK(read.labels[0] == (read.ids[1] == read.ids[6] ? -100 : read.ids[1]));
}

TEST_CASE("answers: what is given beside tokens stands where their labels do") {
  const test::ScratchFolder scratch;
  const auto scored = open(scratch,
                           R"({"prompt": [1, 2], "completion": [3, 4], "advantage": -1.5,)"
                           R"( "old_completion_logps": [-0.5, -0.25], "ref_completion_logps": [-1, -2]})",
                           trained_for("grpo", Reference::Precomputed));
  GivenFigures given;
  scored->add_given(0, given);
  CHECK(given.advantages == std::vector<float>{-1.5F});
  CHECK(given.old == std::vector<float>{0, 0.5F, 0.25F, 0, 0});
  CHECK(given.reference == std::vector<float>{0, 1, 2, 0, 0});

  const auto pair = open(scratch,
                         R"({"prompt": [1, 2], "chosen": [3], "rejected": [5, 6],)"
                         R"( "ref_chosen_logps": -3, "ref_rejected_logps": [-1, -2]})",
                         trained_for("dpo", Reference::Precomputed));
  GivenFigures sums;
  pair->add_given(0, sums);
  CHECK(sums.reference == std::vector<float>{0, 3, 0, 0, 0, 0, 1, 2, 0, 0});
  CHECK(sums.advantages.empty());
}

TEST_CASE("answers: mistakes are named with file and line") {
  const Recipe dpo = trained_for("dpo"), grpo = trained_for("grpo"), given = trained_for("dpo", Reference::Precomputed);
  const auto refused = [&](const std::string& content, const Recipe& recipe, const char* says) {
    const std::string text = error_of(kPair + "\n" + content, recipe);
    check_mentions(text, "t.jsonl:2");
    check_mentions(text, says);
  };
  refused(R"({"prompt": [1], "chosen": [2]})", dpo, "has no 'rejected'");
  refused(R"({"prompt": [1], "chosen": [2], "rejected": []})", dpo, "'rejected' is empty");
  refused(R"({"prompt": "a", "chosen": [2], "rejected": [3]})", dpo, "both are token ids, or both texts");
  refused(R"({"prompt": [1], "chosen": [{"role": "user"}], "rejected": [3]})", dpo, "chat template");
  refused(R"({"prompt": [1], "chosen": [100], "rejected": [3]})", dpo, "chosen[0] is 100, outside the vocabulary");
  CHECK(error_of(kPair, given).find("ref_chosen_logps") != std::string::npos);
  const std::string row = R"({"prompt": [1], "completion": [2, 3])";
  check_mentions(error_of(row + "}", grpo), "has no number 'advantage'");
  check_mentions(error_of(row + R"(, "advantage": 1, "old_completion_logps": [1]})", grpo), "no list of 2 numbers");
  check_mentions(
      error_of(row + R"(, "advantage": 1, "old_completion_logps": [1, 2]})" + "\n" + row + R"(, "advantage": 1})",
               grpo),
      "1 of its 2 rows have 'old_completion_logps'");
  const test::ScratchFolder scratch;
  check_mentions(error_text<InputError>([&] { open_examples(options(scratch.write("t.bin", "abcd"), dpo)); }),
                 "no answers to compare");
}
