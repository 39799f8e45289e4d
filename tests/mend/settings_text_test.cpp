#include "mend/settings_text.h"

#include <doctest/doctest.h>

#include "ecosystem/key_table.h"

using namespace gpuplan;

namespace {

SettingsText axolotl(const std::string& text) { return {{"axolotl.yaml", text}, *find_key_table("axolotl")}; }
SettingsText deepspeed(const std::string& text) { return {{"ds.json", text}, *find_key_table("deepspeed")}; }

}  // namespace

TEST_CASE("a value of YAML is replaced with its comment, its quotes and its column") {
  SettingsText text = axolotl(
      "base_model:   \"a/b\"   # which\n"
      "micro_batch_size:  4  # what fits\n"
      "optimizer: 'adamw_torch'\n"
      "my_own_key: 7\n");
  CHECK(text.put("micro_batch_size", 1));
  CHECK(text.put("optimizer", "adamw_8bit"));
  CHECK(text.text() ==
        "base_model:   \"a/b\"   # which\n"
        "micro_batch_size:  1  # what fits\n"
        "optimizer: 'adamw_8bit'\n"
        "my_own_key: 7\n");
}

TEST_CASE("a key that is absent stands behind the one that the table lists next to it") {
  SettingsText text = axolotl(
      "base_model: a/b\n"
      "bf16: true\n"
      "# the run\n"
      "num_epochs: 3\n");
  CHECK(text.put("gradient_checkpointing", true));
  CHECK(text.put("gradient_accumulation_steps", 4));
  // bf16 is the nearest row before gradient_checkpointing, and the others stand together with it
  CHECK(text.text() ==
        "base_model: a/b\n"
        "bf16: true\n"
        "gradient_checkpointing: true\n"
        "gradient_accumulation_steps: 4\n"
        "# the run\n"
        "num_epochs: 3\n");
}

TEST_CASE("keys of a plugin and the list that names it stand together at the end") {
  SettingsText text = axolotl(
      "base_model: a/b\n"
      "deepspeed: zero.json  # the first one that worked\n"
      "output_dir: ./out\n");
  CHECK(text.put("liger_fused_linear_cross_entropy", true));
  CHECK(text.append("plugins", "axolotl.integrations.liger.LigerPlugin"));
  CHECK(text.text() ==
        "base_model: a/b\n"
        "deepspeed: zero.json  # the first one that worked\n"
        "output_dir: ./out\n"
        "liger_fused_linear_cross_entropy: true\n"
        "plugins: [axolotl.integrations.liger.LigerPlugin]\n");
}

TEST_CASE("a key that is absent stands behind one that gets another value, so that what changes stands together") {
  SettingsText text = axolotl(
      "base_model: a/b\n"
      "micro_batch_size: 4\n"
      "num_epochs: 3\n"
      "bf16: true\n"
      "fsdp_config:\n"
      "  fsdp_version: 2\n");
  CHECK(text.put("micro_batch_size", 1));
  CHECK(text.put("gradient_checkpointing", true));
  CHECK(text.put("fsdp_config.offload_params", true));  // a mapping in which nothing is replaced
  CHECK(text.text() ==
        "base_model: a/b\n"
        "micro_batch_size: 1\n"
        "gradient_checkpointing: true\n"
        "num_epochs: 3\n"
        "bf16: true\n"
        "fsdp_config:\n"
        "  fsdp_version: 2\n"
        "  offload_params: true\n");
  SettingsText json = deepspeed("{\n  \"zero_optimization\": {\"stage\": 1, \"overlap_comm\": true, \"x\": 1}\n}\n");
  CHECK(json.put("zero_optimization.stage", 2));
  CHECK(json.put("zero_optimization.contiguous_gradients", true));
  CHECK(json.text() ==
        "{\n  \"zero_optimization\": {\"stage\": 2, \"contiguous_gradients\": true, \"overlap_comm\": true, \"x\": "
        "1}\n}\n");
}

TEST_CASE("a key below a mapping keeps the mapping's indentation, and makes it where it is missing or empty") {
  SettingsText below =
      axolotl("base_model: a\nfsdp_config:\n    fsdp_version: 2\n    offload_params: false\nbf16: auto\n");
  CHECK(below.put("fsdp_config.reshard_after_forward", true));
  CHECK(below.text() ==
        "base_model: a\nfsdp_config:\n    fsdp_version: 2\n    reshard_after_forward: true\n    offload_params: false\n"
        "bf16: auto\n");
  SettingsText missing = axolotl("base_model: a\nbf16: auto\n");
  CHECK(missing.put("gradient_checkpointing_kwargs.use_reentrant", false));
  CHECK(missing.text() == "base_model: a\nbf16: auto\ngradient_checkpointing_kwargs:\n  use_reentrant: false\n");
  SettingsText empty = axolotl("base_model: a\nfsdp_config:\nbf16: auto\n");
  CHECK(empty.put("fsdp_config.offload_params", true));
  CHECK(empty.text() == "base_model: a\nfsdp_config:\n  offload_params: true\nbf16: auto\n");
  SettingsText braces = axolotl("base_model: a\ngradient_checkpointing_kwargs: {use_reentrant: true}\n");
  CHECK(braces.put("gradient_checkpointing_kwargs.use_reentrant", false));
  CHECK(braces.text() == "base_model: a\ngradient_checkpointing_kwargs: {use_reentrant: false}\n");
}

TEST_CASE("a value may be given, taken away, or added to a list") {
  SettingsText text = axolotl("base_model: a\ndeepspeed: ds.json  # sharded\nbf16:\nplugins:\n  - x.Plugin\n");
  CHECK(text.clear("deepspeed"));
  CHECK(text.put("bf16", true));
  CHECK(text.append("plugins", "y.Plugin"));
  CHECK(text.text() == "base_model: a\ndeepspeed:  # sharded\nbf16: true\nplugins:\n  - x.Plugin\n  - y.Plugin\n");
}

TEST_CASE("a key of a section goes with its line, and a section with its last key") {
  const std::string begin = "base_model: a\n", end = "micro_batch_size: 2\n";
  SettingsText only = axolotl(begin + "gradient_checkpointing_kwargs:\n  use_reentrant: false  # new\n" + end);
  CHECK(only.clear("gradient_checkpointing_kwargs.use_reentrant"));
  CHECK(only.text() == begin + end);
  SettingsText two = axolotl(begin + "gradient_checkpointing_kwargs:\n  use_reentrant: false\n  x: 1\n" + end);
  CHECK(two.clear("gradient_checkpointing_kwargs.use_reentrant"));
  CHECK(two.text() == begin + "gradient_checkpointing_kwargs:\n  x: 1\n" + end);
}

TEST_CASE("a key that is given two values has the last, and stands there once") {
  SettingsText text = axolotl(
      "base_model: a/b\n"
      "load_in_4bit: false  # all of it\n"
      "gradient_checkpointing_kwargs:\n"
      "  use_reentrant: true\n"
      "plugins: [x]\n");
  CHECK(text.put("load_in_4bit", true));
  CHECK(text.value_of("load_in_4bit") == true);
  CHECK(text.put("load_in_4bit", true));
  CHECK(text.put("adapter", "lora"));
  CHECK(text.put("adapter", "qlora"));
  CHECK(text.append("plugins", "a.b"));
  CHECK(text.append("plugins", "a.b"));
  CHECK(text.append("plugins", "c.d"));
  CHECK(text.clear("gradient_checkpointing_kwargs.use_reentrant"));
  CHECK(text.put("gradient_checkpointing_kwargs.use_reentrant", false));
  CHECK(text.text() ==
        "base_model: a/b\n"
        "load_in_4bit: true  # all of it\n"
        "adapter: qlora\n"
        "gradient_checkpointing_kwargs:\n"
        "  use_reentrant: false\n"
        "plugins: [x, a.b, c.d]\n");
}

TEST_CASE("a section whose keys go stays where it gets another one") {
  const std::string before =
      "fsdp_config:\n"
      "  sharding_strategy: FULL_SHARD\n"
      "  sync_module_states: true\n"
      "base_model: a/b\n";
  SettingsText text = axolotl(before);
  CHECK(text.clear("fsdp_config.sharding_strategy"));
  CHECK(text.clear("fsdp_config.sync_module_states"));
  CHECK(text.text() == "base_model: a/b\n");
  CHECK(text.put("fsdp_config.reshard_after_forward", true));
  CHECK(text.text() ==
        "fsdp_config:\n"
        "  reshard_after_forward: true\n"
        "base_model: a/b\n");
}

TEST_CASE("line ends of Windows and a missing last one stay") {
  SettingsText text = axolotl("base_model: a\r\nmicro_batch_size: 4\r\nbf16: true");
  CHECK(text.put("micro_batch_size", 2));
  CHECK(text.put("gradient_checkpointing", true));
  CHECK(text.text() == "base_model: a\r\nmicro_batch_size: 2\r\ngradient_checkpointing: true\r\nbf16: true");
}

TEST_CASE("what stands behind an anchor or over several lines is left alone") {
  CHECK_FALSE(
      axolotl("base_model: a\nmicro_batch_size: &n 4\ngradient_accumulation_steps: *n\n").put("micro_batch_size", 1));
  CHECK_FALSE(axolotl("base_model: a\noptimizer: >-\n  adamw_torch\n").put("optimizer", "adamw_8bit"));
}

TEST_CASE("members of JSON are replaced and added with the file's own indentation") {
  SettingsText text = deepspeed(
      "{\n"
      "    \"zero_optimization\": {\n"
      "        \"stage\": 2,\n"
      "        \"overlap_comm\": true\n"
      "    },\n"
      "    \"bf16\": {\"enabled\": \"auto\"}\n"
      "}\n");
  CHECK(text.put("zero_optimization.stage", 3));
  CHECK(text.put("zero_optimization.offload_optimizer.device", "cpu"));
  CHECK(text.put("bf16.enabled", true));
  CHECK(text.text() ==
        "{\n"
        "    \"zero_optimization\": {\n"
        "        \"stage\": 3,\n"
        "        \"offload_optimizer\": {\n"
        "          \"device\": \"cpu\"\n"
        "        },\n"
        "        \"overlap_comm\": true\n"
        "    },\n"
        "    \"bf16\": {\"enabled\": true}\n"
        "}\n");
}
