// Single values of a TOML text: what is not named stays, byte for byte, and the text reads as wanted.
#include "mend/toml_text.h"

#include <doctest/doctest.h>

namespace gpuplan {

namespace {

const std::string kText =
    "# ours\nmax_steps = 500 # short\n\n[deployment]\nnum_train_gpus = 4\n\n[trainer.model]\nseq_len = 16_384\n"
    "names = [\n  \"a\",\n]\n\n[[orchestrator.source]]\nname = \"a # b\"\n";

std::string with(const std::string& key, const OrderedJson& value) {
  return toml_with(kText, key, value).value_or("no place");
}

std::string changed(const std::string& old_part, const std::string& new_part) {
  std::string out = kText;
  return out.replace(out.find(old_part), old_part.size(), new_part);
}

}  // namespace

TEST_CASE("a value of a TOML text changes in its line, beside its comment") {
  CHECK(with("max_steps", 20) == changed("max_steps = 500", "max_steps = 20"));
  CHECK(with("deployment.num_train_gpus", 2) == changed("num_train_gpus = 4", "num_train_gpus = 2"));
  CHECK(with("trainer.model.seq_len", 8192) == changed("16_384", "8192"));
  CHECK(with("max_steps", nullptr) == changed("max_steps = 500 # short\n", ""));
  CHECK(with("trainer.model.names", 1) == "no place");  // over several lines
}

TEST_CASE("a key that is new stands in the part of its table, or in a new part") {
  CHECK(with("bench", true) == changed("# short\n", "# short\nbench = true\n"));
  CHECK(with("deployment.num_infer_gpus", 2) ==
        changed("num_train_gpus = 4\n", "num_train_gpus = 4\nnum_infer_gpus = 2\n"));
  CHECK(with("trainer.model.lora.rank", 8) == kText + "\n[trainer.model.lora]\nrank = 8\n");
  CHECK(with("inference.vllm.mode", "a \"b\"") == kText + "\n[inference.vllm]\nmode = \"a \\\"b\\\"\"\n");
  // a table made by dots has no part of its own, and takes no second one
  const std::string dotted = "[trainer]\nmodel.seq_len = 1\n";
  CHECK(toml_with(dotted, "trainer.model.ac", 2) == dotted + "model.ac = 2\n");
  CHECK(toml_with("", "a", 1) == "a = 1\n");
  CHECK(toml_with("a = {b = 1}\r\n", "c", 1) == "a = {b = 1}\r\nc = 1\r\n");
  CHECK_FALSE(toml_with("a = {b = 1}\n", "a.b", 2));
}

}  // namespace gpuplan
