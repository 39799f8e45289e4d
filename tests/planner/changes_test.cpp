// The table of changes: each row applies its value, is suggested where it is useful, and is estimated as it is worded.
#include "planner/changes.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "measured_machine.h"
#include "models/catalogue.h"
#include "planner/estimate.h"

using namespace gpuplan;

namespace {

Variant variant_of(const char* model, const char* gpus) {
  Variant v;
  v.request.model = load_model(model).spec;
  v.request.cluster = parse_gpus(gpus);
  v.profile = default_profile(v.request.cluster.gpus.front());
  return v;
}

Measured measured_after(const char* text) {
  Variant v = variant_of("smollm2-135m", "2xH100");
  const auto before = std::make_shared<const Measured>(test::two_devices("h100-sxm", "nvswitch"));
  v.profile.measured = before;
  const Variant after = changed(v, parse_settings(text));
  CHECK(before->loads[0].gemm.size() * before->loads[0].kernels.size() * before->collectives.size() >
        0);  // other profiles may hold it
  return *after.profile.measured;
}

std::vector<std::string> advice_for(const EstimateRequest& r) { return estimate(r).recommended->advice; }

/// The line of advice that begins so, or "".
std::string line_with(const std::vector<std::string>& advice, const std::string& begin) {
  for (const std::string& line : advice)
    if (line.starts_with(begin)) return line;
  return {};
}

}  // namespace

TEST_CASE("changes: a lever that does not exist, has no value or a value out of range is refused by name") {
  for (const char* bad : {"nvlnk=900", "nvlink", "nvlink=fast", "nvlink=-1", "pcie=7", "gemm=0", "memory=1e999", ""})
    CHECK_THROWS_AS(parse_settings(bad), InputError);
  const Variant v = variant_of("smollm2-135m", "4xA6000");
  for (const char* bad : {"nic=400", "checkpointing=some", "micro-batch=0", "compile=maybe", "full=off", "lora=8x"})
    CHECK_THROWS_AS(changed(v, parse_settings(bad)), InputError);
}

TEST_CASE("changes: a switch is on or off, or yes or no, and without a value is told how it is given") {
  const Variant v = variant_of("smollm2-135m", "4xA6000");
  for (const char* on : {"compile=on", "compile=yes"})
    CHECK(changed(v, parse_settings(on)).request.recipe.torch_compile);
  for (const char* off : {"compile=off", "compile=no"})
    CHECK_FALSE(changed(v, parse_settings(off)).request.recipe.torch_compile);
  try {
    parse_settings("compile");
    FAIL("a switch without a value");
  } catch (const InputError& e) { CHECK(std::string(e.what()).find("compile=on") != std::string::npos); }
}

TEST_CASE("changes: levers of the machine and of the plan are set together, each by its name") {
  const Variant before = variant_of("smollm2-135m", "4xA6000");
  const Variant after = changed(before, parse_settings("nvlink=900, dispatch=5, checkpointing=every=2, lora=r=16, "
                                                       "offload=optimizer+params, num-gpus=8, micro-batch=3"));
  CHECK(after.request.cluster.num_gpus() == 8);
  CHECK(after.profile.dispatch_eager.value == doctest::Approx(5e-6));
  CHECK(after.request.recipe.checkpointing == Checkpointing::EveryK);
  CHECK(after.request.recipe.checkpoint_every == 2);
  CHECK(after.request.recipe.method == Method::Lora);
  CHECK(after.request.recipe.lora.rank == 16);
  CHECK(after.request.recipe.lora.alpha == 32);
  CHECK(after.request.recipe.offload.params == OffloadTarget::Cpu);
  CHECK(after.request.recipe.micro_batch == 3);
  Variant some = before;
  some.request.recipe.trained = {"layers.3"};
  for (const char* const method : {"lora=r=8", "qlora=r=8", "full=on"})
    CHECK(changed(some, parse_settings(method)).request.recipe.trained == some.request.recipe.trained);
  const Variant linked = changed(before, parse_settings("nvlink=900"));
  CHECK(linked.request.cluster.fabric == FabricKind::NvSwitch);
  CHECK(linked.request.cluster.intra.bandwidth > before.request.cluster.intra.bandwidth);
}

TEST_CASE("changes: rows that are compared with each other in a micro batch are not divided otherwise") {
  Recipe recipe;
  recipe.micro_batch = 8;
  recipe.grad_accum = 4;
  CHECK(rebatchings(recipe).size() == 5);
  recipe.objective.method = "embed";  // the other texts of the micro batch are the negatives
  CHECK(rebatchings(recipe).empty());
  EstimateRequest r;
  r.recipe = recipe;
  for (const Suggested& one : suggest(r, Purpose::SaveMemory)) CHECK(one.setting.change->name != "micro-batch");
  recipe.objective.method = "embed-cached";  // the loss is of all of a step's pieces
  CHECK(rebatchings(recipe).size() == 5);
}

TEST_CASE("changes: another GEMM rate replaces the measured products, not the kernels, attention and collectives") {
  const Measured m = measured_after("gemm=700");
  CHECK(m.loads[0].gemm.empty());
  CHECK(m.loads[0].kernels.size() == 6);
  CHECK(m.loads[0].attention.size() == 1);
  CHECK(m.collectives.size() == kCollectiveKinds.size());
}

TEST_CASE("changes: another memory replaces the measured kernels, not the products") {
  const Measured m = measured_after("memory=2000");
  CHECK(m.loads[0].gemm.size() == kGemmTypes.size() * kGemmLayouts.size());
  CHECK(m.loads[0].kernels.empty());
  CHECK(m.collectives.size() == kCollectiveKinds.size());
}

TEST_CASE("changes: another link replaces the measured collectives alone") {
  const Measured m = measured_after("nvlink=600");
  CHECK(m.collectives.empty());
  CHECK(!m.loads[0].gemm.empty());
  CHECK(!m.loads[0].kernels.empty());
}

TEST_CASE("changes: what has been applied is not suggested again") {
  for (const char* gpus : {"4xA6000", "16xA100"}) {
    Variant v = variant_of("llama-3-8b", gpus);
    v.request.recipe.micro_batch = 8, v.request.recipe.attention = AttentionKernel::Eager;
    for (const Purpose purpose : {Purpose::SaveMemory, Purpose::LeaveOut, Purpose::Quality}) {
      for (int applied = 0;; ++applied) {
        const auto left = suggest(v.request, purpose);
        if (left.empty()) break;
        CAPTURE(describe(left.front().setting));
        REQUIRE(applied < 20);
        const std::string before = describe(left.front().setting);
        v = changed(v, {&left.front().setting, 1});
        for (const Suggested& again : suggest(v.request, purpose)) CHECK(describe(again.setting) != before);
      }
    }
  }
}

TEST_CASE("changes: what is on the host stays there while more goes there") {
  Variant v = variant_of("llama-3-8b", "4xA6000");
  v.request.recipe.method = Method::Lora;
  const auto offloads = [&](Offload now) {
    v.request.recipe.offload = now;
    std::vector<std::string> out;
    for (const Suggested& one : suggest(v.request, Purpose::SaveMemory))
      if (one.setting.change->name == "offload") out.push_back(one.setting.value);
    return out;
  };
  using Values = std::vector<std::string>;
  const auto cpu = OffloadTarget::Cpu, none = OffloadTarget::None, nvme = OffloadTarget::Nvme;
  CHECK(offloads({none, none, true}) ==
        Values{"optimizer,activations", "params,activations", "optimizer,params,activations"});
  CHECK(offloads({cpu, none, true}) == Values{"optimizer,params,activations"});
  CHECK(offloads({none, nvme, true}) == Values{"optimizer,params:nvme,activations"});
  CHECK(offloads({cpu, cpu, true}).empty());
}

TEST_CASE("changes: reductions beside backward are suggested where DeepSpeed's configuration has them in line") {
  Variant v = variant_of("smollm2-135m", "4xA6000");
  v.request.strategy = "zero2";
  const auto is_suggested = [&](const char* framework) {
    v.request.recipe.framework = framework;
    return suggest(v.request, Purpose::RunBetter, "overlap-comm").has_value();
  };
  CHECK(is_suggested("llama-factory"));
  CHECK(is_suggested("deepspeed"));
  CHECK_FALSE(is_suggested("hf-trainer"));
  CHECK_FALSE(is_suggested("native"));
  const Setting on = set_to("overlap-comm", "on");
  CHECK(describe(on) == "--overlap-comm on");
  v = changed(v, {&on, 1});
  CHECK_FALSE(is_suggested("llama-factory"));
  v.request.options = {};
  v.request.strategy = "zero3";
  CHECK(is_suggested("llama-factory"));  // its stage 3 as well
  CHECK_FALSE(is_suggested("deepspeed"));
  v.request.strategy = "fsdp";
  CHECK_FALSE(is_suggested("llama-factory"));
}

TEST_CASE("changes: every saver of memory alone needs no more memory") {
  Variant v = variant_of("llama-3.2-1b", "2xA100");
  v.request.recipe.micro_batch = 4, v.request.recipe.attention = AttentionKernel::Eager;
  const auto before = estimate_variant(v, "fsdp");
  REQUIRE(before);
  const auto savers = suggest(v.request, Purpose::SaveMemory);
  CHECK(savers.size() == 14);
  const Setting checkpoint = set_to("checkpointing", "full");
  for (const Suggested& saver : savers) {
    const std::string flag = describe(saver.setting);
    CAPTURE(flag);
    const bool is_of_zero = flag == "--offload optimizer";         // FSDP offloads weights with it
    const bool is_checkpointed = flag == "--offload activations";  // the host takes what checkpoints keep
    const Variant start = is_checkpointed ? changed(v, {&checkpoint, 1}) : v;
    const auto plain = is_checkpointed ? estimate_variant(start, "fsdp") : before;
    const auto after = estimate_variant(changed(start, {&saver.setting, 1}), is_of_zero ? "zero3" : "fsdp");
    REQUIRE(after);
    CHECK(after->tiers.needed < plain->tiers.needed);
  }
}

TEST_CASE("changes: estimated as the same request asked directly") {
  const Variant v = changed(variant_of("llama-3.2-1b", "2xA100"), parse_settings("qlora=r=8,checkpointing=full"));
  const auto e = estimate_variant(v, "fsdp");
  REQUIRE(e);
  EstimateRequest r = v.request;
  r.strategy = "fsdp";
  const StrategyEstimate asked = estimate(r).strategies.front();
  CHECK(e->tiers.process == asked.tiers.process);
  CHECK(e->time.step.value == asked.time.step.value);
  CHECK(e->strategy.engine == ShardingEngine::Fsdp1);  // FSDP2 does not shard a 4-bit base
  CHECK_FALSE(estimate_variant(variant_of("llama-3.2-1b", "A100"), "fsdp"));
  CHECK_FALSE(estimate_variant(changed(v, parse_settings("checkpointing=none,offload=activations")), "fsdp"));
}

TEST_CASE("changes: the time is worded from the two estimates") {
  StrategyEstimate before, after;
  before.tokens_per_second = 1000;
  const auto words = [&](double tokens_per_second) {
    after.tokens_per_second = tokens_per_second;
    return describe_time(before, after);
  };
  CHECK(words(750) == "33 % more time per token");
  CHECK(words(1250) == "20 % less time per token");
  CHECK(words(200) == "5.0 times the time per token");
  CHECK(words(990) == "");
  CHECK(words(0) == "");
}

TEST_CASE("changes: hints say what would be gained, in the flags that gain it") {
  EstimateRequest r = variant_of("llama-3.2-1b", "2xA100").request;
  r.strategy = "ddp";
  r.recipe.method = Method::Lora;
  r.recipe.checkpointing = Checkpointing::Full;
  const EstimateResult result = estimate(r);
  const StrategyEstimate& now = result.strategies.front();
  const auto words = [&](const char* text) {
    return describe_time(now, *estimate_variant(changed({r, result.profile}, parse_settings(text)), "ddp"));
  };
  const std::vector<std::string>& advice = result.recommended->advice;
  REQUIRE(result.recommended->better.size() == 1);  // what runs the same training is a better way, not a hint
  CHECK(result.recommended->better.front().flags == std::vector<std::string>{"--checkpointing none"});
  CHECK(line_with(advice, "it fits without adapters too: --full (best quality; " + words("full=on")) != "");
  r.recipe.checkpointing = Checkpointing::None;
  r.recipe.method = Method::Full;
  CHECK(line_with(advice_for(r), "it fits without") == "");
}

TEST_CASE("changes: what would help fits, takes the time that is stated, and is in flags") {
  EstimateRequest r = variant_of("llama-3-8b", "A6000").request;  // 16 bytes x 8.03 B do not fit 48 GB
  r.recipe.micro_batch = 1;
  REQUIRE(estimate(r).recommended->strategy.empty());
  const std::string line = line_with(advice_for(r), "--lora r=8 (quality good");
  CHECK(line.ends_with("then single fits"));
  r.recipe.method = Method::Lora;
  CHECK(estimate(r).recommended->strategy == "single");
}

TEST_CASE("changes: a variant is nothing where a shard size, a module or an amount rules it out, and no mistake") {
  Variant v = variant_of("smollm2-135m", "8xA6000");
  const auto answers = [&](auto change) {
    Variant other = v;
    change(other.request);
    return estimate_variant(other, "fsdp").has_value();
  };
  CHECK(answers([](EstimateRequest&) {}));
  CHECK_FALSE(answers([](EstimateRequest& r) { r.options.shard_size = 3; }));  // of 8 ranks
  CHECK_FALSE(answers([](EstimateRequest& r) { r.recipe.seq_len = 0; }));
  CHECK_FALSE(answers([](EstimateRequest& r) {
    r.recipe.method = Method::Lora;
    r.recipe.lora.targets = {"no_such_module"};
  }));
  CHECK_FALSE(answers([](EstimateRequest& r) { r.recipe.seq_len = 1 << 26, r.eval_batch = 1'000'000; }));  // past 2^63
  v.request.options.shard_size = 3;
  CHECK_FALSE(estimate_strategies(v).empty());  // ddp and others have no shard groups
}
