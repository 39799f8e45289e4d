// Layers that are folded into repeats against the same layers written out: programs, bytes and seconds.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/work_count.h"
#include "models/catalogue.h"
#include "models/optimizers.h"
#include "models/trained_names.h"
#include "planner/plan_builder.h"
#include "planner/strategy.h"
#include "sanitized.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

StepProgram build(const Job& job, std::span<const CostModel> columns, Layers layers) {
  StepProgram out;
  build_step_program(out, job, columns, {}, nullptr, layers);
  return out;
}

auto all_of(const Peak& p) {
  return std::tuple(p.tensors, p.step, p.resident, p.pools, p.joined_pools, p.joined_activations, p.joined_step,
                    p.step_temporaries, p.step_gradient, p.managed, p.host, p.nvme, p.unit, p.instant);
}

std::string shown(const Peak& p) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} unit {} {}", p.tensors.count, p.step.count, p.resident.count,
                     p.pools.count, p.joined_pools.count, p.joined_activations.count, p.joined_step.count,
                     p.step_temporaries.count, p.step_gradient.count, p.managed.count, p.host.count, p.nvme.count,
                     p.unit, int(p.instant));
}

/// The program of another batch becomes that of this one. `folded` was built for it.
void check_batch(const Job& job, const CostModel& device, const CommModel& comm, const StepProgram& folded) {
  BlockCache cache;
  Job other = job;
  other.request.recipe.micro_batch += 3;
  if (job.recipe().grad_accum > 2) other.request.recipe.grad_accum += 4;
  StepProgram program;
  build_step_program(program, other, {&device, 1}, {}, &cache, Layers::Folded);
  const std::uint64_t build = program.build.value();
  (void)forward_pass(program, {&device, 1}, comm);
  build_step_program(program, job, {&device, 1}, {}, &cache, Layers::Folded);
  const Mesh& mesh = job.strategy.mesh;
  CHECK((program.build.value() == build) == (mesh.num_stages() == 1 && mesh.within_layers() == Mesh()));
  for (std::size_t k = 0; k < folded.num_programs; ++k) CHECK(program.programs[k] == folded.programs[k]);
  CHECK(forward_pass(program, {&device, 1}, comm).step == forward_pass(folded, {&device, 1}, comm).step);
}

/// Instructions of the folded program.
std::size_t check_folded(const Job& job, const CostModel& device, const CommModel& comm) {
  const StepProgram flat = build(job, {&device, 1}, Layers::WrittenOut);
  const StepProgram folded = build(job, {&device, 1}, Layers::Folded);
  std::size_t count = 0;
  for (std::size_t k = 0; k < flat.num_programs; ++k) {
    const RankProgram expanded = written_out(folded.programs[k]);
    CHECK(expanded.buffers == flat.programs[k].buffers);
    CHECK(expanded.operands == flat.programs[k].operands);
    CHECK(expanded.instructions == flat.programs[k].instructions);
    count += folded.programs[k].instructions.size();
  }
  for (std::size_t k = 0; k < flat.classes.size(); ++k) {
    const auto [is, expected] = std::pair(replay(folded, folded.classes[k]), replay(flat, flat.classes[k]));
    INFO("folded: " << shown(is) << ", written out: " << shown(expected));
    CHECK(all_of(is) == all_of(expected));
    CHECK(bytes_sent(folded, folded.classes[k]) == bytes_sent(flat, flat.classes[k]));
  }
  const StepTime a = forward_pass(flat, {&device, 1}, comm), b = forward_pass(folded, {&device, 1}, comm);
  const auto is_same = [](double x, double y) { return std::abs(x - y) <= 1e-9 * std::max(std::abs(x), std::abs(y)); };
  for (const auto part : {&StepTime::step, &StepTime::compute, &StepTime::communication, &StepTime::host}) {
    INFO(fmt::format("{:.15g} s written out, {:.15g} s folded", (a.*part).value, (b.*part).value));
    CHECK(is_same((a.*part).value, (b.*part).value));
  }
  CHECK(is_same(a.flops, b.flops));
  check_batch(job, device, comm, folded);
  return count;
}

}  // namespace

TEST_CASE(
    "layers that are folded are the layers written out: in bytes, in bytes sent and in seconds, in every strategy") {
  struct Variant {
    const char* name;
    void (*change)(Plan&);
  };
  const Variant variants[] = {
      {"full", [](Plan&) {}},
      {"checkpointed", [](Plan& p) { p.recipe.checkpointing = Checkpointing::Full; }},
      {"checkpointed every third",
       [](Plan& p) { p.recipe.checkpointing = Checkpointing::EveryK, p.recipe.checkpoint_every = 3; }},
      {"9 micro-batches", [](Plan& p) { p.recipe.grad_accum = 9; }},
      {"LoRA", [](Plan& p) { p.recipe.method = Method::Lora; }},
      {"LoRA, checkpointed, 3 micro-batches",
       [](Plan& p) {
         p.recipe.method = Method::Lora, p.recipe.checkpointing = Checkpointing::Full, p.recipe.grad_accum = 3;
       }},
      {"offloaded optimizer", [](Plan& p) { p.recipe.offload.optimizer = OffloadTarget::Cpu; }},
      {"offloaded weights", [](Plan& p) { p.recipe.offload.optimizer = p.recipe.offload.params = OffloadTarget::Cpu; }},
      {"offloaded activations",
       [](Plan& p) { p.recipe.checkpointing = Checkpointing::Full, p.recipe.offload.activations = true; }},
      {"optimizer in backward", [](Plan& p) { p.recipe.optimizer_in_backward = true; }},
      {"the last layers trained alone", [](Plan& p) { p.recipe.trained = {"layers.29-39"}; }},
      {"adapters in the middle", [](Plan& p) { p.recipe.method = Method::Lora, p.recipe.trained = {"layers.10-19"}; }},
      {"fake quantisers", [](Plan& p) { p.recipe.qat = Qat::Int8Int4; }},
      {"small buckets", [](Plan& p) { p.framework.distributed.ddp_bucket_bytes = 400'000; }},
      {"long sequences", [](Plan& p) { p.recipe.seq_len = 2048; }},
  };
  const Profile profile = default_profile("a100-sxm-80gb");
  for (const Variant& v : variants)
    for (const std::string_view name : strategy_names()) {
      INFO(name << ", " << v.name);
      Plan plan;
      plan.spec = tiny_llama(40);
      v.change(plan);
      plan.strategy = make_strategy(name, plan.cluster, plan.options);
      if (!why_not_applicable(plan.strategy, plan.cluster, plan.recipe, plan.spec).empty()) continue;
      const CommModel comm = make_comm_model(plan.cluster, profile, plan.strategy.mesh);
      check_folded(plan.job(), make_cost_model(plan.cluster.gpus.front(), profile, {}), comm);
    }
}

TEST_CASE("a folded program is as long with 80 layers as with 40, and so is what a forward pass runs of it") {
  struct Row {
    const char* strategy;
    std::size_t most_instructions;  // of 491 to 1,011 that are written out
  };
  const Profile profile = default_profile("a100-sxm-80gb");
  for (const Row row : {Row{"single", 30}, Row{"fsdp", 80}, Row{"zero3", 70}, Row{"hsdp", 80}}) {
    INFO(row.strategy);
    Plan plan;
    const auto shape = [&](std::int64_t layers) {
      plan.spec = tiny_llama(layers);
      plan.strategy = make_strategy(row.strategy, plan.cluster, plan.options);
      const CostModel device = make_cost_model(plan.cluster.gpus.front(), profile, {});
      const StepProgram folded = build(plan.job(), {&device, 1}, Layers::Folded);
      const std::int64_t before = work_counts()[std::size_t(Work::Instructions)];
      (void)forward_pass(folded, {&device, 1}, make_comm_model(plan.cluster, profile, plan.strategy.mesh));
      return std::pair(folded.programs.front().instructions.size(),
                       work_counts()[std::size_t(Work::Instructions)] - before);
    };
    const auto [instructions, run] = shape(40);
    CHECK(instructions <= row.most_instructions);
    CHECK(run <= 2 * std::int64_t(instructions));
    CHECK(shape(80) == std::pair(instructions, run));
  }
}

TEST_CASE("random plans: folded layers are the layers written out (GPUPLAN_FOLDED_PLANS: how many; 1,000)") {
  const char* models[] = {"gpt2",          "llama-3.2-1b",       "gemma-2-2b",
                          "gemma-3-270m",  "phi-3-mini",         "qwen3-0.6b",
                          "smollm2-135m",  "qwen2.5-0.5b",       "olmoe-1b-7b",
                          "llama-3-70b",   "gpt-oss-20b",        "deepseek-v2-lite",
                          "flan-t5-small", "bert-base",          "gemma-3-27b-text",
                          "falcon-7b",     "qwen3-30b-a3b",      "llama-3.1-405b",
                          "llama-3-8b",    "qwen3-next-80b-a3b", "llama-3.2-11b-vision",
                          "mixtral-8x7b"};
  const char* clusters[] = {"2x4090", "3xA6000", "4xH100", "8xA100", "2x4090,2x3090", "16xH100", "64xH100", "8xL4"};
  const char* given = std::getenv("GPUPLAN_FOLDED_PLANS");
  const int most = given ? std::atoi(given) : 1000;
  std::map<std::string, ModelSpec> loaded;
  int compared = 0;
  for (unsigned seed = 1; compared < most; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::size_t n) { return std::size_t(random() % n); };
    const auto pick = [&](const auto& values) { return values[below(std::size(values))]; };
    Plan plan;
    const char* model = pick(models);
    if (!loaded.count(model)) loaded[model] = load_model(model).spec;
    plan.spec = loaded[model];
    Recipe& r = plan.recipe;
    r.method = pick(std::array{Method::Full, Method::Lora, Method::Qlora});
    if (r.method == Method::Qlora) r.quant.kind = BaseQuant::Nf4;
    r.loss = pick(std::array{LossKernel::Plain, LossKernel::InPlace, LossKernel::Chunked, LossKernel::Fused});
    r.lora.rank = pick(std::array{1, 8, 64, 256});
    r.precision = r.method == Method::Qlora
                      ? Precision::Bf16True
                      : pick(std::array{Precision::Bf16Mixed, Precision::Bf16True, Precision::Fp32});
    r.optimizer = std::string(optimizers()[below(optimizers().size())].name);
    r.micro_batch = pick(std::array{1, 2, 5, 64});
    r.seq_len = pick(std::array{16, 64, 512, 2048});
    r.grad_accum = pick(std::array{1, 1, 2, 3, 7, 40});
    r.optimizer_in_backward = r.grad_accum == 1 && below(5) == 0;
    r.checkpointing =
        pick(std::array{Checkpointing::None, Checkpointing::Full, Checkpointing::Selective, Checkpointing::EveryK});
    r.checkpoint_every = pick(std::array{1, 2, 3, 5});
    if (below(6) == 0) r.offload.optimizer = OffloadTarget::Cpu;
    if (below(6) == 0)
      r.offload.optimizer = r.offload.params = pick(std::array{OffloadTarget::Cpu, OffloadTarget::Nvme});
    if (const auto layers = std::size_t(plan.spec.num_layers()); below(6) == 0) {
      const std::size_t first = below(layers);
      r.trained = {fmt::format("layers.{}-{}", first, first + below(layers - first))};
      ModelWeights weights = list_weights(plan.spec);
      if (mark_frozen(weights, r.trained)) r.trained.clear();  // its layers have another name
    }
    r.offload.activations = r.checkpointing != Checkpointing::None && below(5) == 0;
    if (plan.spec.learned_positions > 0) r.seq_len = std::min(r.seq_len, plan.spec.max_position_embeddings);
    const auto frameworks = list_frameworks();
    plan.framework = find_framework(frameworks[below(frameworks.size())].name);
    if (below(3) == 0)
      plan.framework.distributed.ddp_bucket_bytes = pick(std::array{1'000'000, 60'000'000, 400'000'000});
    plan.cluster = parse_gpus(pick(clusters));
    plan.options.fsdp_version = 1 + int(below(2));
    plan.options.reshards = below(5) != 0;
    if (below(8) == 0) plan.options.wrap = WrapPolicy::Size, plan.options.wrap_min_params = 20'000'000;
    if (below(5) == 0) plan.options.tp = 2, plan.options.splits_sequence = below(2) == 0;
    if (below(8) == 0) plan.options.pp = 2;
    if (plan.options.tp * plan.options.pp > 1) {
      plan.framework = find_framework(pick(std::array{"megatron", "nemo", "torchtitan"}));
      r.framework = plan.framework.name;
    }
    // links and GPUs of all sorts, so that now the one and now the other has to be waited for
    plan.cluster.intra.bandwidth.value *= pick(std::array{0.05, 0.3, 1.0, 3.0});
    Profile profile = default_profile("a100-sxm-80gb");
    for (const std::string_view name : strategy_names()) {
      INFO("seed " << seed << ": " << std::string(model) << " on " << plan.cluster.name << ", " << std::string(name));
      if (strategy_mistake(name, plan.cluster, plan.options)) continue;
      plan.strategy = make_strategy(name, plan.cluster, plan.options);
      if (!why_not_applicable(plan.strategy, plan.cluster, r, plan.spec).empty()) continue;
      CostModel device = make_cost_model(plan.cluster.gpus.front(), profile, {});
      device.python_dispatch.value *= pick(std::array{0.1, 1.0, 5.0, 20.0});
      device.overlap_slowdown = pick(std::array{0.0, 0.1, 0.4});
      check_folded(plan.job(), device, make_comm_model(plan.cluster, profile, plan.strategy.mesh));
      ++compared;
    }
  }
}

namespace {

/// Choices that a seed makes.
struct Choices {
  std::mt19937_64 random;
  std::size_t below(std::size_t n) { return std::size_t(random() % n); }
  auto pick(const auto& values) { return values[below(std::size(values))]; }
};

const ModelSpec& spec_of(const std::string& model) {
  static std::map<std::string, ModelSpec> loaded;
  if (!loaded.count(model)) loaded[model] = load_model(model).spec;
  return loaded[model];
}

/// A plan of a divided model, as one of these trainers makes it.
Plan divided_plan(Choices& choices, const char* model, std::span<const char* const> trainers) {
  Plan plan;
  plan.spec = spec_of(model);
  plan.framework = find_framework(choices.pick(trainers));
  plan.recipe.framework = plan.framework.name;
  if (choices.below(2) == 0)
    plan.framework.distributed.ddp_bucket_bytes = choices.pick(std::array{1'000'000, 400'000'000});
  plan.recipe.method = choices.pick(std::array{Method::Full, Method::Lora});
  plan.recipe.precision = Precision::Bf16Mixed;
  plan.recipe.seq_len = choices.pick(std::array{64, 512, 2048});
  plan.recipe.checkpointing =
      choices.pick(std::array{Checkpointing::None, Checkpointing::Full, Checkpointing::Selective});
  return plan;
}

/// Instructions of a program, folded and written out.
struct Lengths {
  std::size_t folded{}, written{};
};

/// The plan under each strategy that applies and that `counts`.
std::vector<Lengths> check_strategies(Plan& plan, bool (*counts)(const Job&)) {
  std::vector<Lengths> out;
  const Profile profile = default_profile("a100-sxm-80gb");
  for (const std::string_view name : strategy_names()) {
    INFO(plan.spec.name << " on " << plan.cluster.name << ", " << std::string(name));
    if (strategy_mistake(name, plan.cluster, plan.options)) continue;
    plan.strategy = make_strategy(name, plan.cluster, plan.options);
    if (!why_not_applicable(plan.strategy, plan.cluster, plan.recipe, plan.spec).empty()) continue;
    const Job job = plan.job();
    if (!counts(job)) continue;
    const CostModel device = make_cost_model(plan.cluster.gpus.front(), profile, {});
    Lengths& lengths = out.emplace_back();
    lengths.folded = check_folded(job, device, make_comm_model(plan.cluster, profile, plan.strategy.mesh));
    const StepProgram flat = build(job, {&device, 1}, Layers::WrittenOut);
    for (std::size_t k = 0; k < flat.num_programs; ++k) lengths.written += flat.programs[k].instructions.size();
    CHECK(lengths.folded <= lengths.written);
  }
  return out;
}

}  // namespace

TEST_CASE("random pipelines: layers of a stage are folded in each visit, and are the layers written out") {
  int compared = 0, num_short = 0;
  for (unsigned seed = 1; compared < num_rounds(20, 100, 500); ++seed) {
    REQUIRE(seed < 10'000);
    INFO("seed " << seed);
    Choices choices{std::mt19937_64(seed)};
    const char* model =
        choices.pick(std::array{"llama-3-70b", "llama-3-8b", "qwen2.5-32b", "llama-3.1-405b", "gpt2-xl"});
    Plan plan = divided_plan(choices, model, std::array{"megatron", "nemo", "native"});
    plan.cluster = parse_gpus(choices.pick(std::array{"4xH100", "8xH100", "16xH100"}));
    plan.recipe.grad_accum = choices.pick(std::array{1, 2, 4, 8, 17});
    plan.options.pp = choices.pick(std::array{2, 4});
    plan.options.schedule = choices.pick(std::array{Schedule::GPipe, Schedule::OneFOneB});
    if (choices.below(3) == 0) plan.options.tp = 2;
    for (const Lengths& l : check_strategies(plan, [](const Job&) { return true; })) {
      num_short += l.folded < l.written;
      ++compared;
    }
  }
  CHECK(num_short * 2 >= compared);
}

TEST_CASE("random plans: layers whose experts ranks share are folded as well, and are the layers written out") {
  int compared = 0, num_short = 0;
  for (unsigned seed = 1; compared < num_rounds(60, 200, 1000); ++seed) {
    REQUIRE(seed < 10'000);
    INFO("seed " << seed);
    Choices choices{std::mt19937_64(seed)};
    const char* model =
        choices.pick(std::array{"qwen3-30b-a3b", "mixtral-8x7b", "gpt-oss-20b", "olmoe-1b-7b", "glm-4.5-air"});
    Plan plan = divided_plan(choices, model, std::array{"megatron", "nemo", "torchtitan"});
    plan.cluster = parse_gpus(choices.pick(std::array{"8xH100", "16xH100", "64xH100"}));
    plan.recipe.micro_batch = choices.pick(std::array{1, 2, 8});
    plan.recipe.grad_accum = choices.pick(std::array{1, 2, 3, 40});
    plan.options.ep = choices.pick(std::array{2, 4, 8});
    if (choices.below(3) == 0) plan.options.tp = 2, plan.options.splits_sequence = true;
    if (choices.below(4) == 0) plan.options.pp = 2;
    if (choices.below(4) == 0 && plan.recipe.method == Method::Full) plan.options.etp = 2;
    const auto has_experts_apart = [](const Job& job) {
      return job.rules.has_experts_apart() && !job.engine().is_deepspeed();
    };
    for (const Lengths& l : check_strategies(plan, has_experts_apart)) {
      num_short += plan.options.pp > 1 || l.folded * 3 < l.written * 2;  // stages are too short to be folded
      ++compared;
    }
  }
  CHECK(num_short * 20 >= compared * 19);  // in the rest, buckets of layers and of experts seldom end together
}
