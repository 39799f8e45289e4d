// Files of trainers that divide layers, sequences and stages among ranks: what they say, and what is written.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "config_texts.h"
#include "ecosystem/exported.h"
#include "planner/job.h"

namespace gpuplan {

using namespace test;

namespace {

constexpr const char* kMegatron =
    "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen2.5-7B-Instruct --dataset a --tensor_model_parallel_size 2 "
    "--sequence_parallel true --micro_batch_size 2 --global_batch_size 16 --recompute_granularity full "
    "--recompute_method uniform --recompute_num_layers 1 --max_length 2048 ";

ConfigReading read_script(const std::string& text) { return read_configs({{"train.sh", text}}, {}); }

std::string why_script(const std::string& text) {
  try {
    read_script(text);
  } catch (const InputError& error) { return error.what(); }
  return "";
}

/// The whole question, on so many GPUs of a machine.
EstimateRequest asked(ConfigReading reading, const char* gpus) {
  reading.request.model = load_model("qwen2.5-7b").spec;
  reading.request.cluster = parse_gpus(gpus);
  std::vector<std::string> notes;
  settle_strategy(reading, reading.request, notes);
  settle_passes(reading, reading.request, notes);
  return reading.request;
}

}  // namespace

TEST_CASE("Megatron-SWIFT: degrees, its shared optimizer, and passes by the global batch") {
  const EstimateRequest r = asked(read_script(kMegatron), "8xH100");
  CHECK(r.recipe.framework->name == "megatron-swift");
  CHECK(r.options.tp == 2);
  CHECK(r.options.splits_sequence);
  CHECK(r.strategy == "zero1");
  CHECK(r.recipe.method == Method::Full);
  CHECK(r.recipe.precision == Precision::Bf16Mixed);
  CHECK(r.recipe.checkpointing == Checkpointing::Full);
  CHECK(r.recipe.loss == LossKernel::InPlace);
  CHECK(r.recipe.attention == AttentionKernel::Flash);
  CHECK(r.recipe.grad_accum == 2);  // 16 / (2 x 8 / 2)
  const EstimateRequest piped = asked(
      read_script(std::string(kMegatron) + "--pipeline_model_parallel_size 4 --virtual_pipeline_model_parallel_size 7 "
                                           "--tuner_type lora --lora_rank 16 --use_distributed_optimizer false"),
      "8xH100");
  CHECK(piped.options.pp == 4);
  CHECK(piped.options.virtual_stages == 7);
  CHECK(piped.strategy == "single");  // tp 2 x pp 4 are all GPUs
  const EstimateRequest unlike = asked(
      read_script(std::string(kMegatron) + "--pipeline_model_parallel_size 4 --decoder_first_pipeline_num_layers 6 "
                                           "--decoder_last_pipeline_num_layers 4"),
      "8xH100");
  CHECK(unlike.options.stage_layers == StageLayers{6, 0, 0, 4});
  CHECK(piped.recipe.grad_accum == 8);
  CHECK(piped.recipe.lora.rank == 16);
  const EstimateRequest ring = asked(read_script(std::string(kMegatron) + "--context_parallel_size 2"), "8xH100");
  CHECK(ring.options.cp == 2);
  CHECK(ring.recipe.grad_accum == 4);
}

TEST_CASE("Megatron-SWIFT: what it stops at, and what is not planned, is refused with the flag") {
  const auto refused = [](const std::string& flags, const char* why) {
    return contains(why_script(kMegatron + flags), why);
  };
  CHECK(asked(read_script(std::string(kMegatron) + "--expert_model_parallel_size 4"), "8xH100").options.ep == 4);
  CHECK(refused("--optimizer_cpu_offload true --optimizer_offload_fraction 0.5", "of which a part is on the host"));
  CHECK(refused("--recompute_modules core_attn moe_act", "modules of a layer that are recomputed by name"));
  CHECK(refused("--recompute_method block", "recompute_method: the first layers of a stage alone"));
  CHECK(refused("--pipeline_model_parallel_layout Et*3", "stages are spelt out layer by layer"));
  CHECK(refused("--gradient_accumulation_steps 4", "unknown key"));
  CHECK(refused("--teacher_model a", "a teacher beside supervised fine-tuning"));
  CHECK(refused("--quant_method bnb --quant_bits 4", "Megatron-SWIFT trains no base in 4 or 8 bit"));
  // 2 sequences x 4 data parallel ranks
  CHECK(refused("--global_batch_size 12", "global_batch_size: is 12, but 2 sequences x 1 passes x 4 data parallel"));
}

TEST_CASE("stages whose layers a format cannot say are refused by export, and those of the ends are written") {
  EstimateRequest plan = asked(read_script(std::string(kMegatron) + "--pipeline_model_parallel_size 4"), "8xH100");
  plan.recipe.grad_accum = 8;
  const auto why = [&](StageLayers layers) {
    plan.options.stage_layers = std::move(layers);
    return export_plan(plan, "megatron-swift", kMark).refusal;
  };
  CHECK(why({8, 6, 6, 8}).empty());
  CHECK(why({0, 0, 0, 4}).empty());
  CHECK(contains(why({7, 8, 6, 7}), "cannot say stage_layers 7,8,6,7"));
}

TEST_CASE("a verl file whose shard groups are of one rank has whole copies") {
  const auto of = [](int size) {
    return asked(
        read_script(fmt::format(
            "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-7B "
            "data.train_batch_size=64 actor_rollout_ref.actor.ppo_mini_batch_size=64 algorithm.adv_estimator=grpo "
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 actor_rollout_ref.rollout.name=vllm "
            "actor_rollout_ref.actor.fsdp_config.fsdp_size={} trainer.n_gpus_per_node=8",
            size)),
        "8xH100");
  };
  for (const int size : {1, 2, -1}) {
    const EstimateRequest r = of(size);
    const Strategy s = make_strategy(r.strategy, r.cluster, r.options);
    CAPTURE(size);
    CHECK(s.mesh.copies() == (size == -1 ? 1 : 8 / size));
    CHECK(s.layout.shards_weights == (size != 1));
  }
}

TEST_CASE("a trainer that shards wherever it shares layers does so where no data parallel rank is left") {
  const auto of = [](int tp) {
    const std::string text = fmt::format(
        "policy:\n  model_name: Qwen/Qwen2.5-7B\n  train_global_batch_size: 8\n  train_micro_batch_size: 1\n"
        "  max_total_sequence_length: 1024\n  dtensor_cfg: {{enabled: true, tensor_parallel_size: {}}}\ndpo: {{}}\n"
        "cluster: {{gpus_per_node: 4}}\n",
        tp);
    return asked(read_configs({{"dpo.yaml", text}}, {}), "4xH100").strategy;
  };
  CHECK(of(4) == "fsdp");
  CHECK(of(2) == "fsdp");
  CHECK(asked(read_script(std::string(kMegatron) + "--pipeline_model_parallel_size 4"), "8xH100").strategy == "single");
}

TEST_CASE("passes follow from the GPUs that are asked about, where a file says the batch of all ranks") {
  CHECK(asked(read_script(kMegatron), "4xH100").recipe.grad_accum == 4);
  CHECK_THROWS_WITH_AS(asked(read_script(kMegatron), "32xH100"),  // 16 replicas of 2 GPUs
                       doctest::Contains("a global batch of 16 is no multiple of micro batch 2 x 16"), InputError);
  // no number of processes: 16 is no multiple of 2 x 16
  const std::string file =
      "model: a/b\nno_save_optim: true\nmicro_batch_size: 2\nglobal_batch_size: 16\nmax_length: 64\n";
  CHECK(asked(reading_of({file}), "8xH100").recipe.grad_accum == 1);
  CHECK_THROWS_WITH_AS(asked(reading_of({file}), "16xH100"),
                       doctest::Contains("a global batch of 16 is no multiple of micro batch 2 x 16"), InputError);
}

TEST_CASE("degrees of trainers that gpuplan does not divide are the planner's to refuse, by the trainer's name") {
  const EstimateRequest r =
      asked(reading_of({"base_model: a\nsequence_len: 64\nbf16: true\ntensor_parallel_size: 2\nfsdp_version: 2\n"
                        "fsdp_config: {auto_wrap_policy: TRANSFORMER_BASED_WRAP}\n"}),
            "8xH100");
  CHECK(r.options.tp == 2);
  const Strategy strategy = make_strategy(r.strategy, r.cluster, options_for(r));
  CHECK(why_not_divided(strategy, r.recipe, r.model) == "axolotl has no tensor parallelism that is planned");
  CHECK(asked(reading_of({"model: a\ntuner_type: full\nsequence_parallel_size: 2\n"}), "8xH100").options.cp == 2);
  CHECK(contains(error_of({std::string(kTrl), fsdp("parallelism_config:\n  parallelism_config_cp_size: 2\n", "1")}),
                 "[E06]"));
}

TEST_CASE("torchtitan: TOML with its degrees, checkpointing and precision") {
  const char* const file =
      "[job]\ndump_folder = \"out\"\n[model]\nname = \"llama3\"\nflavor = \"8B\"\nhf_assets_path = "
      "\"./assets/hf/Llama-3.1-8B\"\n[training]\nlocal_batch_size = 2\nseq_len = 8192\n[parallelism]\n"
      "tensor_parallel_degree = 4\ncontext_parallel_degree = 2\n[activation_checkpoint]\nmode = \"selective\"\n"
      "selective_ac_option = \"op\"\n[compile]\nenable = true\n";
  const auto titan = [](const std::string& text) { return read_configs({{"a.toml", text}}, {}); };
  const EstimateRequest r = asked(titan(file), "16xH100");
  CHECK(r.recipe.framework->name == "torchtitan");
  CHECK(r.strategy == "fsdp");
  CHECK(r.options.tp == 4);
  CHECK(r.options.cp == 2);
  CHECK(r.recipe.micro_batch == 2);
  CHECK(r.recipe.checkpointing == Checkpointing::Selective);
  CHECK(r.recipe.precision == Precision::Bf16Mixed);
  CHECK(r.recipe.torch_compile);
  // what its class has where the file says nothing: every second layer
  const EstimateRequest usual = asked(titan("[model]\nflavor = \"8B\"\n"), "8xH100");
  CHECK(usual.recipe.checkpointing == Checkpointing::EveryK);
  CHECK(usual.recipe.checkpoint_every == 2);
  CHECK(usual.recipe.micro_batch == 8);
}

TEST_CASE("exchanges of tensor parallelism beside the products: by each trainer's key, both ways") {
  const auto titan = [](const char* overlap, const char* compile) {
    return asked(
        read_configs({{"a.toml", fmt::format("[model]\nflavor = \"8B\"\n[parallelism]\ntensor_parallel_degree = "
                                             "2\n{}[compile]\nenable = {}\n",
                                             overlap, compile)}},
                     {}),
        "8xH100");
  };
  CHECK_FALSE(titan("", "true").options.overlaps_tensor_parallel.has_value());
  const EstimateRequest asked_for = titan("enable_async_tensor_parallel = true\n", "true");
  CHECK(asked_for.options.overlaps_tensor_parallel == true);
  const auto why = [](const EstimateRequest& r) {
    return why_not_divided(make_strategy(r.strategy, r.cluster, options_for(r)), r.recipe, r.model);
  };
  CHECK(why(asked_for) == "");
  CHECK(why(titan("enable_async_tensor_parallel = true\n", "false")) == "--tp-overlap of torchtitan needs --compile");
  CHECK(asked(read_script(std::string(kMegatron) + "--tp_comm_overlap true"), "8xH100")
            .options.overlaps_tensor_parallel == true);
  const auto written = [](const char* target, const char* strategy, const char* file) {
    EstimateRequest r = plan_of(strategy, Method::Full, {}, target);
    r.model = load_model("llama-3.1-8b").spec;
    r.cluster = parse_gpus("8xH100");
    const bool is_titan = std::string_view(target) == "torchtitan";
    r.recipe.attention = is_titan ? AttentionKernel::Sdpa : AttentionKernel::Flash;
    r.recipe.loss = is_titan ? LossKernel::Plain : LossKernel::InPlace;
    r.recipe.torch_compile = is_titan;
    r.options.tp = 2, r.options.splits_sequence = true, r.options.overlaps_tensor_parallel = true;
    const ExportAnswer answer = export_plan(r, target, kMark);
    CAPTURE(answer.refusal);
    REQUIRE(file_of(answer, file));
    return file_of(answer, file)->content;
  };
  CHECK(contains(written("torchtitan", "fsdp", "torchtitan.toml"), "enable_async_tensor_parallel = true"));
  CHECK(contains(written("megatron-swift", "zero1", "megatron.yaml"), "tp_comm_overlap: true"));
}

TEST_CASE("torchtitan: a mixture of experts under tp alone is written and read without a word of etp") {
  EstimateRequest r = plan_of("fsdp", Method::Full, {}, "torchtitan");
  r.model = load_model("qwen3-30b-a3b").spec;
  r.cluster = parse_gpus("8xH100");
  r.recipe.attention = AttentionKernel::Sdpa;
  r.options.tp = 4;
  const ExportAnswer answer = export_plan(r, "torchtitan", kMark);
  CHECK(answer.refusal == "");
  REQUIRE(file_of(answer, "torchtitan.toml"));
  const std::string text = file_of(answer, "torchtitan.toml")->content;
  CHECK(contains(text, "tensor_parallel_degree = 4"));
  CHECK_FALSE(contains(text, "expert_tensor_parallel"));
  ConfigReading back = read_configs({{"a.toml", text}}, {});
  back.request.model = r.model;
  settle_experts(back, back.request);
  CHECK(options_for(back.request).etp == 4);
}

TEST_CASE("micro-batches of torchtitan's pipelines are flags: its file is refused, and not written") {
  CHECK_THROWS_WITH_AS(
      read_configs({{"a.toml", "[model]\nflavor = \"8B\"\n[parallelism]\npipeline_parallel_degree = 2\n"}}, {}),
      doctest::Contains("--framework torchtitan --pp P"), InputError);
  EstimateRequest r = plan_of("fsdp", Method::Full, {}, "torchtitan");
  r.model = load_model("llama-3.1-8b").spec;
  r.cluster = parse_gpus("8xH100");
  r.recipe.attention = AttentionKernel::Sdpa;
  r.recipe.grad_accum = 4, r.options.pp = 2;
  CHECK(contains(export_plan(r, "torchtitan", kMark).refusal, "micro-batches of a pipeline are not written"));
}

TEST_CASE("a trainer over Megatron-Core has the strategies of its own record, and not all of the library's") {
  for (const char* trainer : {"megatron-swift", "nemo-rl-megatron", "verl-megatron"}) {
    CAPTURE(trainer);
    EstimateRequest r = plan_of("fsdp", Method::Full, {}, trainer);
    settle_stack(r);
    const Strategy strategy = make_strategy("fsdp", r.cluster, options_for(r));
    CHECK(contains(why_not_applicable(strategy, r.cluster, r.recipe, r.model), "does not have it"));
  }
}

TEST_CASE("torchtitan's steps are those of rows, epochs and batch, as its data has no end") {
  EstimateRequest r = plan_of("fsdp", Method::Full, {}, "torchtitan");
  r.model = load_model("llama-3.1-8b").spec;
  r.cluster = parse_gpus("8xH100");
  r.recipe.attention = AttentionKernel::Sdpa;
  r.dataset = {.rows = 3200, .tokens_per_row = 0, .epochs = 3};
  r.recipe.grad_accum = 4;  // 3 x 3,200 / (4 x 8) = 300
  const ExportAnswer answer = export_plan(r, "torchtitan", kMark);
  CAPTURE(answer.refusal);
  REQUIRE(file_of(answer, "torchtitan.toml"));
  CHECK(contains(file_of(answer, "torchtitan.toml")->content, "steps = 300\n"));
}

TEST_CASE("Megatron-SWIFT's optimizer on the host has both of its switches") {
  // examples/megatron/dense/72b_offload.sh of modelscope/ms-swift @3602360a
  Offload offload;
  offload.optimizer = OffloadTarget::Cpu;
  EstimateRequest r = plan_of("zero1", Method::Full, offload, "megatron-swift");
  r.recipe.loss = LossKernel::InPlace;
  r.recipe.attention = AttentionKernel::Flash;
  r.recipe.packing = Packing::Dynamic;
  const auto file = [&] {
    const ExportAnswer answer = export_plan(r, "megatron-swift", kMark);
    CAPTURE(answer.refusal);
    REQUIRE(file_of(answer, "megatron.yaml"));
    return file_of(answer, "megatron.yaml")->content;
  };
  const std::string with = file();
  CHECK(contains(with, "optimizer_cpu_offload: true\n"));
  CHECK(contains(with, "use_precision_aware_optimizer: true\n"));
  r.recipe.offload = {};
  CHECK_FALSE(contains(file(), "use_precision_aware_optimizer"));
}

TEST_CASE("degrees are written so that the files say the same plan") {
  struct Divided {
    const char* strategy;
    std::int64_t tp, cp, pp, chunks;
    bool splits_sequence;
    std::int64_t ep = 1;
  };
  const std::vector<Divided> megatron{
      {"zero1", 1, 1, 1, 1, false}, {"ddp", 1, 1, 1, 1, false},      {"zero1", 2, 1, 1, 1, true},
      {"ddp", 4, 1, 1, 1, false},   {"single", 8, 1, 1, 1, true},    {"single", 2, 1, 4, 1, true},
      {"zero1", 1, 1, 4, 1, false}, {"zero1", 2, 1, 2, 4, true},     {"zero1", 2, 2, 1, 1, true},
      {"zero1", 1, 2, 2, 1, false}, {"zero1", 1, 1, 1, 1, false, 4}, {"zero1", 2, 1, 1, 1, true, 8},
      {"ddp", 1, 1, 2, 1, false, 2}};
  const std::vector<Divided> titan{{"fsdp", 1, 1, 1, 1, false},   {"fsdp", 2, 1, 1, 1, true},
                                   {"single", 8, 1, 1, 1, true},  {"fsdp", 1, 2, 1, 1, false},
                                   {"fsdp", 2, 2, 1, 1, true},    {"hsdp", 1, 1, 1, 1, false},
                                   {"fsdp", 1, 1, 1, 1, false, 4}};
  int num_same = 0;
  const auto ask = [&](const char* target, const Divided& d, Method method, Checkpointing checkpointing) {
    EstimateRequest r = plan_of(d.strategy, method, {}, target);
    r.model = load_model(d.ep > 1 ? "qwen3-30b-a3b" : "llama-3.1-8b").spec;
    r.cluster = parse_gpus("8xH100");
    r.recipe.attention = AttentionKernel::Flash;
    r.recipe.optimizer = "adamw-fused";
    r.recipe.grad_accum = 8;
    r.recipe.loss = std::string_view(target) == "torchtitan" ? LossKernel::Plain : LossKernel::InPlace;
    if (std::string_view(target) == "torchtitan") r.recipe.attention = AttentionKernel::Sdpa;
    r.recipe.checkpointing = checkpointing;
    if (checkpointing == Checkpointing::EveryK) r.recipe.checkpoint_every = 2;
    r.options.tp = d.tp, r.options.cp = d.cp, r.options.pp = d.pp, r.options.virtual_stages = d.chunks;
    r.options.splits_sequence = d.splits_sequence, r.options.ep = d.ep;
    const ExportAnswer answer = export_plan(r, target, kMark);
    CAPTURE(target);
    CAPTURE(d.strategy);
    CAPTURE(degrees_text(make_strategy(r.strategy, r.cluster, options_for(r)).mesh));
    CHECK(answer.refusal == "");  // export reads its files and compares
    num_same += answer.refusal.empty();
  };
  for (const Checkpointing checkpointing :
       {Checkpointing::None, Checkpointing::Full, Checkpointing::Selective, Checkpointing::EveryK}) {
    for (const Method method : {Method::Full, Method::Lora})
      for (const Divided& d : megatron) ask("megatron-swift", d, method, checkpointing);
    for (const Divided& d : titan) ask("torchtitan", d, Method::Full, checkpointing);
  }
  CHECK(num_same == 4 * (2 * 13 + 7));
  EstimateRequest r = plan_of("fsdp", Method::Full, {}, "torchtitan");
  r.options.tp = 2;
  CHECK(contains(export_plan(r, "trl", kMark).refusal, "do not say tensor, expert and pipeline parallelism"));
  CHECK(contains(export_plan(plan_of("fsdp", Method::Full), "torchtitan", kMark).refusal, "torchtitan builds no"));
}

TEST_CASE("how tokens go to experts, and how many ranks share each, is read of a file and written into one") {
  const auto mixture = [](const std::string& flags) {
    ConfigReading reading = read_script(std::string(kMegatron) + flags);
    reading.request.model = load_model("qwen3-30b-a3b").spec;
    settle_experts(reading, reading.request);
    return reading.request;
  };
  const EstimateRequest cut = mixture("--expert_model_parallel_size 2 --expert_tensor_parallel_size 2");
  CHECK(cut.options.ep == 2);
  CHECK(cut.options.etp == 2);
  CHECK(mixture("--expert_model_parallel_size 2").options.etp == 1);
  const Routing limited = mixture("--moe_expert_capacity_factor 1.25 --moe_token_drop_policy probs").recipe.routing;
  CHECK(limited.capacity == 1.25);
  CHECK_FALSE(limited.pads_to_capacity);
  CHECK(mixture("--moe_expert_capacity_factor 1.5 --moe_pad_expert_input_to_capacity true").recipe.routing ==
        Routing{.capacity = 1.5, .pads_to_capacity = true});
  CHECK(mixture("--moe_enable_deepep true --moe_token_dispatcher_type flex").recipe.routing ==
        Routing{.dispatcher = "deepep"});
  CHECK(mixture("--moe_token_dispatcher_type alltoall").recipe.routing == Routing{});
  CHECK(mixture("--moe_token_dispatcher_type flex").recipe.routing == Routing{.dispatcher = "deepep"});
  const auto written = [](StrategyOptions options, const Routing& routing) {
    EstimateRequest r = plan_of("zero1", Method::Full, {}, "megatron-swift");
    r.model = load_model("qwen3-30b-a3b").spec;
    r.cluster = parse_gpus("8xH100");
    r.recipe.attention = AttentionKernel::Flash, r.recipe.loss = LossKernel::InPlace, r.recipe.grad_accum = 8;
    r.options = options, r.recipe.routing = routing;
    const ExportAnswer answer = export_plan(r, "megatron-swift", kMark);
    CHECK(answer.refusal == "");
    return answer.refusal.empty() ? file_of(answer, "megatron.yaml")->content : "";
  };
  const std::string divided = written({.tp = 2, .splits_sequence = true, .ep = 2, .etp = 2}, {});
  CHECK(contains(divided, "expert_tensor_parallel_size: 2\n"));
  const std::string routed = written({.ep = 4}, {.imbalance = 1.5, .capacity = 1.25, .dispatcher = "deepep"});
  CHECK(contains(routed, "moe_expert_capacity_factor: 1.25\n"));
  CHECK(contains(routed, "moe_enable_deepep: true\n"));
  CHECK(contains(routed, "moe_token_dispatcher_type: flex\n"));
  CHECK(contains(written({.ep = 4}, {.capacity = 1.25, .pads_to_capacity = true}),
                 "moe_pad_expert_input_to_capacity: true\n"));
}

TEST_CASE("files at which Megatron-Core stops are refused by the key, as it says it") {
  const auto refusal = [](const std::string& flags) {
    try {
      read_script(std::string(kMegatron) + flags);
    } catch (const InputError& error) { return error.where() + ": " + error.problem() + " | " + error.hint(); }
    return std::string();
  };
  const std::string pads = "--moe_pad_expert_input_to_capacity true ", flex = "--moe_token_dispatcher_type flex ",
                    factor = "--moe_expert_capacity_factor 1.25 ";
  CHECK(contains(refusal(pads), "moe_pad_expert_input_to_capacity: Megatron stops at padding without a capacity"));
  CHECK(contains(refusal(pads), "say moe_expert_capacity_factor"));
  CHECK(refusal(pads + factor) == "");
  CHECK(refusal("--moe_pad_expert_input_to_capacity false") == "");
  CHECK(contains(refusal(pads + factor + flex), "flex dispatcher does not pad"));
  CHECK(contains(refusal("--moe_enable_deepep true"), "moe_enable_deepep: Megatron has DeepEP with the flex"));
  CHECK(contains(refusal("--moe_enable_deepep true --moe_token_dispatcher_type alltoall"), "dispatcher_type: flex"));
  CHECK(refusal("--moe_enable_deepep true " + flex) == "");
  CHECK(contains(refusal(factor + "--moe_router_load_balancing_type sinkhorn"), "moe_expert_capacity_factor: "));
  CHECK(refusal(factor + "--moe_router_load_balancing_type aux_loss") == "");
  CHECK(contains(refusal("--moe_expert_capacity_factor 1e30"),
                 "moe_expert_capacity_factor: must be a number of at most 1024"));
}

TEST_CASE("a file of Megatron's keys alone is one of Megatron-SWIFT") {
  const ConfigReading reading = read_configs({{"m.yaml",
                                               "model: Qwen/Qwen3-30B-A3B\ndataset: x.jsonl\n"
                                               "tensor_model_parallel_size: 2\nexpert_model_parallel_size: 4\n"
                                               "sequence_parallel: true\nmicro_batch_size: 1\n"}},
                                             {});
  CHECK(reading.request.recipe.framework->name == "megatron-swift");
  CHECK(reading.request.options.ep == 4);
}

TEST_CASE("verl and NeMo-RL: what Megatron-Core makes of an expert tensor parallelism that nobody states") {
  const auto degrees = [](ConfigReading reading, const char* model) {
    reading.request.model = load_model(model).spec;
    settle_experts(reading, reading.request);
    return std::pair(reading.request.options.tp, reading.request.options.etp);
  };
  const auto verl = [&](const std::string& flags, const char* model = "qwen3-30b-a3b") {
    return degrees(read_script("python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer "
                               "actor_rollout_ref.model.path=Qwen/Qwen3-30B-A3B data.train_batch_size=64 "
                               "algorithm.adv_estimator=grpo actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 "
                               "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4 "
                               "actor_rollout_ref.rollout.name=vllm trainer.n_gpus_per_node=8 " +
                               flags),
                   model);
  };
  CHECK(verl("") == std::pair<std::int64_t, std::int64_t>(4, 4));
  CHECK(verl("actor_rollout_ref.actor.megatron.expert_tensor_parallel_size=1") ==
        std::pair<std::int64_t, std::int64_t>(4, 1));
  CHECK(verl("actor_rollout_ref.actor.megatron.expert_tensor_parallel_size=2") ==
        std::pair<std::int64_t, std::int64_t>(4, 2));
  CHECK(verl("", "qwen2.5-7b") == std::pair<std::int64_t, std::int64_t>(4, 1));
  const auto nemo = [&](const std::string& text) {
    return degrees(read_configs({{"a.yaml",
                                  "policy: {model_name: Qwen/Qwen3-30B-A3B, megatron_cfg: {enabled: true, "
                                  "tensor_model_parallel_size: 2, sequence_parallel: true" +
                                      text + "}}\ngrpo: {num_prompts_per_step: 8, num_generations_per_prompt: 8}\n"}},
                                {}),
                   "qwen3-30b-a3b");
  };
  CHECK(nemo("") == std::pair<std::int64_t, std::int64_t>(2, 1));
  CHECK(nemo(", expert_tensor_parallel_size: null") == std::pair<std::int64_t, std::int64_t>(2, 2));
  CHECK(nemo(", expert_tensor_parallel_size: 2") == std::pair<std::int64_t, std::int64_t>(2, 2));
}

}  // namespace gpuplan
