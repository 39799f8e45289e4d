#include "ecosystem/config_reader.h"

#include <algorithm>
#include <random>

#include <doctest/doctest.h>

#include "base/error.h"
#include "ecosystem/config_texts.h"
#include "ecosystem/key_table.h"
#include "ecosystem/rules.h"
#include "ecosystem/torchtune.h"

namespace gpuplan {

using namespace test;

TEST_CASE("PEFT's adapter_config.json says model and adapters, and every key is used, ignored or refused") {
  const std::string file =
      R"({"peft_type": "LORA", "base_model_name_or_path": "Qwen/Qwen2.5-7B", "r": 32, "lora_alpha": 64,
          "lora_dropout": 0.1, "target_modules": ["q_proj", "v_proj"], "bias": "none", "use_rslora": false,
          "rank_pattern": {}, "init_lora_weights": true, "layers_to_transform": null)";
  const ConfigReading r = reading_of({file + "}"});
  CHECK(r.model == "Qwen/Qwen2.5-7B");
  CHECK(r.has_method);
  CHECK_FALSE(r.has_trainer);
  CHECK(r.request.recipe.method == Method::Lora);
  CHECK(r.request.recipe.lora.rank == 32);
  CHECK(r.request.recipe.lora.alpha == 64);
  CHECK(r.request.recipe.lora.dropout == 0.1);
  CHECK(r.request.recipe.lora.targets == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(has_note(r, "init_lora_weights"));
  CHECK(contains(error_of({file + R"(, "bias": "all"})"}), "trained biases"));
  CHECK(contains(error_of({file + R"(, "rank_pattern": {"q_proj": 4}})"}), "ranks that differ"));
  CHECK(contains(error_of({R"({"peft_type": "XLORA", "r": 8})"}), "XLORA is not modelled"));
  // what LoraConfig has by itself
  const ConfigReading bare = reading_of({R"({"peft_type": "LORA"})"});
  CHECK(bare.request.recipe.lora.rank == 8);
  CHECK(bare.request.recipe.lora.alpha == 8);
}

TEST_CASE("an adapter's file stands beside a trainer's, and they may not contradict each other") {
  const std::string adapter = R"({"peft_type": "LORA", "r": 32, "base_model_name_or_path": "Qwen/Qwen2.5-7B"})";
  const ConfigReading r = reading_of({kTrl, adapter});
  CHECK(r.request.recipe.framework->name == "trl");
  CHECK(r.request.recipe.lora.rank == 32);
  const std::string error = error_of({std::string(kTrl) + "use_peft: true\nlora_r: 4\n", adapter});
  CHECK(contains(error, "r"));
  CHECK(contains(error, "only one of them is trained"));
}

TEST_CASE("a plan among the files says everything; only a log may stand beside it") {
  const std::string plan = R"({"schema_version": 1})";
  CHECK(reading_of({plan}).plan->name == "file1");
  const ConfigReading r = reading_of({plan, "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"});
  CHECK(r.plan);
  CHECK(r.out_of_memory);
  CHECK(contains(error_of({plan, kTrl}), "is a plan, which says all of them"));
  CHECK(contains(error_of({plan, plan}), "is a plan, and so is file1"));
}

TEST_CASE("a TRL file and accelerate's file make one question") {
  const ConfigReading r = reading_of({kTrlLora, fsdp("  fsdp_reshard_after_forward: false\n")});
  CHECK(r.request.recipe.framework->name == "trl");
  CHECK(r.request.recipe.method == Method::Lora);
  CHECK(r.request.recipe.lora.rank == 4);
  CHECK(r.request.recipe.lora.targets == std::vector<std::string>{"usual"});  // which the model decides
  CHECK(r.request.recipe.seq_len == 512);
  CHECK(r.request.recipe.micro_batch == 8);                      // of TrainingArguments
  CHECK(r.request.recipe.checkpointing == Checkpointing::Full);  // TRL's default
  CHECK(r.request.recipe.precision == Precision::Bf16Mixed);
  CHECK(r.request.strategy == "fsdp-grad-op");
  CHECK(r.request.options.fsdp_version == 2);
  CHECK(r.setup.num_processes == 4);
  CHECK_FALSE(r.model.has_value());
}

TEST_CASE("DeepSpeed's file says stage, offload and batch; \"auto\" leaves them to the trainer") {
  const char* kZero =
      R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": true},
          "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 4})";
  const ConfigReading r = reading_of({kTrl, kZero});
  CHECK(r.request.strategy == "zero2");
  CHECK(r.request.recipe.offload.optimizer == OffloadTarget::Cpu);
  CHECK(r.request.recipe.micro_batch == 8);
  CHECK(r.request.recipe.grad_accum == 4);
}

TEST_CASE("DeepSpeed's file says buckets, overlap and 8-bit gathers; what it leaves out is DeepSpeed's default") {
  const auto options_of = [](const std::string& zero) {
    return reading_of({kTrl, R"({"zero_optimization": {)" + zero + "}}"}).request.options;
  };
  StrategyOptions o = options_of(R"("stage": 2)");  // of TRL: overlap_comm on, buckets of hidden^2
  CHECK(o.overlap_comm == false);
  CHECK(o.reduce_bucket_size == 500'000'000);
  o = options_of(R"("stage": 3, "reduce_bucket_size": "auto")");
  CHECK_FALSE(o.overlap_comm.has_value());
  CHECK_FALSE(o.reduce_bucket_size.has_value());
  CHECK_FALSE(o.zero_quantized_weights.has_value());
  o = options_of(R"("stage": 3, "overlap_comm": false, "reduce_bucket_size": 5e7, "zero_quantized_weights": true)");
  CHECK(o.overlap_comm == false);
  CHECK(o.reduce_bucket_size == 50'000'000);
  CHECK(o.zero_quantized_weights == true);
  CHECK_THROWS_WITH_AS(options_of(R"("stage": 3, "zero_hpz_partition_size": 8)"), doctest::Contains("ZeRO++"),
                       InputError);
  const std::string off =
      R"("stage": 3, "zero_hpz_partition_size": 1, "mics_shard_size": -1, "zero_quantized_gradients": 0)";
  CHECK_NOTHROW(options_of(off));  // DeepSpeed's defaults
}

TEST_CASE("values of a refused key that change nothing are switches or numbers, as 1 is read as true among switches") {
  for (const KeyTable& table : key_tables())
    for (const KeyRow& row : table.rows) {
      CAPTURE(table.name);
      CAPTURE(row.key);
      const auto is_number = [](const nlohmann::json& one) { return one == 1 || one == 0; };
      const bool is_number_or_off =
          std::ranges::none_of(row.harmless, is_number) || !row.takes_flags() ||
          std::ranges::all_of(row.harmless, [](const auto& one) { return one == false || one == 0; });
      CHECK(is_number_or_off);
    }
}

TEST_CASE("a value that differs between DeepSpeed's file and the trainer is refused with both places") {
  const std::string error = error_of({std::string(kTrl) + "gradient_accumulation_steps: 8\n",
                                      R"({"zero_optimization": {"stage": 2}, "gradient_accumulation_steps": 4})"});
  CHECK(contains(error, "file2: gradient_accumulation_steps"));
  CHECK(contains(error, "file1: gradient_accumulation_steps"));
}

TEST_CASE("train_batch_size must be micro batch x accumulation x processes") {
  const char* kZero = R"({"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 2,
                          "gradient_accumulation_steps": 4, "train_batch_size": 40})";
  CHECK(contains(error_of({kZero, zero("  zero3_init_flag: false\n  deepspeed_config_file: file1\n")}), "are 32"));
}

TEST_CASE("the kind of a file is recognised by its keys; of none and of two is said in one message") {
  CHECK(contains(error_of({"colour: red\n"}), "of no program"));
  CHECK(contains(error_of({"compute_environment: X\nzero_optimization: {}\n"}), "one file belongs to one program"));
  CHECK(contains(error_of({kTrl, kTrl}), "give one of them"));
  CHECK(contains(error_of({R"({"model_type": "llama", "hidden_size": 8})"}), "--model"));
  CHECK(contains(error_of({""}), "empty"));
  CHECK(contains(error_of({"[1, 2]"}), "keys and values"));
}

TEST_CASE("rule 2: quotes around no make no difference to us, and are what accelerate needs") {
  for (const char* no : {"\"NO\"", "NO", "no"}) {
    const std::string mixed = no[0] == '"' ? "\"no\"" : no;
    const ConfigReading r = reading_of({std::string("compute_environment: LOCAL_MACHINE\ndistributed_type: ") + no +
                                        "\nmixed_precision: " + mixed + "\n"});
    CHECK(r.setup.distributed == "no");
    CHECK(r.setup.mixed_precision == "no");
  }
}

TEST_CASE("rule 3: 1e-4 is a text to PyYAML, and a number where the program reads texts by the type that it wants") {
  const std::string error = error_of({"block_size: 512\nnum_train_epochs: 1e1\n"});
  CHECK(contains(error, "file1:2: num_train_epochs"));
  CHECK(contains(error, "needs a point"));
  CHECK(reading_of({std::string(kTrlLora) + "num_train_epochs: 1e1\n"}).request.dataset.epochs == 10);
  CHECK(reading_of({"base_model: a\nadapter: lora\nlora_alpha: 16\nlora_r: '8'\n"}).request.recipe.lora.rank == 8);
  CHECK(reading_of({"finetuning_type: lora\ncutoff_len: 64\nlora_dropout: 5e-2\n"}).request.recipe.lora.dropout ==
        0.05);
  CHECK(contains(error_of({std::string(kTrlLora) + "num_train_epochs: ten\n"}), "must be a number"));
  CHECK(contains(error_of({std::string(kTrlLora) + "num_train_epochs: 'inf'\n"}), "must be a number"));
  // of DeepSpeed's file, what pydantic reads: the section zero_optimization
  const ConfigReading zero =
      reading_of({kTrl, R"({"zero_optimization": {"stage": "2", "reduce_bucket_size": "5e7"}})"});
  CHECK(zero.request.strategy == "zero2");
  CHECK(zero.request.options.reduce_bucket_size == 50'000'000);
  CHECK(contains(error_of({kTrl, R"({"zero_optimization": {"stage": 2}, "gradient_accumulation_steps": "4"})"}),
                 "must be a whole number"));
}

TEST_CASE("1 and 0 are true and false where the program takes those, and numbers elsewhere") {
  CHECK(
      reading_of({"model_name_or_path: a\nmax_length: 64\nuse_peft: 1\npacking: 0\nbf16: 1\n"}).request.recipe.method ==
      Method::Lora);
  CHECK(reading_of({"max_length: 64\ngradient_checkpointing: 0\n"}).request.recipe.checkpointing ==
        Checkpointing::None);
  CHECK(reading_of({"max_length: 64\nper_device_train_batch_size: 1\n"}).request.recipe.micro_batch == 1);
  CHECK(reading_of({kTrl, R"({"zero_optimization": {"stage": 2}, "bf16": {"enabled": 1}})"}).setup.bf16 == true);
  CHECK(contains(error_of({"max_length: 64\ngradient_checkpointing: 2\n"}), "true or false"));
}

TEST_CASE("a key that comes twice: the last one counts as in PyYAML and json, and OmegaConf and DeepSpeed stop at it") {
  const ConfigReading r = reading_of({"max_length: 64\nper_device_train_batch_size: 1\nmax_length: 128\n"});
  CHECK(r.request.recipe.seq_len == 128);
  CHECK(has_note(r, "file1:3: max_length comes twice"));
  const ConfigReading nested =
      reading_of({"base_model: a\nfsdp_config: {offload_params: true}\nfsdp: [full_shard]\nfsdp_config: {}\n"});
  CHECK(nested.request.recipe.offload.params == OffloadTarget::None);
  const std::string twice = error_of({"cutoff_len: 64\nlora_rank: 8\ncutoff_len: 128\n"});
  CHECK(contains(twice, "3: cutoff_len: comes twice"));
  CHECK(contains(
      error_of({"model: {_component_: torchtune.models.llama3_1.llama3_1_8b}\nbatch_size: 1\nbatch_size: 2\n"}),
      "batch_size: comes twice"));
  CHECK(contains(error_of({R"({"zero_optimization": {"stage": 2, "stage": 3}})"}), "'stage' comes twice"));
}

TEST_CASE("modules are a list or one text with commas where the program takes both") {
  const auto targets = [](const std::string& text) { return reading_of({text}).request.recipe.lora.targets; };
  const std::vector<std::string> qv{"q_proj", "v_proj"}, all{"all-linear"};
  const std::string factory = "finetuning_type: lora\ncutoff_len: 64\n",
                    axolotl = "base_model: a\nadapter: lora\nlora_r: 8\nlora_alpha: 16\n";
  CHECK(targets(factory + "lora_target: q_proj, v_proj\n") == qv);
  CHECK(targets(factory + "lora_target: [q_proj, v_proj]\n") == qv);
  CHECK(targets(factory + "lora_target:\n- q_proj\n- v_proj\n") == qv);
  CHECK(targets(factory + "lora_target: all\n") == all);
  CHECK(targets(factory + "lora_target: [all]\n") == all);
  CHECK(reading_of({factory + "additional_target: [lm_head]\n"}).request.recipe.lora.modules_to_save ==
        reading_of({factory + "additional_target: lm_head\n"}).request.recipe.lora.modules_to_save);
  CHECK(targets(axolotl + "lora_target_modules: [q_proj, v_proj]\n") == qv);
  CHECK(targets(axolotl + "lora_target_modules: all-linear\n") == all);
  CHECK(targets(std::string(kTrlLora) + "lora_target_modules: [q_proj, v_proj]\n") == qv);
  CHECK(targets(std::string(kTrlLora) + "lora_target_modules: all-linear\n") == all);
  CHECK(targets(R"({"peft_type": "LORA", "target_modules": "all-linear"})") == all);
  CHECK(contains(error_of({factory + "lora_target: [1, 2]\n"}), "a list of texts"));
}

TEST_CASE("rule 4: FSDP1 ignores fsdp_reshard_after_forward under accelerate launch") {
  const ConfigReading r = reading_of({fsdp("  fsdp_reshard_after_forward: SHARD_GRAD_OP\n", "1")});
  CHECK(r.request.strategy == "fsdp");
  CHECK(has_note(r, "accelerate ignores fsdp_reshard_after_forward"));
  CHECK(reading_of({fsdp("  fsdp_sharding_strategy: SHARD_GRAD_OP\n", "1")}).request.strategy == "fsdp-grad-op");
}

TEST_CASE("rule 5 and R12: FSDP2 knows a boolean, no LOCAL_STATE_DICT, no prefetch") {
  CHECK(contains(error_of({fsdp("  fsdp_reshard_after_forward: FULL_SHARD\n")}), "[E03]"));
  CHECK(contains(error_of({fsdp("  fsdp_state_dict_type: LOCAL_STATE_DICT\n")}), "[R12]"));
  CHECK(has_note(reading_of({fsdp("  fsdp_backward_prefetch: BACKWARD_PRE\n")}), "R12"));
}

TEST_CASE("rule 6: efficient loading needs synchronised states") {
  CHECK(contains(error_of({fsdp("  fsdp_cpu_ram_efficient_loading: true\n  fsdp_sync_module_states: false\n")}),
                 "[E02]"));
}

TEST_CASE("rule 7 and R13: one switch for checkpointing") {
  CHECK(contains(error_of({kTrl, fsdp("  fsdp_activation_checkpointing: true\n")}), "[R13]"));  // TRL's own is on
  const std::string off = std::string(kTrl) + "gradient_checkpointing: false\n";
  const ConfigReading r = reading_of({off, fsdp("  fsdp_activation_checkpointing: true\n")});
  CHECK(r.request.recipe.checkpointing == Checkpointing::Full);
}

TEST_CASE("rule 9: reentrant checkpointing with adapters under DDP is named") {
  const std::string trl = std::string(kTrlLora) + "gradient_checkpointing_kwargs: {use_reentrant: true}\n";
  const ConfigReading r = reading_of(
      {trl,
       "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 2\n"});
  CHECK(has_note(r, "use_reentrant: false"));
}

TEST_CASE("trap: without a wrap policy the whole model is one unit") {
  const ConfigReading r =
      reading_of({"compute_environment: X\ndistributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\n"});
  CHECK(r.request.options.wrap == WrapPolicy::Size);
  CHECK(has_note(r, "one unit"));
}

TEST_CASE("trap: TRL loads in float32 unless told otherwise") {
  const ConfigReading r = reading_of({"max_length: 512\nuse_peft: true\n"});
  CHECK(r.request.recipe.lora.base_dtype == Dtype::F32);
  CHECK(has_note(r, "loaded in float32"));
  // full fine-tuning of weights in bfloat16: an engine that is not named yet decides what becomes of them
  CHECK(reading_of({kTrl}).request.recipe.precision == Precision::Bf16Loaded);
  CHECK(reading_of({kTrl, fsdp("")}).request.recipe.precision == Precision::Bf16Mixed);
}

TEST_CASE("R01: 4-bit base under FSDP2") { CHECK(contains(error_of({kTrlQlora, fsdp("")}), "[R01]")); }

TEST_CASE("R02: 4-bit base in uint8 storage under FSDP1 and ZeRO-3") {
  const char* kNoStorage = "dtype: bfloat16\nuse_peft: true\nload_in_4bit: true\n";
  CHECK(contains(error_of({kNoStorage, fsdp("", "1")}), "[R02]"));
  CHECK(contains(error_of({kNoStorage, zero("  zero_stage: 3\n")}), "[R02]"));
  CHECK(error_of({kTrlQlora, fsdp("", "1")}).empty());
}

TEST_CASE("R03: 8-bit base under FSDP and ZeRO-3") {
  const char* k8bit = "dtype: bfloat16\nuse_peft: true\nload_in_8bit: true\n";
  CHECK(contains(error_of({k8bit, fsdp("", "1")}), "[R03]"));
  CHECK(contains(error_of({k8bit, zero("  zero_stage: 3\n")}), "[R03]"));
  CHECK(error_of({k8bit, zero("  zero_stage: 2\n")}).empty());
}

TEST_CASE("R06: offload needs an engine") {
  Setup setup;
  setup.distributed = "multi";
  setup.offload_optimizer = "cpu";
  REQUIRE(broken_rule(setup));
  CHECK(broken_rule(setup)->id == "R06");
}

TEST_CASE("R07: FSDP and DeepSpeed together") {
  CHECK(contains(error_of({fsdp(""), R"({"zero_optimization": {"stage": 2}})"}), "[R07]"));
}

TEST_CASE("R08: 8-bit optimizers under FSDP") {
  const std::string eight = std::string(kTrlLora) + "optim: adamw_8bit\n";
  CHECK(contains(error_of({eight, fsdp("")}), "[R08]"));
  CHECK(contains(error_of({eight, fsdp("  fsdp_offload_params: true\n", "1")}), "[R08]"));
  CHECK(error_of({eight, fsdp("", "1")}).empty());
}

TEST_CASE("R09: paged 8-bit optimizer with a 4-bit base under FSDP1") {
  // it trains, and fails where it saves: a file that says so is read with a note
  CHECK(has_note(reading_of({std::string(kTrlQlora) + "optim: paged_adamw_8bit\n", fsdp("", "1")}), "[R09]"));
}

TEST_CASE("R10: ZeRO offload replaces other optimizers") {
  const std::string offload = zero("  zero_stage: 2\n  offload_optimizer_device: cpu\n");
  const ConfigReading replaced = reading_of({std::string(kTrlLora) + "optim: adamw_8bit\n", offload});
  CHECK(has_note(replaced, "[R10]"));
  CHECK(replaced.request.recipe.optimizer->name == "adamw-fused");
  CHECK(error_of({std::string(kTrlLora) + "optim: adamw_torch_fused\n", offload}).empty());
}

TEST_CASE("R11: generation in evaluation under ZeRO-3") {
  CHECK(contains(error_of({std::string(kTrlLora) + "predict_with_generate: true\n", zero("  zero_stage: 3\n")}),
                 "[R11]"));
}

TEST_CASE("R14: fp16 with a 4-bit base in bfloat16 storage") {
  CHECK(has_note(reading_of({std::string(kTrlQlora) + "bf16: false\nfp16: true\n", fsdp("", "1")}), "[R14]"));
}

TEST_CASE("R15: DoRA on an 8-bit base under FSDP breaks R03 first") {
  Setup setup;
  setup.distributed = "fsdp";
  setup.quant_bits = 8;
  setup.dora = true;
  bool is_broken = false;
  for (const Rule& rule : ecosystem_rules())
    if (rule.id == "R15") is_broken = rule.is_broken(setup);
  CHECK(is_broken);
}

TEST_CASE("R16: adapters are not merged in a sharded run") {
  const std::string merge =
      "base_model: a\nmicro_batch_size: 1\nbf16: true\nadapter: lora\nlora_r: 8\nlora_alpha: 16\nmerge_lora: true\n";
  CHECK(contains(error_of({merge + "fsdp: [full_shard, auto_wrap]\n"}), "[R16]"));
  CHECK(error_of({merge}).empty());
}

TEST_CASE("R17: resuming is named") {
  CHECK(has_note(reading_of({std::string(kTrlLora) + "resume_from_checkpoint: true\n"}), "R17"));
}

TEST_CASE("R18: best model at the end with model-only saving under an engine") {
  const std::string both = std::string(kTrlLora) + "load_best_model_at_end: true\nsave_only_model: true\n";
  CHECK(contains(error_of({both, fsdp("")}), "[R18]"));
  CHECK(error_of({both}).empty());
}

TEST_CASE("R19: FSDP2 checkpointing with dropout") {
  const char* kDropout = "dtype: bfloat16\nuse_peft: true\nlora_dropout: 0.1\ngradient_checkpointing: false\n";
  const ConfigReading reading = reading_of({kDropout, fsdp("  fsdp_activation_checkpointing: true\n")});
  CHECK(has_note(reading, "[R19]"));  // the program trains so: it is told, and planned
}

TEST_CASE("R20: sharding over one GPU is counted as single, and said") {
  ConfigReading r = reading_of({kTrlLora, fsdp("")});
  r.request.cluster = parse_gpus("1xA6000");
  std::vector<std::string> notes;
  settle_strategy(r, r.request, notes);
  CHECK(r.request.strategy == "single");
  REQUIRE_FALSE(notes.empty());
  CHECK(contains(notes.back(), "R20"));
}

TEST_CASE("E01: offload_param below stage 3") {
  const ConfigReading ignored = reading_of({zero("  zero_stage: 2\n  offload_param_device: cpu\n")});
  CHECK(has_note(ignored, "[E01]"));
  CHECK(ignored.request.recipe.offload.params == OffloadTarget::None);
}

TEST_CASE("E10: ranks that share experts are whole groups of those that share a sequence") {
  const auto file = [](int cp, int ep) {
    return "parallelism:\n  context_parallel_degree: " + std::to_string(cp) +
           "\n  expert_parallel_degree: " + std::to_string(ep) + "\ntraining:\n  local_batch_size: 2\n";
  };
  CHECK(contains(error_of({file(4, 2)}), "whole groups"));
  CHECK_FALSE(contains(error_of({file(2, 4)}), "whole groups"));
  CHECK_FALSE(contains(error_of({file(1, 2)}), "whole groups"));
}

TEST_CASE("torchtune: a component names model and method") {
  const char* kFile =
      "model:\n  _component_: torchtune.models.llama3_1.qlora_llama3_1_8b\n  lora_attn_modules: [q_proj, output_proj]\n"
      "  apply_lora_to_mlp: True\n  lora_rank: 8\n  lora_alpha: 16\n"
      "tokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\n  max_seq_len: 4096\n"
      "optimizer:\n  _component_: torch.optim.AdamW\n  fused: True\n"
      "loss:\n  _component_: torchtune.modules.loss.LinearCrossEntropyLoss\n"
      "batch_size: 4\ndtype: bf16\nenable_activation_checkpointing: True\nfsdp_cpu_offload: False\n";
  const ConfigReading r = reading_of({kFile});
  CHECK(r.model == "llama3.1-8b");
  CHECK(r.request.recipe.framework->name == "torchtune");
  CHECK(r.request.recipe.method == Method::Qlora);
  CHECK(r.request.recipe.lora.targets ==
        std::vector<std::string>{"q_proj", "o_proj", "gate_proj", "up_proj", "down_proj"});
  CHECK(r.request.recipe.optimizer->name == "adamw-fused");
  CHECK(r.request.recipe.loss == LossKernel::Chunked);
  CHECK(r.request.recipe.precision == Precision::Bf16True);
  CHECK(r.request.recipe.micro_batch == 4);
  CHECK(r.request.strategy == "fsdp");  // FSDP2, whose 4-bit storage torchtune shards itself
  CHECK(model_of_component("torchtune.models.qwen2_5.qwen2_5_7b_instruct") == "qwen2.5-7b-instruct");
  CHECK(model_of_component("torchtune.models.qwen2_5.qwen2_5_0_5b") == "qwen2.5-0.5b");
  CHECK(model_of_component("torchtune.models.qwen3.lora_qwen3_1_7b_instruct") == "qwen3-1.7b-instruct");
  CHECK(model_of_component("torchtune.models.gemma2.lora_gemma2_9b") == "gemma2-9b");
  CHECK(model_of_component("torchtune.models.phi3.phi3_mini") == "phi3-mini");
}

TEST_CASE("what files train of a vision tower, once the model is known") {
  const auto train_of = [](const std::string& text) {
    ConfigReading r = reading_of({text});
    r.request.model.vision.num_layers = 1;
    settle_vision(r, r.request);
    return r.request.recipe.images.train;
  };
  const std::string
      axolotl = "base_model: a\nmicro_batch_size: 1\nsequence_len: 512\nadapter: lora\nlora_r: 8\nlora_alpha: 16\n",
      factory = "finetuning_type: full\ncutoff_len: 512\n";
  CHECK(train_of(kTrl) == TrainVision::All);
  CHECK(train_of(axolotl + "lora_target_linear: true\n") == TrainVision::All);
  CHECK(train_of(axolotl + "freeze_mm_modules: true\n") == TrainVision::No);
  CHECK(train_of(factory) == TrainVision::No);
  CHECK(train_of(factory + "freeze_multi_modal_projector: false\n") == TrainVision::Projector);
  CHECK(train_of(factory + "freeze_vision_tower: false\n") == TrainVision::All);
  ConfigReading text = reading_of({kTrl});  // of a model without a tower nothing is said
  settle_vision(text, text.request);
  CHECK(text.request.recipe.images.train == TrainVision::No);
}

TEST_CASE("axolotl's list fsdp switches FSDP on by itself") {
  const ConfigReading r =
      reading_of({"base_model: a\nmicro_batch_size: 1\nbf16: true\nfsdp: [shard_grad_op, auto_wrap, offload]\n"});
  CHECK(r.request.strategy == "fsdp-grad-op");
  CHECK(r.request.options.fsdp_version == 1);
  CHECK(r.request.options.wrap == WrapPolicy::Layer);
  CHECK(r.request.recipe.offload.params == OffloadTarget::Cpu);
  CHECK(reading_of({"base_model: a\nmicro_batch_size: 1\nbf16: true\nfsdp: []\n"}).setup.distributed == std::nullopt);
}

TEST_CASE("an unknown key stops accelerate at the top, and is named where the program ignores it") {
  CHECK(contains(error_of({"compute_environment: X\nmixed_prescision: bf16\n"}), "did you mean 'mixed_precision'"));
  CHECK(has_note(reading_of({fsdp("  fsdp_ofload_params: true\n")}), "fsdp_config.fsdp_ofload_params"));
}

TEST_CASE("every ignored key is named with its reason, and a refused one with its place") {
  CHECK(has_note(reading_of({std::string(kTrlLora) + "learning_rate: 1.0e-4\n"}), "learning_rate"));
  CHECK(contains(error_of({std::string(kTrlLora) + "cache_logprobs_only: true\n"}), "file1:7: cache_logprobs_only"));
}

TEST_CASE("files with bytes changed, cut and repeated are read or refused, never worse") {
  const std::vector<std::string> files{
      kTrlQlora,
      kTrlLora,
      fsdp("  fsdp_offload_params: true\n"),
      zero("  zero_stage: 3\n"),
      R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "train_batch_size": 8})",
      "base_model: a/b\nadapter: qlora\nlora_r: 8\nlora_alpha: 16\nload_in_4bit: true\nsequence_len: "
      "512\nlora_target_modules: "
      "[q_proj]\nval_set_size: 0.1\n",
      "model_name_or_path: a\nfinetuning_type: lora\nlora_target: q_proj,v_proj\ncutoff_len: 64\nquantization_bit: 4\n",
      "model: {_component_: torchtune.models.llama3_1.lora_llama3_1_8b, lora_rank: 8}\nbatch_size: 2\n"};
  constexpr std::string_view kBytes = "\n :-{}[]\"'#,0123456789.eE_~&*!|>%@`tfnullyes\\\t";
  std::mt19937 random(7);
  int num_read = 0, num_refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = files[random() % files.size()];
    for (std::uint_fast32_t changes = 1 + random() % 4; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0: text[at] = kBytes[random() % kBytes.size()]; break;
        case 1: text.erase(at, 1 + random() % 8); break;
        case 2: text.insert(at, 1, kBytes[random() % kBytes.size()]); break;
        default: text.insert(at, text.substr(random() % text.size(), 1 + random() % 20));
      }
      if (text.empty()) text = " ";
    }
    CAPTURE(text);
    try {
      reading_of({text});
      ++num_read;
    } catch (const InputError&) { ++num_refused; }
  }
  CHECK(num_read > 200);
  CHECK(num_refused > 200);
}

TEST_CASE("every format's table can be read, and its signs and defaults make sense") {
  for (const KeyTable& table : key_tables()) {
    CAPTURE(table.name);
    CHECK_FALSE(table.rows.empty());
    CHECK_FALSE(table.versions.empty());
    Setup setup;
    for (const KeyRow& row : table.rows) {
      CAPTURE(row.key);
      if (row.use == KeyUse::Used && !row.otherwise.is_null()) CHECK(state(setup, *row.field, row.otherwise).empty());
      if (row.use != KeyUse::Used) CHECK_FALSE(row.reason.empty());
      for (const auto& [in_file, means] : row.values)
        if (means.is_object()) {
          for (const auto& [fact, value] : means.items()) CHECK(state(setup, *find_setup_field(fact), value).empty());
        } else if (!means.is_null()) {
          CHECK(state(setup, *row.field, means).empty());
        }
    }
  }
}

}  // namespace gpuplan
