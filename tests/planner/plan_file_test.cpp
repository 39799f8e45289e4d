#include <filesystem>
#include <limits>
#include <regex>
#include <set>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_file.h"
#include "cluster/cluster_spec.h"
#include "cluster/machine.h"
#include "models/adapter_kind.h"
#include "models/hf_config.h"
#include "models/recipe_names.h"
#include "planner/plan/plan_file.h"
#include "planner/plan_fixture.h"
#include "schemas/schemas.h"

using namespace gpuplan;
using namespace gpuplan::plan_fixture;
using nlohmann::json;

namespace {

const Recipe kLora{.method = Method::Lora,
                   .lora = {.rank = 16,
                            .alpha = 32.5,
                            .dropout = 0.05,
                            .targets = {"q_proj", "v_proj"},
                            .adapter_dtype = Dtype::BF16,
                            .modules_to_save = {"lm_head"},
                            .is_dora = true},
                   .precision = Precision::Bf16True,
                   .micro_batch = 4,
                   .packing = Packing::Dynamic,
                   .grad_accum = 8,
                   .checkpointing = Checkpointing::EveryK,
                   .checkpoint_every = 2,
                   .attention = AttentionKernel::Flash,
                   .loss = LossKernel::Chunked,
                   .loss_chunks = 4,
                   .kernels = LayerKernels::Fused,
                   .framework = "torchtune"};
const Recipe kQlora{
    .method = Method::Qlora,
    .quant = {.kind = BaseQuant::Nf4, .block_size = 128, .double_quant = false, .storage_dtype = Dtype::BF16},
    .optimizer = "paged-adamw-8bit",
    .optimizer_in_backward = true,
    .offload = {.optimizer = OffloadTarget::Cpu, .params = OffloadTarget::Nvme, .activations = true}};

ClusterSpec four_gpus() { return cluster(std::vector<GpuSpec>(4, gpu("rtx-a6000")), 4); }
ClusterSpec mixed_gpus() { return cluster({gpu("a"), gpu("a"), gpu("b"), gpu("b")}, 4); }
ClusterSpec two_nodes() { return cluster(std::vector<GpuSpec>(16, gpu("h100-sxm")), 8); }

struct Case {
  std::string title;
  EstimateRequest request;
  std::string strategy;
};

/// Requests that differ in everything a plan stores.
std::vector<Case> cases() {
  std::vector<Case> out{
      {"full on one GPU", request({}, cluster({gpu("rtx-4090")}, 1)), "single"},
      {"lora on four GPUs", request(kLora, four_gpus()), "ddp"},
      {"qlora on mixed GPUs", request(kQlora, mixed_gpus()), "mp"},
      {"hsdp over nodes",
       request({}, two_nodes(), {.fsdp_version = 1, .wrap = WrapPolicy::Size, .wrap_min_params = 1'000'000}), "hsdp"},
      {"DeepSpeed's settings",
       request({}, four_gpus(), {.reduce_bucket_size = -1, .overlap_comm = false, .zero_quantized_weights = true}),
       "zero3"},
      {"layers shared, in a pipeline of chunks",
       request({}, two_nodes(),
               {.tp = 2, .splits_sequence = true, .pp = 2, .virtual_stages = 2, .schedule = Schedule::Interleaved}),
       "ddp"},
      {"experts shared, each by two ranks, unevenly, with a capacity",
       request({.routing = {.imbalance = 1.25, .capacity = 1.5, .dispatcher = "all-to-all"}}, two_nodes(),
               {.tp = 2, .splits_sequence = true, .ep = 2, .etp = 2}),
       "ddp"},
      {"a pinned shard size", request({}, two_nodes(), {.shard_size = 4}), "fsdp"},
      {"sharding over one rank", request({}, four_gpus(), {.shard_size = 1}), "fsdp"},
      {"kept after forward", request({}, four_gpus(), {.reshards = false}), "fsdp"},
      {"grad-op", request({}, four_gpus()), "fsdp-grad-op"},
      {"zero2", request({}, four_gpus()), "zero2"},
      {"gpt2", request({}, four_gpus()), "zero3"}};
  out.back().request.model = parse_hf_config(
      {{"model_type", "gpt2"}, {"n_embd", 64}, {"n_layer", 2}, {"n_head", 4}, {"vocab_size", 100}, {"n_positions", 32}},
      "config.json");
  EstimateRequest& last = out.back().request;
  last.dataset = {.rows = 5'000'000'000, .tokens_per_row = 300, .epochs = 2.5};
  last.preference = Preference::Cost;
  last.price_per_gpu_hour = 1.0 / 3;
  last.eval_generate = 64;
  last.eval_batch = 4;
  last.eval_logits = EvalLogits::Kept;
  last.cluster.price_per_gpu_hour.reset();
  last.cluster.memory_in_use.clear();
  return out;
}

/// Two sockets, a switch, an adapter, a bridge: every list of a layout has something in it.
NodeLayout some_layout() {
  NodeLayout layout{.sockets = 2, .bridges = {0, 1}, .switches = {{0, -1, {24e9}}}};
  for (std::int64_t gpu = 0; gpu < 4; ++gpu) layout.gpus.push_back({gpu / 2, gpu < 2 ? 0 : -1, {}, {}});
  layout.nics = {{0, 0, {12.5e9}, "mlx5_0"}};
  layout.direct_links = {{2, 3, 4, {48e9}}};
  layout.source = "a test";
  return layout;
}

json good_plan() {
  EstimateRequest r = request(kLora, four_gpus());
  r.teacher = r.critic = r.reward_model = std::make_shared<const ModelSpec>(r.model);
  r.cluster.layout = some_layout();
  r.cluster.host = {.kind = "server",
                    .usual_memory = {std::int64_t(1) << 40},
                    .memory_bandwidth = {409.6e9},
                    .cores = 128,
                    .sockets = 2,
                    .numa_nodes = 8,
                    .source = "a test"};
  r.recipe.quant.quantises_experts = true;
  r.recipe.images = {.width = 640, .height = 480, .per_row = 2, .train = TrainVision::Projector};
  r.options = {.splits_sequence = true,
               .context_exchange = ContextExchange::Ring,
               .virtual_stages = 2,
               .stage_layers = {6, 8, 0, 10},
               .overlaps_tensor_parallel = true,
               .schedule = Schedule::OneFOneB,
               .reduce_bucket_size = 500'000'000,
               .overlap_comm = true,
               .zero_quantized_weights = false};
  r.recipe.trained = {"layers"};
  r.recipe.trained_in_turn = true;
  r.recipe.qat = Qat::Int8Int4;
  r.recipe.attention_groups = 4;
  r.recipe.routing = {.imbalance = 1.5, .capacity = 1.25, .pads_to_capacity = true, .dispatcher = "deepep"};
  r.recipe.optimizer = "galore-adamw";
  r.recipe.lora.kind = "boft";
  r.recipe.lora.rotation_block = 16;
  r.recipe.lora.factor = 2;
  r.recipe.objective = {.method = "dpo",
                        .reference = Reference::Copy,
                        .completion_len = 128,
                        .labels = 0,
                        .texts_per_row = 2,
                        .teacher_topk = 64};
  r.rollout = {.engine = parse_engine("vllm:colocate,util=0.3,sleep=yes"),
               .generations = 8,
               .mean_prompt = 100,
               .prompt_len = 200,
               .mean_completion = 300,
               .max_completion = 800,
               .updates = 2,
               .iterations = 3,
               .reward = Seconds{4}};
  r.rollout.judged_by_function = true;
  r.rollout.old_batch = 4, r.rollout.reference_batch = 2;
  r.rollout.share = 0.5;
  json plan = plan_of(r, "fsdp");
  plan["recipe"]["lora"]["linear_experts"] = true;  // of a mixture, which this model is not
  plan["set_up_seconds"] = 900;
  plan["carried"] = {{"trainer", "axolotl"}, {"file", "a.yaml"}, {"settings", {{"learning_rate", 1e-4}}}};
  return plan;
}

std::string error_of(const json& plan) {
  try {
    parse_plan(plan, "plan.json");
  } catch (const InputError& error) { return error.what(); }
  return {};
}

/// What docs/plan.schema.json has against a plan.
std::string schema_problem(const json& plan) { return test::schema_problem("plan-file", plan); }

/// The keys of a plan as schema_properties spells them. A config's keys belong to Hugging Face.
void list_keys(const json& value, const std::string& at, std::set<std::string>& out) {
  if (value.is_array())
    for (const json& item : value) list_keys(item, at + "[]", out);
  if (!value.is_object() || at.ends_with("model.config") || at == "teacher.config" || at == "critic.config" ||
      at == "carried.settings")
    return;
  for (const auto& [key, inner] : value.items()) {
    const std::string here = at.empty() ? key : at + "." + key;
    out.insert(here);
    list_keys(inner, here, out);
  }
}

/// A mistake in an otherwise good plan.
struct Mistake {
  std::string pointer;
  json value;
  std::string message;
  bool is_seen_by_schema = true;
};

}  // namespace

TEST_CASE("a plan read back asks for what was asked, with the strategy pinned") {
  for (const Case& c : cases()) {
    CAPTURE(c.title);
    const EstimateRequest again = parse_plan(plan_of(c.request, c.strategy), "plan.json");
    CHECK(again.strategy == c.strategy);
    CHECK(again.model.name == c.request.model.name);
    CHECK(again.model.id == c.request.model.id);
    CHECK(again.model.source == "plan.json");
    CHECK(again.cluster.num_gpus() == c.request.cluster.num_gpus());
    CHECK(again.cluster.num_nodes() == c.request.cluster.num_nodes());
    CHECK(again.options.shard_size == c.request.options.shard_size);
    CHECK(again.options.virtual_stages == c.request.options.virtual_stages);
    CHECK(again.options.stage_layers == c.request.options.stage_layers);
    CHECK(again.options.schedule == c.request.options.schedule);
    CHECK(again.options.reduce_bucket_size == c.request.options.reduce_bucket_size);
    CHECK(again.options.overlap_comm == c.request.options.overlap_comm);
    CHECK(again.options.zero_quantized_weights == c.request.options.zero_quantized_weights);
    CHECK(make_strategy(again.strategy, again.cluster, again.options).mesh ==
          make_strategy(c.strategy, c.request.cluster, c.request.options).mesh);
    CHECK(make_strategy(again.strategy, again.cluster, again.options).layout ==
          make_strategy(c.strategy, c.request.cluster, c.request.options).layout);
    ModelSpec model = again.model;
    model.source = c.request.model.source;
    CHECK(model == c.request.model);
  }
}

TEST_CASE("a layout survives; one that contradicts itself is refused") {
  CHECK(parse_plan(good_plan(), "plan.json").cluster.layout == some_layout());
  CHECK(parse_plan(plan_of(request(kLora, four_gpus()), "ddp"), "plan.json").cluster.layout == NodeLayout{});
  json plan = good_plan();
  plan["cluster"]["layout"]["gpus"][0]["bridge"] = 7;
  CHECK(error_of(plan).starts_with("plan.json: cluster.layout: a GPU is on host bridge 7, which is not there"));
}

TEST_CASE("every field of a recipe survives") {
  const Recipe lora = parse_plan(plan_of(request(kLora, four_gpus()), "ddp"), "plan.json").recipe;
  CHECK(lora.method == Method::Lora);
  CHECK(lora.lora.rank == 16);
  CHECK(lora.lora.alpha == 32.5);
  CHECK(lora.lora.dropout == 0.05);
  CHECK(lora.lora.targets == kLora.lora.targets);
  CHECK(lora.lora.adapter_dtype == Dtype::BF16);
  CHECK(lora.lora.modules_to_save == kLora.lora.modules_to_save);
  CHECK(lora.lora.is_dora);
  CHECK(lora.precision == Precision::Bf16True);
  CHECK(lora.micro_batch == 4);
  CHECK(lora.packing == Packing::Dynamic);
  CHECK(lora.grad_accum == 8);
  CHECK(lora.checkpointing == Checkpointing::EveryK);
  CHECK(lora.checkpoint_every == 2);
  CHECK(lora.attention == AttentionKernel::Flash);
  CHECK(lora.loss == LossKernel::Chunked);
  CHECK(lora.loss_chunks == 4);
  CHECK(lora.kernels == LayerKernels::Fused);
  CHECK(lora.framework->name == "torchtune");

  const Recipe qlora = parse_plan(plan_of(request(kQlora, mixed_gpus()), "mp"), "plan.json").recipe;
  CHECK(qlora.quant.kind == BaseQuant::Nf4);
  CHECK(qlora.quant.block_size == 128);
  CHECK_FALSE(qlora.quant.double_quant);
  CHECK(qlora.quant.storage_dtype == Dtype::BF16);
  CHECK(qlora.optimizer->name == "paged-adamw-8bit");
  CHECK(qlora.optimizer_in_backward);
  CHECK(qlora.offload.optimizer == OffloadTarget::Cpu);
  CHECK(qlora.offload.params == OffloadTarget::Nvme);
  CHECK(qlora.offload.activations);
  CHECK(qlora.kernels == std::nullopt);
}

TEST_CASE("writing, reading and writing again gives the same bytes") {
  for (const Case& c : cases()) {
    CAPTURE(c.title);
    const json first = plan_of(c.request, c.strategy);
    const EstimateRequest again = parse_plan(json::parse(first.dump(2)), "plan.json");
    CHECK(plan_of(again, again.strategy).dump(2) == first.dump(2));
  }
}

TEST_CASE("set-up time that a plan counts is in its file, and what wrote none reads as none") {
  const EstimateRequest r = request({}, four_gpus());
  const StrategyEstimate e = estimate_of(r, "ddp");
  const json with = make_plan(r, result_of(e), e, nullptr, Seconds{900}), without = make_plan(r, result_of(e), e);
  CHECK((set_up_of(with).value == 900 && set_up_of(without).value == 0));
  CHECK((parse_plan(with, "plan.json").strategy == "ddp" && schema_problem(with) == ""));
}

TEST_CASE("a cluster is complete: no field is lost, and neighbours alike are stored once") {
  const json plan = plan_of(request(kQlora, mixed_gpus()), "mp");
  REQUIRE(plan["cluster"]["gpus"].size() == 2);
  CHECK(plan["cluster"]["gpus"][0]["count"] == 2);
  CHECK(plan_of(request({}, two_nodes()), "ddp")["cluster"]["gpus"].size() == 1);
  const ClusterSpec c = parse_plan(plan, "plan.json").cluster, was = mixed_gpus();
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(c.gpus[i].id == was.gpus[i].id);
    CHECK(c.gpus[i].fp8.value == was.gpus[i].fp8.value);
    CHECK(c.gpus[i].framework_memory == was.gpus[i].framework_memory);
    CHECK(c.gpus[i].source == was.gpus[i].source);
  }
  CHECK(c.fabric == FabricKind::PcieHostStaged);
  CHECK(c.inter.latency == was.inter.latency);
  CHECK(c.intra.all_reduce_bandwidth == was.intra.all_reduce_bandwidth);
  CHECK(c.price_per_gpu_hour == was.price_per_gpu_hour);
  CHECK(c.assumptions == was.assumptions);
  CHECK(c.memory_in_use == was.memory_in_use);
  // the same GPU with other memory, as `local` finds it, is another entry
  ClusterSpec odd = four_gpus();
  odd.gpus.change(2, [](GpuSpec& gpu) { gpu.framework_memory = {1 << 30}; });
  const json runs = plan_of(request({}, odd), "ddp")["cluster"]["gpus"];
  REQUIRE(runs.size() == 3);
  CHECK(runs[2]["count"] == 1);
}

TEST_CASE(
    "what does not apply is null: adapters of a full fine-tuning, FSDP's version elsewhere, a cost without a price") {
  const json full = plan_of(request({}, four_gpus()), "zero1");
  CHECK(full["recipe"]["lora"].is_null());
  CHECK(full["recipe"]["kernels"].is_null());
  CHECK(full["strategy"]["fsdp_version"].is_null());
  CHECK(full["strategy"]["zero_stage"] == 1);
  CHECK(full["predicted"]["cost_usd"].is_null());
  CHECK(full["predicted"]["max_seq_len"].is_null());
  CHECK(good_plan()["strategy"]["fsdp_version"] == 2);
}

TEST_CASE("the prediction is that of the chosen strategy, in base units") {
  const json p = good_plan()["predicted"];
  CHECK(p["peak_bytes"] == 1978);
  CHECK(p["peak_bytes"] == p["process_bytes"]);
  CHECK(p["host_bytes"] == 700);                  // loading needs more than stepping
  CHECK(p["memory_bytes"]["allocator"] == 2048);  // 2^11, the last of 12 categories
  CHECK(p["memory_bytes"].size() == std::size_t(kNumCategories));
  CHECK(p["step_seconds"] == 0.1);
  CHECK(p["epoch_seconds"] == 3600.5);
  CHECK(p["max_micro_batch"] == 12);
}

TEST_CASE("the largest numbers that flags and files take are read back as they were saved") {
  EstimateRequest r = request(kLora, parse_gpus(std::to_string(kMostGpus) + "xA6000"));
  r.recipe.micro_batch = r.eval_batch = kMostMicroBatch;
  r.recipe.seq_len = r.dataset.tokens_per_row = r.eval_generate = kMostSeqLen;
  r.recipe.grad_accum = kMostGradAccum;
  r.recipe.loss_chunks = kMostLossChunks;
  r.recipe.lora.rank = kMostRank;
  r.recipe.images = {.width = kMostPixels, .height = kMostPixels, .per_row = kMostImages};
  r.dataset.rows = kMostDataRows;
  r.cluster.intra.latency = Seconds{1e9};  // latency_us: 1e15, where a number of a file ends
  const json plan = plan_of(r, "ddp");
  CHECK(schema_problem(plan) == "");
  const EstimateRequest again = parse_plan(plan, "plan.json");
  CHECK(again.recipe == r.recipe);
  CHECK(again.cluster.num_gpus() == kMostGpus);
  CHECK(again.dataset.rows == kMostDataRows);
  CHECK(again.dataset.tokens_per_row == kMostSeqLen);
  CHECK(again.eval_batch == kMostMicroBatch);
  CHECK(again.eval_generate == kMostSeqLen);
  CHECK(again.cluster.intra.latency == r.cluster.intra.latency);
}

TEST_CASE("numbers that JSON cannot hold are our bug, not a null in the file") {
  EstimateRequest r = request({}, four_gpus());
  StrategyEstimate e = estimate_of(r, "ddp");
  e.tokens_per_second = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(make_plan(r, result_of(e), e), BugError);
}

TEST_CASE("written plans obey docs/plan.schema.json, and the schema names nothing else") {
  for (const Case& c : cases()) {
    CAPTURE(c.title);
    CHECK(schema_problem(plan_of(c.request, c.strategy)) == "");
  }
  std::set<std::string> keys;
  list_keys(good_plan(), "", keys);
  for (const Case& c : cases()) list_keys(plan_of(c.request, c.strategy), "", keys);
  CHECK(keys == test::schema_properties("plan-file"));
}

TEST_CASE("the schema lists the names of the tables") {
  const json file = read_json_file(std::filesystem::path(GPUPLAN_TEST_DIR).parent_path() / "docs" / "plan.schema.json");
  const json& recipe = file["properties"]["recipe"]["properties"];
  CHECK(recipe["method"]["enum"] == json(names_of(Method{}).canonical()));
  CHECK(recipe["precision"]["enum"] == json(names_of(Precision{}).canonical()));
  CHECK(recipe["packing"]["enum"] == json(names_of(Packing{}).canonical()));
  CHECK(recipe["checkpointing"]["enum"] == json(names_of(Checkpointing{}).canonical()));
  CHECK(recipe["attention"]["enum"] == json(names_of(AttentionKernel{}).canonical()));
  CHECK(recipe["loss"]["enum"] == json(names_of(LossKernel{}).canonical()));
  CHECK(recipe["images"]["properties"]["train"]["enum"] == json(names_of(TrainVision{}).canonical()));
  CHECK(recipe["quant"]["properties"]["kind"]["enum"] == json(names_of(BaseQuant{}).canonical()));
  CHECK(file["$defs"]["offload_target"]["enum"] == json(names_of(OffloadTarget{}).canonical()));
  json fabrics = json::array();  // all of them, also those no machine file may name
  for (int kind = 0; to_string(FabricKind(kind)) != "?"; ++kind) fabrics.push_back(to_string(FabricKind(kind)));
  CHECK(file["properties"]["cluster"]["properties"]["fabric"]["enum"] == fabrics);
  for (const json& name : file["$defs"]["dtype"]["enum"])
    CHECK(to_string(parse_dtype(name.get<std::string>(), "")) == name.get<std::string>());
}

TEST_CASE("every mistake in a plan is refused with its place, by the reader and by the schema") {
  const std::vector<Mistake> mistakes{
      // names
      {"/recipe/lora/rnk", 8, "plan.json: recipe.lora.rnk: is not a known field; did you mean 'rank'?"},
      {"/recipie", 1, "plan.json: recipie: is not a known field; did you mean 'recipe'?"},
      {"/cluster/gpus/0/fp4_flops_per_second", 1,
       "plan.json: cluster.gpus[0].fp4_flops_per_second: is not a known field"},
      {"/predicted/memory_bytes/wieghts", 1, "plan.json: predicted.memory_bytes.wieghts: is not a known field"},
      {"/recipe/precision", "bf16",
       "plan.json: recipe.precision: unknown precision 'bf16': did you mean 'bf16-mixed'?"},
      {"/recipe/precision", "int4", "recipe.precision: unknown precision 'int4'"},
      {"/recipe/attention", "sdap", "recipe.attention: unknown attention kernel 'sdap': did you mean 'sdpa'?"},
      {"/recipe/checkpointing", "every",
       "recipe.checkpointing: unknown checkpointing 'every': did you mean 'every-k'?"},
      {"/recipe/kernels", "liger", "recipe.kernels: unknown kernel set 'liger': did you mean 'fused'?"},
      {"/recipe/lora/adapter_dtype", "bfloat16",
       "recipe.lora.adapter_dtype: unknown data type 'bfloat16': did you mean 'bf16'?"},
      {"/recipe/lora/adapter_dtype", "x", "recipe.lora.adapter_dtype: unknown data type 'x'"},
      {"/recipe/optimizer", "adamw", "recipe.optimizer: unknown name 'adamw': did you mean 'adamw-fused'?", false},
      {"/recipe/optimizer", "adamx", "recipe.optimizer: unknown optimizer 'adamx'", false},
      {"/recipe/framework", "torchtun",
       "recipe.framework: unknown framework 'torchtun'; did you mean one of 'torchtune'", false},
      {"/cluster/fabric", "pci", "cluster.fabric: unknown fabric 'pci'"},
      {"/strategy/name", "FULL_SHARD", "strategy.name: unknown name 'FULL_SHARD': did you mean 'fsdp'?", false},
      {"/strategy/name", "auto", "strategy.name: unknown strategy 'auto'", false},
      {"/strategy/wrap", "size:-1", "strategy.wrap: -1 is too small; must be 1 or more"},
      {"/strategy/wrap", "size:007", "strategy.wrap: unknown name 'size:007': did you mean 'size:7'?"},
      {"/strategy/wrap", "size:99999999999999999999", "strategy.wrap: 99999999999999999999 is out of range", false},
      {"/options/preference", "fast", "options.preference: unknown preference 'fast': use one of speed, cost, memory"},
      // types
      {"/recipe", json::array(), "plan.json: recipe: must be an object {...}, found []"},
      {"/recipe/lora", "r=8", "recipe.lora: must be an object {...}, found \"r=8\""},
      {"/recipe/micro_batch", 1.5, "plan.json: recipe.micro_batch: must be a whole number, found 1.5"},
      {"/recipe/micro_batch", "1", "recipe.micro_batch: must be a whole number, found \"1\""},
      {"/recipe/micro_batch", true, "recipe.micro_batch: must be a whole number, found true"},
      {"/recipe/optimizer_in_backward", 1, "recipe.optimizer_in_backward: must be true or false, found 1"},
      {"/recipe/method", 3, "recipe.method: must be a text in quotes, found 3"},
      {"/recipe/lora/alpha", "32", "recipe.lora.alpha: must be a number, found \"32\""},
      {"/recipe/lora/targets", "q_proj", "recipe.lora.targets: must be a list [...], found \"q_proj\""},
      {"/recipe/lora/targets/0", 3, "recipe.lora.targets[0]: must be a text in quotes, found 3"},
      {"/cluster/gpus", json::object(), "cluster.gpus: must be a list [...] of one or more, found {}"},
      {"/cluster/gpus", json::array(), "cluster.gpus: must be a list [...] of one or more, found []"},
      {"/cluster/gpus/0", 7, "cluster.gpus[0]: must be an object {...}, found 7"},
      {"/cluster/memory_in_use_bytes/0", -1, "cluster.memory_in_use_bytes[0]: -1 is too small, must be 0 or more"},
      {"/model/config", "llama", "plan.json: model.config: must be an object"},
      {"/predicted/step_seconds", "fast", "predicted.step_seconds: must be a number"},
      // nulls
      {"/recipe/micro_batch", nullptr, "recipe.micro_batch: is null, a value is needed"},
      {"/recipe/lora", nullptr, "plan.json: recipe.lora: is needed: method is 'lora'", false},
      {"/recipe/method", "full", "plan.json: recipe.lora: must be null: method is 'full'", false},
      // ranges
      {"/recipe/micro_batch", 0, "plan.json: recipe.micro_batch: 0 is too small, must be 1 or more"},
      {"/recipe/micro_batch", -3, "recipe.micro_batch: -3 is too small"},
      {"/recipe/micro_batch", 1'000'000'001, "recipe.micro_batch: 1000000001 is too large, must be 1000000000 or less"},
      {"/recipe/seq_len", std::uint64_t(-1), "recipe.seq_len: 18446744073709551615 is too large"},
      {"/recipe/lora/dropout", 1.5, "recipe.lora.dropout: 1.5 is too large, must be 1 or less"},
      {"/dataset/epochs", -1, "dataset.epochs: -1 is too small, must be 0 or more"},
      {"/cluster/gpus/0/count", 0, "cluster.gpus[0].count: 0 is too small"},
      {"/cluster/gpus/0/count", 1'000'000'000, "cluster.gpus[0].count: 1000000000 is too large"},
      {"/cluster/gpus/0/bf16_flops_per_second", -1.0, "cluster.gpus[0].bf16_flops_per_second: -1 is too small"},
      {"/cluster/gpus/0/device_memory_bytes", std::int64_t(1) << 61,
       "cluster.gpus[0].device_memory_bytes: 2305843009213693952 is too large"},
      {"/cluster/gpus_per_node", 0, "cluster.gpus_per_node: 0 is too small"},
      {"/strategy/zero_stage", 4, "strategy.zero_stage: 4 is too large"},
      {"/predicted/max_seq_len", 0, "predicted.max_seq_len: 0 is too small"},
      // contradictions
      {"/strategy/dp_shard", 2, "plan.json: strategy.dp_shard: is 2, but fsdp on these 4 GPUs has 4", false},
      {"/strategy/zero_stage", 2, "strategy.zero_stage: is 2, but fsdp on these 4 GPUs has 3", false},
      {"/strategy/fsdp_version", nullptr, "strategy.fsdp_version: is null, but fsdp on these 4 GPUs has 2", false},
      {"/strategy/ep", 3, "plan.json: strategy.ep: 3 does not divide the 4 ranks of a stage", false},
      {"/options/shard_size", 3, "plan.json: options.shard_size: 3 does not divide the 4 GPUs", false},
      {"/cluster/intra/bandwidth_bytes_per_second", 0,
       "plan.json: cluster.intra: has no bandwidth, and a node has several GPUs", false},
      {"/cluster/host_link_bytes_per_second", 0, "cluster.host_link_bytes_per_second: is less than 1", false},
      {"/cluster/gpus/0/memory_bandwidth_bytes_per_second", 0, "cluster.gpus: 'rtx-a6000' has no memory bandwidth",
       false},
      {"/cluster/gpus/0/gemm_bf16_flops_per_second", 0.25, "cluster.gpus: 'rtx-a6000' has no rate", false},
      {"/cluster/intra/latency_seconds", 1e31, "cluster.intra.latency_seconds: 1e+31 is too large"},
      {"/cluster/memory_in_use_bytes", {1, 2}, "cluster.memory_in_use_bytes: has 2 entries for 4 GPUs", false},
      // the model
      {"/model/config/hidden_size", "big", "plan.json: model.config.hidden_size: must be a whole number", false},
      {"/model/config/model_type", "nonsense", "plan.json: model.config: ", false},
      // other programs
      {"/schema_version", 2, "plan.json: schema_version: 2 was made by a newer gpuplan"},
      {"/schema_version", 0, "plan.json: schema_version: 0 is too small"},
      {"/schema_version", "1", "plan.json: schema_version: must be a whole number, found \"1\""}};
  for (const Mistake& m : mistakes) {
    json plan = good_plan();
    plan[json::json_pointer(m.pointer)] = m.value;
    const std::string error = error_of(plan);
    CAPTURE(m.pointer);
    CAPTURE(m.message);
    CAPTURE(error);
    CHECK(error.find(m.message) != std::string::npos);
    CHECK(error.starts_with("plan.json: "));
    CHECK(schema_problem(plan).empty() != m.is_seen_by_schema);
  }
}

TEST_CASE("no field may be left out, whatever its place") {
  const json good = good_plan(), flat = good.flatten();
  std::set<std::string> parents;
  for (const auto& [pointer, value] : flat.items())
    for (json::json_pointer p(pointer); !p.empty(); p.pop_back()) parents.insert(p.to_string());
  std::set<std::string> tried;
  for (const std::string& text : parents) {
    if (text == "/cluster/layout" || text == "/recipe/images" || text == "/recipe/versions" ||
        text == "/recipe/quant/experts" || text == "/recipe/trained" || text == "/recipe/trained_in_turn" ||
        text == "/recipe/qat" || text == "/recipe/lora/linear_experts" || text == "/recipe/lora/kind" ||
        text == "/recipe/lora/rotation_block" || text == "/recipe/lora/factor" || text == "/recipe/optimizer_rank" ||
        text == "/recipe/attention_groups" || text == "/recipe/routing" || text == "/recipe/objective" ||
        text == "/recipe/objective/reference" || text == "/recipe/objective/teacher_topk" || text == "/cluster/host" ||
        text == "/carried" || text == "/set_up_seconds" || text == "/teacher" || text == "/critic" ||
        text == "/reward_model")
      continue;  // may be left out
    const std::string later =
        " eval_batch eval_logits reduce_bucket_size overlap_comm zero_quantized_weights "
        "sequence_parallel tensor_parallel_overlap context_exchange virtual_stages schedule engine "
        "generations prompt_len mean_prompt mean_completion max_completion updates iterations "
        "reward_seconds judged_by_function old_batch reference_batch stage_layers share ";
    if (text.starts_with("/options/") && later.find(" " + text.substr(9) + " ") != std::string::npos)
      continue;  // files before them have none
    const json::json_pointer p(text);
    if (p.back() == "memory_share") continue;              // of a card that was measured
    if (text.starts_with("/carried/settings/")) continue;  // another program's
    if (text.find("/config/") != std::string::npos || !good[p.parent_pointer()].is_object()) continue;
    json plan = good;
    plan[p.parent_pointer()].erase(p.back());
    const std::string error = error_of(plan);
    CAPTURE(text + ": " + error);
    CHECK(error.find(p.back() + ": is missing") != std::string::npos);
    CHECK_FALSE(schema_problem(plan).empty());
    tried.insert(std::regex_replace(text, std::regex("/[0-9]+"), "[]"));
  }
  CHECK(tried.size() + 49 == test::schema_properties("plan-file").size());
}

TEST_CASE("what the schema refuses is refused, and what is read is written back alike, whatever stands in a field") {
  const json good = good_plan(), flat = good.flatten();
  const std::vector<json> intruders{nullptr, true, -1, 2, 1e300, "x", json::array(), json::object()};
  std::size_t read = 0;
  for (const auto& field : flat.items()) {
    const std::string pointer = field.key();
    if (pointer.starts_with("/model/config/")) continue;
    for (const json& intruder : intruders) {
      json plan = good;
      plan[json::json_pointer(pointer)] = intruder;
      CAPTURE(pointer);
      CAPTURE(intruder.dump());
      const std::string error = error_of(plan);  // anything but an InputError ends the test
      if (!schema_problem(plan).empty()) CHECK_FALSE(error.empty());
      if (!error.empty()) continue;
      const EstimateRequest once = parse_plan(plan, "plan.json");
      const json written = plan_of(once, once.strategy);
      const EstimateRequest twice = parse_plan(written, "plan.json");
      CHECK(plan_of(twice, twice.strategy).dump() == written.dump());
      ++read;
    }
  }
  CHECK(read > 100);  // free texts and most amounts take some of them
}

TEST_CASE("all problems of a file come together") {
  json plan = good_plan();
  plan["recipe"]["lora"]["rnk"] = 8;
  plan["recipe"]["micro_batch"] = 0;
  plan["cluster"]["gpus"][0].erase("id");
  plan["model"]["config"].erase("hidden_size");
  plan["model"]["config"]["vocab_size"] = -1;
  plan["strategy"]["zero_stage"] = 4;
  plan["extra"] = 1;
  const std::string error = error_of(plan);
  CAPTURE(error);
  CHECK(error.starts_with("plan.json: 7 problems:\n  "));
  for (const char* part :
       {"recipe.lora.rnk: is not a known field", "recipe.micro_batch: 0 is too small", "cluster.gpus[0].id: is missing",
        "model.config.hidden_size: is missing", "model.config.vocab_size: ", "strategy.zero_stage: 4 is too large",
        "extra: is not a known field"})
    CHECK(error.find(part) != std::string::npos);
}

TEST_CASE("what is no plan at all says what is expected") {
  CHECK(error_of(json::array()).starts_with("plan.json: expected an object"));
  CHECK(error_of(json::object()).starts_with("plan.json: schema_version: is missing"));
  CHECK(error_of({{"hidden_size", 64}}).find("gpuplan estimate --save") != std::string::npos);
}

TEST_CASE("GPU counts add up within a limit") {
  json plan = good_plan();
  json gpus = plan["cluster"]["gpus"];
  gpus[0]["count"] = 70'000;
  gpus.push_back(gpus[0]);
  plan["cluster"]["gpus"] = gpus;
  CHECK(error_of(plan).find("cluster.gpus[1].count: makes more than 131072 GPUs") != std::string::npos);
}
