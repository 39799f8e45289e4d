// Advice: when each row is shown, and that its figures are those of this plan.
#include "planner/advice.h"

#include <fstream>
#include <functional>
#include <iterator>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/unit_text.h"
#include "models/catalogue.h"
#include "planner/estimate.h"
#include "planner/explain.h"

using namespace gpuplan;

namespace {

using Change = std::function<void(EstimateRequest&)>;

/// One strategy of one question, with its advice.
struct Answer {
  EstimateRequest request;
  EstimateResult result;

  const StrategyEstimate& chosen() const { return result.strategies.front(); }
  /// All lines of the row, or "" when its condition does not hold.
  std::string text(std::string_view name) const {
    std::string out;
    for (const Advice& advice : advise({request, result, chosen()}))
      if (advice.name == name)
        for (const ExplainLine& line : advice.lines) out += line.term + " | " + line.value + "\n";
    return out;
  }
  bool shows(std::string_view name) const { return !text(name).empty(); }
};

Answer ask(
    const char* model, const char* gpus, const char* strategy, const Change& change = [](auto&) {}) {
  Answer a;
  a.request.model = load_model(model).spec;
  a.request.cluster = parse_gpus(gpus);
  a.request.strategy = strategy;
  change(a.request);
  a.result = estimate(a.request);
  return a;
}

void make_lora(EstimateRequest& r) { r.recipe.method = Method::Lora; }
void make_qlora(EstimateRequest& r) {
  r.recipe.method = Method::Qlora;
  r.recipe.quant.kind = BaseQuant::Nf4;
}

std::string peak(const Answer& a) { return format_bytes(a.chosen().tiers.tensors); }
std::string step(const Answer& a) { return format_duration(a.chosen().time.step); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("advice: quantising without adapters leaves 14.5 of 16 bytes per parameter; QLoRA is what helps") {
  const Answer full = ask("llama-3-8b", "8xH100", "zero3");
  const std::string text = full.text("quantise-alone");
  CHECK(contains(text, "turn 16 bytes per parameter into 14.5"));
  // 16 x 8,030,261,248 bytes = 119.7 GiB; the 6,979,321,856 weights of linears in blocks take 2 - 0.5159 bytes
  // less: 9.65 GiB
  CHECK(contains(text, "here 120 GiB into 110 GiB before sharding (8 % less)"));
  const Answer qlora = ask("llama-3-8b", "8xH100", "zero3", make_qlora);
  CHECK(contains(text, fmt::format("--qlora r=8 peaks at {} instead of {}", peak(qlora), peak(full))));
  CHECK_FALSE(qlora.shows("quantise-alone"));
  CHECK_FALSE(ask("llama-3-8b", "8xH100", "ddp", make_lora).shows("quantise-alone"));
}

TEST_CASE("advice: an 8-bit optimizer has less left to quantise") {
  const Answer a = ask("llama-3-8b", "8xH100", "ddp", [](auto& r) { r.recipe.optimizer = "adamw-8bit"; });
  // 4 weights, 4 gradients, 2 x (1 + 4/256) states: 10.03 bytes, less 1.5
  CHECK(contains(a.text("quantise-alone"), "turn 10 bytes per parameter into 8.53"));
}

TEST_CASE("advice: mixed precision saves activations, not state, and raises memory when a pass has few tokens") {
  const Answer mixed = ask("llama-3.2-1b", "A100", "single"),
               fp32 = ask("llama-3.2-1b", "A100", "single", [](auto&r) { r.recipe.precision = Precision::Fp32; });
  const std::string text = mixed.text("mixed-precision");
  CHECK(contains(text, "16 bytes per parameter before sharding, 16 in fp32; 18.4 GiB and 18.4 GiB per rank"));
  CHECK(contains(text, fmt::format("The peak is {}, in fp32 {}.", peak(mixed), peak(fp32))));
  const auto few = [](Precision precision) {
    return ask("llama-3.2-1b", "A100", "single",
               [=](auto& r) { r.recipe.precision = precision, r.recipe.seq_len = 128, r.recipe.grad_accum = 2; });
  };
  const Answer few_mixed = few(Precision::Bf16Mixed), few_fp32 = few(Precision::Fp32);
  REQUIRE(few_mixed.chosen().tiers.tensors > few_fp32.chosen().tiers.tensors);
  CHECK(contains(text, fmt::format("it would raise it from {} to {}", peak(few_fp32), peak(few_mixed))));
  CHECK(contains(few_mixed.text("mixed-precision"), "At this batch it raises memory"));
  CHECK_FALSE(fp32.shows("mixed-precision"));
  CHECK_FALSE(ask("llama-3.2-1b", "A100", "single", make_lora).shows("mixed-precision"));
}

TEST_CASE("advice: weights cast by .bf16() keep 8 bytes per parameter, autocast keeps 16") {
  const auto in = [](Precision precision, const char* strategy = "single") {
    return ask("llama-3.2-1b", "2xA100", strategy, [=](auto& r) { r.recipe.precision = precision; });
  };
  const Answer pure = in(Precision::Bf16True), mixed = in(Precision::Bf16Mixed);
  for (const Answer* a : {&pure, &mixed}) {
    const std::string text = a->text("bf16-weights");
    CHECK(contains(text, fmt::format("of 8 bytes per parameter, {}, {};", peak(pure), step(pure))));
    CHECK(contains(text, fmt::format("in fp32: 16 bytes, {}, {}.", peak(mixed), step(mixed))));
  }
  CHECK(contains(pure.text("bf16-weights"), "This plan is bf16-true"));
  CHECK(contains(mixed.text("bf16-weights"), "This plan is bf16-mixed"));
  CHECK_FALSE(in(Precision::Fp32).shows("bf16-weights"));
  CHECK_FALSE(in(Precision::Fp16Mixed).shows("bf16-weights"));
  CHECK_FALSE(in(Precision::Bf16Mixed, "zero2").shows("bf16-weights"));  // ZeRO keeps an fp32 master of both
  CHECK_FALSE(ask("llama-3.2-1b", "A100", "single", make_lora).shows("bf16-weights"));
}

TEST_CASE("advice: it fits without a saver only where the plan without it fits well") {
  const auto at = [](std::int64_t seq_len, Checkpointing checkpointing) {
    return ask("llama-3-8b", "1x4090", "single", [=](auto& r) {
      r.recipe.method = Method::Qlora;
      r.recipe.quant.kind = BaseQuant::Nf4;
      r.recipe.checkpointing = checkpointing;
      r.recipe.seq_len = seq_len;
    });
  };
  bool has_seen_tight = false;
  for (std::int64_t seq = 256; seq <= 4096; seq += 256) {
    const Answer a = at(seq, Checkpointing::Full);
    const Fit without = at(seq, Checkpointing::None).chosen().fit;
    has_seen_tight |= without == Fit::Tight;
    const bool says = a.shows("savers-not-needed") && contains(a.text("savers-not-needed"), "ithout checkpointing");
    CHECK_MESSAGE(says == (without == Fit::Yes), seq);
  }
  CHECK(has_seen_tight);
}

TEST_CASE("advice: a larger batch is worth while up to where tokens per second level off") {
  const auto at = [](std::int64_t micro_batch) {
    return ask("llama-3-8b", "4xA6000", "ddp", [=](auto& r) {
      make_lora(r);
      r.recipe.micro_batch = micro_batch, r.recipe.seq_len = 512;
    });
  };
  const Answer a = at(1);
  REQUIRE(a.chosen().max_micro_batch);
  const std::int64_t most = *a.chosen().max_micro_batch;
  REQUIRE(most >= 4);
  const auto figure = [](const Answer& x) {
    return fmt::format("{} tokens/s at {}", format_count(std::int64_t(x.chosen().tokens_per_second)), peak(x));
  };
  const std::string text = a.text("larger-batch");
  CHECK(contains(text, "Micro batch 1 makes " + figure(a)));
  const char* const how = at(most).chosen().fit == Fit::Yes ? "" : " if the prediction is exact";
  CHECK(contains(text, fmt::format("{}, the largest that fits{}, {}.", most, how, figure(at(most)))));
  CHECK(contains(text, fmt::format("from 4 to {}.", 4 * most)));
  // the batch named as enough is: 95 % of the best, and the one before is not
  const auto from = text.find(" From ");
  REQUIRE(from != std::string::npos);
  const std::int64_t enough = std::stoll(text.substr(from + 6));
  double best = 0;
  for (std::int64_t b = 1; b < most; b *= 2) best = std::max(best, at(b).chosen().tokens_per_second);
  best = std::max(best, at(most).chosen().tokens_per_second);
  CHECK(at(enough).chosen().tokens_per_second >= 0.95 * best);
  if (enough > 1) CHECK(at(enough / 2).chosen().tokens_per_second < 0.95 * best);
  CHECK_FALSE(at(most).shows("larger-batch"));
}

TEST_CASE("advice: savers are named as not needed when the plan fits and is faster without them") {
  const auto with_checkpointing = [](EstimateRequest& r) {
    make_qlora(r);
    r.recipe.checkpointing = Checkpointing::Full;
  };
  const Answer a = ask("llama-3-8b", "4xA6000", "ddp", with_checkpointing),
               without = ask("llama-3-8b", "4xA6000", "ddp", make_qlora);
  REQUIRE(without.chosen().fits());
  const std::string text = a.text("savers-not-needed");
  CHECK(contains(text, fmt::format("Without checkpointing it fits too ({} of {}), and a step takes {} instead of {}",
                                   format_bytes(without.chosen().tiers.needed),
                                   format_bytes(without.chosen().tiers.usable), step(without), step(a))));
  CHECK_FALSE(ask("llama-3-8b", "4xA6000", "ddp", make_lora).shows("savers-not-needed"));
  const Answer needed = ask("llama-2-13b", "2x4090", "ddp", [&](auto& r) {  // 26 GB in 16 bit
    with_checkpointing(r);
    r.recipe.seq_len = 4096;
  });
  REQUIRE(needed.chosen().fits());
  CHECK_FALSE(needed.shows("savers-not-needed"));
}

TEST_CASE("advice: what savers save together is estimated, not multiplied") {
  const Answer a = ask("llama-3-8b", "8xH100", "fsdp", [](auto& r) { r.recipe.micro_batch = 4; });
  const auto with = [](const Change& change) {
    return ask("llama-3-8b", "8xH100", "fsdp", [&](auto& r) {
      r.recipe.micro_batch = 4;
      change(r);
    });
  };
  const Answer checkpointed = with([](auto& r) { r.recipe.checkpointing = Checkpointing::Full; });
  const Answer fused = with([](auto& r) { r.recipe.loss = LossKernel::Fused; });
  const Answer eight_bit = with([](auto& r) { r.recipe.optimizer = "adamw-8bit"; });
  const Answer all = with([](auto& r) {
    r.recipe.checkpointing = Checkpointing::Full, r.recipe.loss = LossKernel::Fused, r.recipe.optimizer = "adamw-8bit";
  });
  const double times = a.chosen().tiers.tensors / all.chosen().tiers.tensors;
  CHECK(times > 3);
  const std::string text = a.text("combined-savers");
  CHECK(contains(text, fmt::format("checkpointing + fused loss + 8-bit optimizer: {} instead of {}, {:.1f} times less",
                                   peak(all), peak(a), times)));
  CHECK(contains(text, fmt::format("{} with checkpointing, {} with fused loss, {} with 8-bit optimizer alone",
                                   peak(checkpointed), peak(fused), peak(eight_bit))));
  CHECK(contains(text, fmt::format("a step takes {} instead of {}", step(all), step(a))));
  CHECK_FALSE(all.shows("combined-savers"));
  CHECK_FALSE(with([](auto& r) {
                make_lora(r);
                r.recipe.checkpointing = Checkpointing::Full;
                r.recipe.loss = LossKernel::Fused;  // only the 8-bit optimizer is left
              }).shows("combined-savers"));
}

TEST_CASE("advice: weights gathered once or twice, both figures") {
  const auto fsdp = [](bool reshards) {
    return ask("llama-3-8b", "8xH100", "fsdp", [=](auto& r) {
      make_lora(r);
      r.options.reshards = reshards;
    });
  };
  const Answer twice = fsdp(true), once = fsdp(false);
  const auto figures = [](const Answer& a) {
    return fmt::format("{} per step, {} sent, peak {} (fits)", step(a), format_bytes(a.chosen().communication),
                       peak(a));
  };
  CHECK(once.chosen().tiers.tensors > twice.chosen().tiers.tensors);
  CHECK(once.chosen().communication < twice.chosen().communication);
  for (const Answer* a : {&twice, &once}) {
    CHECK(contains(a->text("keep-gathered"), "SHARD_GRAD_OP): " + figures(once)));
    CHECK(contains(a->text("keep-gathered"), "(FULL_SHARD): " + figures(twice)));
  }
  CHECK(contains(twice.text("keep-gathered"), "This plan gathers again"));
  CHECK(contains(once.text("keep-gathered"), "This plan keeps them"));
  CHECK_FALSE(ask("llama-3-8b", "8xH100", "ddp", make_lora).shows("keep-gathered"));
  CHECK_FALSE(ask("llama-3-8b", "8xH100", "zero3", make_lora).shows("keep-gathered"));
}

TEST_CASE("advice: the effective batch, and a scheduler that steps once per process") {
  const Answer a = ask("llama-3-8b", "8xH100", "ddp", [](auto& r) {
    make_lora(r);
    r.recipe.micro_batch = 2, r.recipe.grad_accum = 4, r.dataset.rows = 6400;
  });
  const std::string text = a.text("effective-batch");
  // 2 x 4 x 8 = 64 sequences of 2048 tokens; 6400 / 64 = 100 steps, 8 x 100 for a scheduler that 8 processes step
  CHECK(contains(text,
                 "2 per rank x 4 accumulated x 8 ranks = 64 sequences (131,072 tokens) per optimizer step, 100 steps"));
  CHECK(contains(text, "advances 8 times in each, so give it 800 steps per epoch"));
  const Answer one = ask("llama-3-8b", "8xH100", "single", [](auto& r) {
    make_lora(r);
    r.recipe.grad_accum = 4;
  });
  CHECK(contains(one.text("effective-batch"), "1 per rank x 4 accumulated x 1 ranks = 4 sequences"));
  CHECK_FALSE(contains(one.text("effective-batch"), "scheduler"));
  CHECK_FALSE(ask("llama-3-8b", "H100", "single", make_lora).shows("effective-batch"));
}

TEST_CASE("advice: variants of AdamW with their states, temporaries and peaks") {
  const Answer a = ask("llama-3.2-1b", "A100", "single", [](auto& r) { r.recipe.seq_len = 128; });
  const std::string text = a.text("optimizer-variants");
  // 1,235,814,400 parameters; the largest tensor is the embedding with 128,256 x 2048; all in fp32
  CHECK(contains(text, "torch, for-loop | 8 bytes per parameter, 9.21 GiB per rank, 1.96 GiB more at the step"));
  CHECK(contains(
      text, "torch, foreach (multi-tensor) | 8 bytes per parameter, 9.21 GiB per rank, 4.60 GiB more at the step"));
  CHECK(contains(text,
                 fmt::format("torch, fused | 8 bytes per parameter, 9.21 GiB per rank; peak {} (this plan)", peak(a))));
  CHECK(contains(text, "apex FusedAdam | 8 bytes per parameter, 9.21 GiB per rank; peak"));
  CHECK(contains(text, "anyprecision, bf16 states | 4 bytes per parameter, 4.60 GiB per rank"));
  CHECK(contains(text, "anyprecision, Kahan | 6 bytes per parameter, 6.91 GiB per rank"));
  CHECK(contains(text, "8-bit (bitsandbytes) | 2.03 bytes per parameter, 2.34 GiB per rank"));
  CHECK(contains(text, "Adafactor | 0.00292 bytes per parameter, 3.44 MiB per rank"));
  for (const char* optimizer : {"adamw-foreach", "adamw-loop", "adafactor"}) {
    const Answer other = ask("llama-3.2-1b", "A100", "single", [&](auto& r) {
      r.recipe.seq_len = 128;
      r.recipe.optimizer = optimizer;
    });
    CHECK_MESSAGE(contains(text, "peak " + peak(other)), optimizer);
    CHECK(contains(other.text("optimizer-variants"), fmt::format("peak {} (this plan)", peak(other))));
  }
  CHECK_FALSE(ask("llama-3.2-1b", "A100", "single", make_lora).shows("optimizer-variants"));  // states of a few MB
  CHECK_FALSE(
      ask("llama-3.2-1b", "A100", "single", [](auto& r) { r.recipe.optimizer = "lion"; }).shows("optimizer-variants"));
}

TEST_CASE("advice: apex keeps fp32 states beside bf16 weights, where torch's follow the weight") {
  const Answer a = ask("llama-3.2-1b", "A100", "single", [](auto& r) { r.recipe.precision = Precision::Bf16True; });
  const std::string text = a.text("optimizer-variants");
  CHECK(contains(text, "torch, fused | 4 bytes per parameter"));
  CHECK(contains(text, "apex FusedAdam | 8 bytes per parameter"));
  CHECK(contains(text, "anyprecision, Kahan | 6 bytes per parameter"));
}

TEST_CASE("advice: DeepSpeed stages beside FSDP strategies, each with its figures") {
  const Answer a = ask("llama-3-8b", "8xH100", "fsdp");
  const auto figures = [](const char* strategy) {
    const Answer x = ask("llama-3-8b", "8xH100", strategy);
    return fmt::format("{} {}, {}", strategy, peak(x), step(x));
  };
  const std::string text = a.text("zero-or-fsdp");
  CHECK(contains(text, "stage 0 = NO_SHARD | " + figures("ddp") + "\n"));
  CHECK(contains(text, "stage 1 = no counterpart | " + figures("zero1") + "\n"));
  CHECK(contains(text, "stage 2 = SHARD_GRAD_OP | " + figures("zero2") + "; " + figures("fsdp-grad-op") + "\n"));
  CHECK(contains(text, "stage 3 = FULL_SHARD | " + figures("zero3") + "; " + figures("fsdp") + "\n"));
  CHECK(contains(text, "stage 3 + hpZ = HYBRID_SHARD | " + figures("hsdp") + "\n"));
  CHECK(contains(ask("llama-3-8b", "2xH100", "fsdp").text("zero-or-fsdp"), "hsdp is not applicable"));
  CHECK_FALSE(ask("llama-3-8b", "8xH100", "ddp").shows("zero-or-fsdp"));
  CHECK_FALSE(ask("llama-3-8b", "H100", "single").shows("zero-or-fsdp"));
}

TEST_CASE("advice: the cache of keys and values when evaluation generates") {
  const auto generating = [](std::int64_t tokens, const char* strategy = "ddp") {
    return ask("llama-3-8b", "2xA100", strategy, [=](auto& r) {
      make_lora(r);
      r.recipe.micro_batch = 4, r.eval_generate = tokens;
    });
  };
  // 2 x 32 layers x 8 heads x 128 x 2 bytes = 131,072; 4 x (2048 + 256) = 9216 tokens: 1.125 GiB
  const std::string little = generating(256).text("generation-cache");
  CHECK(contains(
      little,
      "32 layers x (1024 + 1024) x 2 bytes = 128 KiB per token: 1.12 GiB for 4 sequences of 2,048 + 256 tokens"));
  const Answer training = generating(0);
  CHECK(contains(little, fmt::format("Training's peak of {} stays higher", peak(training))));
  const Answer much = generating(200'000);
  CHECK(contains(much.text("generation-cache"),
                 fmt::format("Evaluation sets the peak, {} instead of {}", peak(much), peak(training))));
  CHECK_FALSE(training.shows("generation-cache"));
  // 8,030,261,248 frozen 16-bit weights and 20,971,520 of fp32 adapters gathered in 16 bit: 15.0 GiB
  CHECK(contains(generating(256, "fsdp").text("generation-cache"),
                 "Under fsdp each new token gathers 15.0 GiB of weights"));
  CHECK_FALSE(contains(little, "gathers"));
}

TEST_CASE("advice: docs/advice.md has every row with its condition") {
  std::ifstream in(GPUPLAN_TEST_DIR "/../docs/advice.md");
  REQUIRE(in);
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  for (const AdviceRow* row : advice_rows()) {
    CAPTURE(row->name);
    CHECK(contains(page, fmt::format("`{}`", row->name)));
    CHECK(contains(page, std::string(row->condition)));
  }
}

TEST_CASE("advice: explain prints it in the order of the table, texts before tables") {
  const Answer a = ask("llama-3-8b", "8xH100", "fsdp");
  std::vector<std::string> titles, texts;
  for (const ExplainSection& section : explain(a.request, a.result, a.chosen())) {
    titles.push_back(section.title);
    if (section.title.starts_with("Advice"))
      for (const ExplainLine& line : section.lines) texts.push_back(line.term);
  }
  CHECK(texts == std::vector<std::string>{"savers together", "a larger batch", "gather once or twice",
                                          "effective batch", "4 bit, no adapters", "mixed precision",
                                          ".bf16() or autocast"});
  REQUIRE(titles.size() > 2);
  CHECK(titles[titles.size() - 2].starts_with("AdamW variants"));
  CHECK(titles.back().starts_with("DeepSpeed stage and FSDP strategy"));
}
