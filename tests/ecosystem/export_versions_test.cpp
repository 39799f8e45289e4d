// Files for the versions of a trainer's packages that a user names: other keys, and what a version cannot do.
#include "ecosystem/versions.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ecosystem/export.h"
#include "ecosystem/exported.h"
#include "ecosystem/key_table.h"
#include "models/catalogue.h"

namespace gpuplan {

using namespace test;

TEST_CASE("V01, V02: versions without FSDP2 get FSDP1's keys, and the note says what it costs") {
  const EstimateRequest plan = plan_of("fsdp", Method::Full);
  for (const char* versions : {"accelerate=1.5.2", "torch=2.5", "accelerate=1.5,torch=2.5.1+cu124"}) {
    const ExportAnswer answer = export_plan(plan, "accelerate", kMark, parse_versions(versions));
    CAPTURE(versions);
    REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
    const std::string file = file_of(answer, "accelerate.yaml")->content;
    CHECK(has_text(file, "fsdp_version: 1\n"));
    CHECK(has_text(file, "fsdp_sharding_strategy: FULL_SHARD"));
    CHECK_FALSE(has_text(file, "reshard_after_forward"));
    CHECK(has_text(answer.notes.front(), "written for FSDP1"));
  }
  for (const char* versions : {"accelerate=1.6", "accelerate=1.15.0.dev0,torch=2.10"}) {
    const ExportAnswer answer = export_plan(plan, "accelerate", kMark, parse_versions(versions));
    CHECK(has_text(file_of(answer, "accelerate.yaml")->content, "fsdp_version: 2\n"));
  }
}

TEST_CASE("V03 to V06, V08: what a version cannot do is refused with its rule") {
  const auto refusal = [](const EstimateRequest& plan, const char* versions) {
    return export_plan(plan, "trl", kMark, parse_versions(versions)).refusal;
  };
  EstimateRequest plan = plan_of("zero3", Method::Qlora);
  CHECK(has_text(refusal(plan, "bitsandbytes=0.43.2"), "[V04]"));
  CHECK(has_text(refusal(plan, "peft=0.13.0"), "[V04]"));
  CHECK(refusal(plan, "bitsandbytes=0.43.3,peft=0.17").empty());
  CHECK(has_text(refusal(plan_of("fsdp", Method::Qlora), "bitsandbytes=0.42"), "[V08]"));
  plan = plan_of("ddp", Method::Full);
  plan.recipe.torch_compile = true;
  CHECK(has_text(refusal(plan, "torch=1.13"), "[V05]"));
  plan = plan_of("ddp", Method::Full);
  CHECK(has_text(refusal(plan, "torch=1.13.1"), "[V06]"));
  plan = plan_of("hsdp", Method::Full);
  plan.cluster = parse_gpus("4xA6000");
  const ExportAnswer answer = export_plan(plan, "accelerate", kMark, parse_versions("accelerate=1.9"));
  // FSDP1's hybrid sharding takes the GPUs of a machine, and this plan shards over two of four
  CHECK(answer.is_refused());
}

TEST_CASE("V10: a transformers that does not know the model is refused, with the version that does") {
  EstimateRequest plan = plan_of("ddp", Method::Full);
  plan.model = load_model("qwen3.5-9b-text").spec;
  const auto answer = [&](const char* versions) { return export_plan(plan, "trl", kMark, parse_versions(versions)); };
  CHECK(has_text(answer("transformers=5.1").refusal, "transformers has no qwen3_5_text before 5.2 [V10]"));
  CHECK(has_text(answer("transformers=5.1").nearest, "transformers 5.2 or later"));
  CHECK(answer("transformers=5.2").refusal.find("V10") == std::string::npos);
  CHECK(answer("trl=0.20").refusal.find("V10") == std::string::npos);
}

TEST_CASE("keys follow the version: TRL before 0.16 and 0.23, transformers before 4.56") {
  const EstimateRequest plan = plan_of("ddp", Method::Lora);
  const auto file = [&](const char* versions) {
    return file_of(export_plan(plan, "trl", kMark, parse_versions(versions)), "sft.yaml")->content;
  };
  CHECK(has_text(file("trl=0.15.2"), "max_seq_length: 2048"));
  CHECK(has_text(file("trl=0.15.2"), "torch_dtype: bfloat16"));
  CHECK(has_text(file("trl=0.20"), "\nmax_length: 2048"));
  CHECK(has_text(file("trl=0.20"), "torch_dtype: bfloat16"));
  CHECK(has_text(file("trl=1.9"), "\ndtype: bfloat16"));
  CHECK(has_text(file("trl=1.9"), "# For trl 1.9, "));
}

TEST_CASE("the versions that a file is for have every key that is written into it") {
  for (const KeyTable& table : key_tables())
    for (const KeyRow& row : table.rows) {
      if (!row.since) continue;
      CAPTURE(table.name);
      CAPTURE(row.key);
      const auto described = version_of(table.versions, row.since->first);
      REQUIRE(described);
      CHECK_FALSE(is_older(described->substr(0, described->find(' ')), row.since->second));
    }
}

TEST_CASE("files of ms-swift are for the versions that have tuner_type, and older ones are refused") {
  // modelscope/ms-swift: train_type up to v3.12.6, tuner_type from v4.0.0
  const ExportAnswer answer = export_plan(plan_of("ddp", Method::Lora, {}, "ms-swift"), "ms-swift", kMark);
  REQUIRE_MESSAGE(!answer.is_refused(), answer.refusal);
  CHECK(has_text(file_of(answer, "swift.yaml")->content, "tuner_type: lora"));
  CHECK(has_text(file_of(answer, "swift.yaml")->content, "# For ms-swift 4.0 to 4.6"));
  CHECK_THROWS_AS(parse_versions("ms-swift=3.12"), InputError);
  CHECK_NOTHROW(parse_versions("ms-swift=4.0"));
}

TEST_CASE("V00: versions that are unknown, too old or no versions are refused by name") {
  for (const char* text : {"accelerate=0.20", "acelerate=1.6", "accelerate", "accelerate=new", "torch=2.6,torch=2.7",
                           "accelerate=", "torch=2.6;id", "torch=$(id)"})
    CHECK_THROWS_AS(parse_versions(text), InputError);
  CHECK(is_older("1.9", "1.10"));
  CHECK(is_older("2.5.1+cu124", "2.6"));
  CHECK_FALSE(is_older("2.6", "2.6.0"));
  CHECK_FALSE(is_older("2.6.0+cu124", "2.6"));
}

}  // namespace gpuplan
