#include "base/names.h"

#include <doctest/doctest.h>

#include "base/edit_distance.h"
#include "base/error.h"

namespace gpuplan {
namespace {

using Names = std::vector<std::string>;

std::string problem_of(std::string_view text, long long at_least) {
  try {
    parse_integer(text, "--gpus", at_least);
  } catch (const InputError& error) {
    CHECK(error.where() == "--gpus");
    return error.problem();
  }
  return "accepted";
}

TEST_CASE("squash: case and separators do not tell names apart") {
  CHECK(squash("Llama 3 8B") == "llama38b");
  CHECK(squash("llama-3-8b") == squash("Llama_3.8/B"));
  CHECK(squash("") == "");
  CHECK(squash(" -_./") == "");
}

TEST_CASE("to_lower leaves bytes that are not ASCII letters alone") { CHECK(to_lower("GPU-É7") == "gpu-É7"); }

TEST_CASE("nearest: one slip in a short name is found") {
  CHECK(nearest("A600", {"H100", "A6000", "T4"}) == Names{"A6000"});  // one letter is missing
  CHECK(nearest("dpp", {"ddp", "fsdp"}) == Names{"ddp"});             // one letter is wrong
  CHECK(nearest("ddpp", {"ddp", "mp"}) == Names{"ddp"});              // one letter too many
}

TEST_CASE("nearest: two neighbouring letters that are swapped are one slip") {
  // Without swaps "fdsp" is 2 edits from "fsdp", more than the 4 / 3 = 1 that four letters may differ by.
  CHECK(nearest("fdsp", {"ddp", "fsdp", "hsdp"}).front() == "fsdp");
  CHECK(nearest("zreo2", {"zero1", "zero2"}) == Names{"zero2"});
}

TEST_CASE("nearest: candidates come back best first, then in the order of the table, at most `most`") {
  CHECK(nearest("zero4", {"zero3", "zero4x", "zero1", "zero2"}) == Names{"zero3", "zero4x", "zero1"});
  CHECK(nearest("zero4", {"zero3", "zero1", "zero2"}, 1) == Names{"zero3"});
  CHECK(nearest("zero4", {"zero3"}, 0).empty());
}

TEST_CASE("nearest: part of a longer name counts as near") {
  CHECK(nearest("H100", {"h100-sxm", "h100-pcie", "a100-pcie"}) == Names{"h100-sxm", "h100-pcie"});
}

TEST_CASE("nearest: two letters are too few to count as part of a name") {
  // "l4" is in "l40s" and in "tesla-l4-old"; the first is 2 edits away (allowed: 4 / 3 = 1).
  CHECK(nearest("l4", {"l40s", "tesla-l4-old"}).empty());
}

TEST_CASE("nearest: spelling that only differs in case or separators comes first") {
  CHECK(nearest("LLAMA3_8B", {"llama-3.1-8b", "llama-3-8b"}).front() == "llama-3-8b");
}

TEST_CASE("nearest: nothing is near to noise, to nothing, or among nothing") {
  CHECK(nearest("qqqqqq", {"ddp", "fsdp"}).empty());
  CHECK(nearest("", {"ddp", "fsdp"}).empty());
  CHECK(nearest("ddp", {}).empty());
}

TEST_CASE("nearest: a candidate listed twice is suggested once") {
  CHECK(nearest("dd", {"ddp", "ddp"}) == Names{"ddp"});
}

TEST_CASE("a slip is a letter or two, of short names one") {
  CHECK(is_slip("gradient_acumulation_step", "gradient_accumulation_steps"));
  CHECK(is_slip("Load-In-4bit", "load_in_4bit"));
  CHECK(is_slip("lora_rr", "lora_r"));
  CHECK_FALSE(is_slip("lora_rank", "lora_r"));
  CHECK_FALSE(is_slip("prompt_method", "method"));
  CHECK_FALSE(is_slip("load_4bit", "load_in_4bit"));
}

TEST_CASE("did_you_mean quotes one name, several names, or falls back") {
  CHECK(did_you_mean("A600", {"A6000"}) == "did you mean 'A6000'?");
  CHECK(did_you_mean("zero4", {"zero1", "zero2"}) == "did you mean one of 'zero1', 'zero2'?");
  CHECK(did_you_mean("qqqqqq", {"ddp"}, "see gpuplan gpus") == "see gpuplan gpus");
  CHECK(did_you_mean("qqqqqq", {"ddp"}) == "");
}

TEST_CASE("split keeps empty parts and trims each part") {
  CHECK(split("a, b ,c", ',') == Names{"a", "b", "c"});
  CHECK(split("", ',') == Names{""});
  CHECK(split(",", ',') == Names{"", ""});
  CHECK(split("4xA6000", ',') == Names{"4xA6000"});
}

TEST_CASE("trim removes white space at both ends only") {
  CHECK(trim(" \t a b \n") == "a b");
  CHECK(trim(" \t\n") == "");
}

TEST_CASE("parse_integer reads a whole number and nothing beside it") {
  CHECK(parse_integer(" 8 ", "--gpus", 1) == 8);
  CHECK(parse_integer("-3", "x", -5) == -3);
  CHECK(parse_integer("9223372036854775807", "x", 0) == 9223372036854775807LL);
  for (const char* text : {"", " ", "8x", "x8", "8.0", "1e3", "0x8", "--8", "8 8"}) {
    CAPTURE(text);
    CHECK(problem_of(text, 1) == "'" + std::string(text) + "' is not a whole number");
  }
}

TEST_CASE("parse_integer says whether a number is too small or too large for any use") {
  CHECK(problem_of("0", 1) == "0 is too small");
  CHECK(problem_of("-1", 0) == "-1 is too small");
  CHECK(problem_of("9223372036854775808", 0) == "9223372036854775808 is out of range");  // 2^63
}

TEST_CASE("parse_number reads decimals and exponents, and refuses what is not finite") {
  CHECK(parse_number(" 1.5 ", "x") == 1.5);
  CHECK(parse_number("2e-4", "x") == 2e-4);
  CHECK(parse_number("-3", "x") == -3);
  for (const char* text : {"", "nan", "inf", "1e999", "1,5", "1.5 s", "1.2.3"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_number(text, "x"), InputError);
  }
}

}  // namespace
}  // namespace gpuplan
