#include "base/error.h"

#include <string>

#include <doctest/doctest.h>

namespace gpuplan {
namespace {

TEST_CASE("an input error says where, what, and on a second line what would be right") {
  const InputError error("--gpus", "unknown GPU 'A600'", "did you mean 'A6000'?");
  CHECK(std::string(error.what()) == "--gpus: unknown GPU 'A600'\n  did you mean 'A6000'?");
  CHECK(error.where() == "--gpus");
  CHECK(error.problem() == "unknown GPU 'A600'");
  CHECK(error.hint() == "did you mean 'A6000'?");
}

TEST_CASE("an input error without a place or a hint leaves no colon and no empty line") {
  CHECK(std::string(InputError("", "no model given").what()) == "no model given");
  CHECK(std::string(InputError("a.yaml", "unknown model 'x\nFits: yes'", "one\nhint").what()) ==
        "a.yaml: unknown model 'x\\nFits: yes'\n  one\\nhint");
  CHECK(std::string(InputError("--lora", "r must be positive").what()) == "--lora: r must be positive");
}

TEST_CASE("context is added outside and keeps the rest") {
  const InputError inner("line 3: hidden_size", "must be a whole number", "write 4096");
  const InputError outer = inner.add_context("config.json");
  CHECK(outer.where() == "config.json: line 3: hidden_size");
  CHECK(outer.problem() == inner.problem());
  CHECK(outer.hint() == inner.hint());
  CHECK(InputError("", "is empty").add_context("a.json").where() == "a.json");
  CHECK(outer.add_context("--model").where() == "--model: config.json: line 3: hidden_size");
}

TEST_CASE("a check that holds does nothing and evaluates its condition once") {
  int evaluated = 0;
  GPUPLAN_CHECK(++evaluated == 1, "counted");
  CHECK(evaluated == 1);
}

TEST_CASE("a check that fails is our bug, and names the condition and the place") {
  try {
    GPUPLAN_CHECK(1 + 1 == 3, "sums are wrong");
    FAIL("the check held");
  } catch (const BugError& error) {
    const std::string text = error.what();
    CHECK(text.starts_with("sums are wrong (check `1 + 1 == 3` failed at "));
    CHECK(text.find("error_test.cpp:") != std::string::npos);
  }
}

}  // namespace
}  // namespace gpuplan
