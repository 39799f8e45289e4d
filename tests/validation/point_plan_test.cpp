#include "validate/point_plan.h"

#include <doctest/doctest.h>

#include "models/weights.h"
#include "validate/judge.h"
#include "validation/point_lines.h"

using namespace gpuplan;
using namespace gpuplan::test;
using nlohmann::json;

namespace {

PointPlanner& planner() {
  static PointPlanner shared(AliasTable::read());
  return shared;
}

PointPlan plan_of(const json& point) { return planner().plan(read_one(point)); }
std::string why_not(const json& point) { return plan_of(point).unsupported; }

}  // namespace

TEST_CASE("a memory point becomes a recipe, a GPU of its capacity and a fixed strategy") {
  const PointPlan plan = plan_of(memory_point({{"quant", "nf4-dq"}, {"optimizer", "paged_adamw"}}));
  CHECK(plan.unsupported.empty());
  const Recipe& r = plan.request.recipe;
  CHECK(plan.request.model.name == "llama-2-7b");
  CHECK(r.method == Method::Qlora);
  CHECK(r.quant.double_quant);
  CHECK(r.lora.rank == 8);
  CHECK(r.precision == Precision::Bf16True);
  CHECK(r.checkpointing == Checkpointing::Full);
  CHECK(r.optimizer->name == "paged-adamw");
  CHECK(plan.request.strategy == "single");
  CHECK(plan.request.cluster.gpus[0].id == "a100-sxm-80gb");
  CHECK(plan.request.cluster.gpus[0].framework_memory.count == std::int64_t(79.2 * 0x1p30));
}

TEST_CASE("a speed point becomes a cluster with its links and its accumulation") {
  const PointPlan plan =
      plan_of(speed_point({{"grad_accum", nullptr}, {"num_gpus", 16}, {"inter_node_link", "800Gb/s per node"}}));
  CHECK(plan.unsupported.empty());
  CHECK(plan.request.cluster.fabric == FabricKind::NvSwitch);
  CHECK(plan.request.cluster.num_nodes() == 2);
  // 800 Gbit/s over 8 GPUs are 12.5 GB/s each, of which the profile's share is reached
  CHECK(plan.request.cluster.inter.bandwidth.value < 12.5e9);
  CHECK(plan.request.cluster.inter.bandwidth.value > 6e9);
  CHECK(plan.request.recipe.grad_accum == 1);  // 64 sequences = 4 x 16 ranks x 1
}

TEST_CASE("attention of another generation takes its rate over flash attention 2's") {
  const auto tokens_per_second = [](const char* kernel) {
    const std::vector<Point> points = {
        read_one(speed_point({{"seq_len", 65536}, {"micro_batch_size", 1}, {"norm", {{"attention", kernel}}}}))};
    PointPlanner planner(AliasTable::read());
    return judge(points, planner).results.front().throughput.value().predicted;
  };
  // at 65,536 tokens attention is most of a small model's step: at 0.54 of the rate the step takes up to 1 / 0.54
  const double slower = tokens_per_second("flash2") / tokens_per_second("flash1");
  CHECK(slower > 1.4);
  CHECK(slower < 1 / 0.54);
}

TEST_CASE("a missing accumulation follows from the global batch, or is refused") {
  CHECK(plan_of(speed_point({{"grad_accum", nullptr}})).request.recipe.grad_accum == 2);  // 64 = 4 x 8 x 2
  CHECK(why_not(speed_point({{"grad_accum", nullptr}, {"global_batch_seqs", 65}})) ==
        "65 sequences per step are no multiple of the 32 of one pass");
}

TEST_CASE("a point says how many layers each stage has where they are not as many") {
  const auto point = [](const json& stage_layers) {
    return speed_point({{"framework", "Megatron-LM"},
                        {"num_gpus", 7},
                        {"parallel", {{"fsdp", nullptr}, {"stage_layers", stage_layers}}},
                        {"norm", {{"degrees", {{"pp", 7}}}, {"family", "zero1"}}}});
  };
  CHECK(why_not(point(nullptr)) ==
        "22 layers cannot be divided evenly into 7 x 1 parts: --stage-layers says how many each stage has");
  const PointPlan plan = plan_of(point("4,3,3,3,3,3,3"));
  CHECK(plan.unsupported == "");
  CHECK(plan.request.options.stage_layers == StageLayers{4, 3, 3, 3, 3, 3, 3});
}

TEST_CASE("what a strategy cannot say is refused with the reason") {
  CHECK(why_not(speed_point({{"norm", {{"degrees", {{"ep", 4}}}}}})).find("no expert parallelism") !=
        std::string::npos);
  CHECK(why_not(speed_point({{"norm", {{"family", "spiral"}}}})) == "strategy 'spiral'");
  CHECK(why_not(speed_point({{"norm", {{"checkpointing", nullptr}}}})) == "checkpointing is not stated");
  CHECK(why_not(speed_point({{"norm", {{"precision", nullptr}}}})) == "precision is not stated");
  CHECK(why_not(speed_point({{"micro_batch_size", nullptr}})) == "the micro batch is not stated");
  CHECK(why_not(speed_point({{"gpu", "Abacus-9"}})).find("Abacus-9") != std::string::npos);
  CHECK(why_not(memory_point({{"method", "vera"}})) == "method 'vera'");
  CHECK(why_not(memory_point({{"method", "full"}, {"quant", "nf4"}})) == "full fine-tuning of a quantised model");
  CHECK(why_not(memory_point({{"model", "nonesuch-7b"}})).find("nonesuch-7b") != std::string::npos);
  CHECK(why_not(memory_point({{"norm", {{"framework", "abacus"}}}})) == "framework 'abacus'");
}

TEST_CASE("a framework that the table does not list is looked for among the records") {
  CHECK(plan_of(memory_point({{"norm", {{"framework", "hf-loop"}}}})).request.recipe.framework->name == "hf-loop");
}

TEST_CASE("a hybrid shard group of all GPUs is full sharding") {
  CHECK(plan_of(speed_point({{"norm", {{"family", "hsdp"}}}})).request.strategy == "fsdp");
  const PointPlan hybrid = plan_of(speed_point({{"norm", {{"family", "hsdp"}}}, {"parallel", {{"fsdp", 4}}}}));
  CHECK(hybrid.request.strategy == "hsdp");
  CHECK(hybrid.request.options.shard_size == 4);
}

TEST_CASE("a printed shape is built as the family whose parameter count fits best") {
  // 24 layers of 4 h^2 + 3 h f = 4 x 2048^2 + 3 x 2048 x 5632 = 51.4 M, and 2 x 32000 x 2048 = 131 M: 1.364 B gated,
  // untied
  const json shape{{"n_layer", 24}, {"d_model", 2048}, {"n_heads", 16}, {"n_kv", 16}, {"d_ff", 5632}, {"vocab", 32000}};
  const ModelSpec gated =
      model_of_shape(read_one(speed_point({{"model", "new"}, {"params_b", 1.364}, {"arch", shape}})));
  CHECK(gated.mlp == MlpKind::Gated);
  CHECK(!gated.tie_word_embeddings);
  // 4 h^2 + 2 h f = 39.8 M a layer and one table of 65.5 M: 1.02 B plain, tied
  const ModelSpec plain =
      model_of_shape(read_one(speed_point({{"model", "new"}, {"params_b", 1.02}, {"arch", shape}})));
  CHECK(plain.mlp == MlpKind::Plain);
  CHECK(plain.tie_word_embeddings);
  CHECK(double(list_weights(plain).total_elements()) / 1e9 == doctest::Approx(1.02).epsilon(0.02));
  CHECK(why_not(speed_point({{"model", "new"}, {"params_b", 9}, {"arch", shape}})).find("no family explains") == 0);
}

TEST_CASE("a catalogue model of another size than the point prints is not taken for it") {
  CHECK(why_not(memory_point({{"params_b", 13.0}})) == "'llama2-7b' has 13 B parameters here, llama-2-7b has 6.74 B");
}

TEST_CASE("adapter targets are found under the model's own names") {
  const auto targets_of = [](const json& targets) {
    return plan_of(memory_point({{"lora", {{"target_modules", targets}}}})).request.recipe.lora;
  };
  CHECK(targets_of({"w1", "w2", "output_proj"}).targets ==
        std::vector<std::string>{"gate_proj", "down_proj", "o_proj"});
  CHECK(targets_of("all-linear+lm_head").targets == std::vector<std::string>{"all-linear", "lm_head"});
  const LoraSpec trained = targets_of({"q_proj", "+train wte,lm_head"});
  CHECK(trained.targets == std::vector<std::string>{"q_proj"});
  CHECK(trained.modules_to_save == std::vector<std::string>{"embed_tokens", "lm_head"});
}

TEST_CASE("offloading to the CPU takes what the strategy can give") {
  const PointPlan zero2 = plan_of(memory_point({{"strategy", "zero2"}, {"num_gpus", 2}, {"cpu_offload", true}}));
  CHECK(zero2.request.recipe.offload.optimizer == OffloadTarget::Cpu);
  CHECK(zero2.request.recipe.offload.params == OffloadTarget::None);
  const PointPlan fsdp =
      plan_of(memory_point({{"strategy", "fsdp-full_shard"}, {"num_gpus", 2}, {"cpu_offload", true}}));
  CHECK(fsdp.request.recipe.offload.params == OffloadTarget::Cpu);
}

TEST_CASE("a boundary is compared with the largest batch that we say fits, and counts as a run that worked") {
  const std::vector<Point> points{
      read_one(memory_point({{"boundary", "max_micro_batch"}, {"peak_memory_gib", nullptr}})),
      read_one(memory_point({{"id", "m2"}, {"peak_memory_gib", nullptr}}))};
  const auto results = judge(points, planner()).results;
  CHECK(results[0].status == PointStatus::Scored);
  REQUIRE(results[0].boundary);
  CHECK(results[0].boundary->measured == 1);
  CHECK(results[0].boundary->predicted > 8);  // 7 B of LoRA at 1,024 tokens with checkpointing in 79 GiB
  CHECK(results[1].status == PointStatus::Unsupported);
  CHECK(results[1].reason == "no figure is stated");
}

TEST_CASE("a speed point's source names its framework, and with it the loss that its users do not state") {
  const Recipe foundry = plan_of(speed_point({{"source", "mosaicml/llm-foundry"}})).request.recipe;
  CHECK(foundry.framework->name == "llm-foundry");
  CHECK(foundry.loss == LossKernel::InPlace);
  CHECK_FALSE(foundry.kernels.has_value());
  CHECK(plan_of(speed_point()).request.recipe.framework->name == "hf-trainer");
  CHECK(plan_of(speed_point({{"norm", {{"attention", "cudnn"}}}})).request.recipe.attention == AttentionKernel::Cudnn);
}

TEST_CASE("offload on one GPU takes the engine that offloads; partial recompute of elementwise ops is its own kind") {
  const json one =
      speed_point({{"num_gpus", 1},
                   {"gpus_per_node", 1},
                   {"global_batch_seqs", 8},
                   {"parallel", nullptr},
                   {"gradient_checkpointing", "partial:swiglu+norm"},
                   {"norm", {{"family", "single"}, {"software", "handwritten"}, {"checkpointing", "partial"}}}});
  json states = one, weights = one;
  states["norm"]["offload"] = {"optimizer", "master"};
  weights["norm"]["offload"] = {"optimizer", "quant_weights"};
  CHECK(plan_of(one).request.strategy == "single");
  CHECK(plan_of(one).request.recipe.checkpointing == Checkpointing::Elementwise);
  CHECK(plan_of(states).request.strategy == "zero2");
  CHECK(plan_of(weights).request.strategy == "zero3");
  CHECK(plan_of(weights).unsupported.empty());
  // 16-bit weights of a framework that keeps no other: a master on the host is the weights
  states["framework"] = "llmq";
  states["norm"]["precision"] = "bf16-true";
  CHECK(plan_of(states).request.strategy == "zero3");
  states["norm"]["matmul"] = "fp8";  // products read copies of their own
  CHECK(plan_of(states).request.strategy == "zero2");
}

TEST_CASE("a total time is compared by the time of a step, or by the printed rate of FLOPs") {
  const auto error = [](const json& point) {
    const std::vector<Point> points{read_one(point)};
    const Judgement j = judge(points, planner());
    REQUIRE(j.results.front().own);
    return j.results.front().own->predicted / j.results.front().own->measured;
  };
  const double by_step = error(speed_point({{"target", {{"metric", "step_time_s"}, {"value", 0.8192}}}}));
  CHECK(error(speed_point({{"target", {{"metric", "total_time_s"}, {"value", 3600}}}})) == doctest::Approx(by_step));
  const double by_rate = error(speed_point(
      {{"target", {{"metric", "tflops_per_gpu"}, {"value", 150}}}, {"metrics", {{"tflops_kind", "model"}}}}));
  CHECK(error(speed_point({{"target", {{"metric", "total_time_s"}, {"value", 3600}}},
                           {"metrics", {{"tflops_kind", "model"}, {"tflops_per_gpu", 150}}},
                           {"derived", {{"step_time_s", nullptr}}}})) == doctest::Approx(1 / by_rate));
}
