// Plans of vision-language models: the tower in front of the language model, frozen or trained, under every strategy.
#include <doctest/doctest.h>

#include "models/catalogue.h"
#include "planner/estimate.h"
#include "planner/job_metrics.h"
#include "planner/program_builder.h"
#include "planner/step_inputs.h"

using namespace gpuplan;

namespace {

EstimateRequest ask(const char* model, const char* gpus, TrainVision train, Method method = Method::Lora) {
  EstimateRequest r;
  r.model = load_model(model).spec;
  r.cluster = parse_gpus(gpus);
  r.recipe.method = method;
  r.recipe.images = {.width = 1024, .height = 1024, .per_row = 1, .train = train};
  return r;
}

StrategyEstimate answer(EstimateRequest r, const char* strategy) {
  r.strategy = strategy;
  return estimate(r).strategies.front();
}

StepProgram program_of(const EstimateRequest& r, const char* strategy) {
  const Job job(r, make_strategy(strategy, r.cluster, {}));
  const StepColumns columns = make_columns(job);
  StepProgram program;
  build_step_program(program, job, columns.models, columns.of_rank);
  return program;
}

std::int64_t calls(const StepProgram& program, std::uint16_t first, std::uint16_t last, Phase phase) {
  std::int64_t count = 0;
  for (const Instruction& i : program.programs.front().instructions)
    count += i.op == OpCode::Call && i.phase == phase && i.unit >= first && i.unit <= last;
  return count;
}

}  // namespace

TEST_CASE("a frozen tower runs forward once and never backward") {
  const StepProgram frozen = program_of(ask("qwen2.5-vl-3b", "1xA100", TrainVision::No), "single");
  CHECK_NOTHROW(verify(frozen));
  CHECK(calls(frozen, 0, 33, Phase::Forward) == 34);  // patches, 32 blocks, projector
  CHECK(calls(frozen, 0, 33, Phase::Backward) == 0);
  CHECK(calls(frozen, 34, 69, Phase::Backward) == 36);
  const StepProgram all = program_of(ask("qwen2.5-vl-3b", "1xA100", TrainVision::All), "single");
  CHECK_NOTHROW(verify(all));
  CHECK(calls(all, 1, 33, Phase::Backward) == 33);  // the patches' own convolution stays frozen
  // a trained projector alone: its backward, and no block's
  const StepProgram projector = program_of(ask("qwen2.5-vl-3b", "1xA100", TrainVision::Projector), "single");
  CHECK_NOTHROW(verify(projector));
  CHECK(calls(projector, 0, 33, Phase::Backward) == 1);
}

TEST_CASE("activations of a frozen tower are not kept; those of a trained one are") {
  const auto activations = [](TrainVision train) {
    return answer(ask("qwen2.5-vl-3b", "1xA100", train), "single").memory[std::size_t(Category::Activations)].count;
  };
  const std::int64_t frozen = activations(TrainVision::No), all = activations(TrainVision::All);
  // 5,476 patches of 1,280: at least input, qkv, gate, up, product and output of each of 32 blocks in 16 bit
  const std::int64_t least = std::int64_t(32) * 5476 * 2 * (1280 + 3 * 1280 + 3 * 3420);
  CHECK(all - frozen > least);
  CHECK(all - frozen < 10 * least);  // and fp32: norms, PEFT's copies of its inputs
}

TEST_CASE("programs with a tower are sound under every strategy, method and part that is trained") {
  for (const char* model : {"qwen2-vl-2b", "qwen2.5-vl-3b", "qwen3-vl-2b", "gemma-3-4b-multimodal", "internvl3-1b",
                            "llava-v1.6-mistral-7b", "llava-onevision-qwen2-0.5b", "paligemma2-3b-224", "smolvlm-256m",
                            "gemma-4-e2b", "gemma-4-26b-a4b", "gemma-3n-e2b"})
    for (const TrainVision train : {TrainVision::No, TrainVision::Projector, TrainVision::All})
      for (const Method method : {Method::Full, Method::Lora})
        for (const Checkpointing checkpointing : {Checkpointing::None, Checkpointing::Full})
          for (const char* strategy : {"ddp", "zero2", "zero3", "fsdp", "mp"}) {
            CAPTURE(std::string(model));
            CAPTURE(int(train));
            CAPTURE(int(method));
            CAPTURE(std::string(strategy));
            EstimateRequest r = ask(model, "2xA100", train, method);
            r.recipe.checkpointing = checkpointing;
            r.recipe.grad_accum = 2;
            r.recipe.seq_len = 8192;
            CHECK_NOTHROW(verify(program_of(r, strategy)));
          }
}

TEST_CASE(
    "layers that attend to images read what the projector made, and give a gradient back only where it is trained") {
  for (const TrainVision train : {TrainVision::No, TrainVision::Projector, TrainVision::All})
    for (const Method method : {Method::Full, Method::Lora})
      for (const Checkpointing checkpointing : {Checkpointing::None, Checkpointing::Full})
        for (const char* strategy : {"ddp", "zero2", "zero3", "fsdp"}) {
          CAPTURE(int(train));
          CAPTURE(int(method));
          CAPTURE(std::string(strategy));
          EstimateRequest r = ask("llama-3.2-11b-vision", "2xA100", train, method);
          r.recipe.checkpointing = checkpointing;
          const StepProgram program = program_of(r, strategy);
          CHECK_NOTHROW(verify(program));
          std::int64_t of_memory = 0, of_gradient = 0;
          for (const ProgramBuffer& buffer : program.programs.front().buffers) {
            of_memory += buffer.role == BufferRole::EncoderOutput;
            of_gradient += buffer.role == BufferRole::EncoderGradient;
          }
          CHECK(of_memory == 1);
          CHECK(of_gradient == (train == TrainVision::No ? 0 : 1));
        }
  // 6,404 features of 4,096 in 16 bit wait; the sequence has no image token, so it may be shorter than they are many
  EstimateRequest r = ask("llama-3.2-11b-vision", "1xA100", TrainVision::No);
  r.recipe.seq_len = 512;
  const StepProgram program = program_of(r, "single");
  std::int64_t waiting = 0;
  for (const ProgramBuffer& buffer : program.programs.front().buffers)
    if (buffer.role == BufferRole::EncoderOutput) waiting = buffer.bytes.count;
  CHECK(waiting == 6404 * 4096 * 2);
  const ClusterSpec two = parse_gpus("2xA100");
  CHECK(why_not_applicable(make_strategy("mp", two, {}), two, r.recipe, r.model) ==
        "layers of every stage would read the images' features: not split into stages");
}

TEST_CASE("under mp the first stage has the tower, the projector and the layers with deepstack features") {
  const StepProgram program = program_of(ask("qwen3-vl-2b", "4xA100", TrainVision::No), "mp");
  CHECK(program.programs[0].first_unit == 0);
  CHECK(program.programs[0].last_unit >= 24 + 1 + 3);
  CHECK(program.programs[1].first_unit > 24 + 1 + 3);
}

TEST_CASE("larger images cost time and memory, and no more tokens than a square tower makes") {
  EstimateRequest small = ask("qwen2.5-vl-3b", "1xA100", TrainVision::No), large = small;
  small.recipe.images.width = small.recipe.images.height = 280;
  CHECK(answer(small, "single").time.step < answer(large, "single").time.step);
  CHECK(answer(small, "single").tiers.tensors <= answer(large, "single").tiers.tensors);
  EstimateRequest square = ask("gemma-3-4b-multimodal", "1xA100", TrainVision::No), larger = square;
  larger.recipe.images.width = 4096;
  CHECK(answer(square, "single").time.step == answer(larger, "single").time.step);
}

TEST_CASE("images that do not fit in a row are refused with their tokens") {
  EstimateRequest r = ask("qwen2.5-vl-3b", "1xA100", TrainVision::No);
  r.recipe.images.per_row = 2;
  CHECK_THROWS_WITH_AS(estimate(r), doctest::Contains("2 images of 1024x1024 are 2,738 tokens, more than the 2,048"),
                       InputError);
  r.recipe.seq_len = 2738;
  CHECK_NOTHROW(estimate(r));
  r.recipe.images = {.width = 1, .height = 201};
  CHECK_THROWS_AS(estimate(r), InputError);
}

TEST_CASE("the tower's FLOPs are those of its weights at every position, forward only where it is frozen") {
  const EstimateRequest r = ask("qwen2.5-vl-7b", "1xA100", TrainVision::No);
  const Job with(r, make_strategy("single", r.cluster, {}));
  EstimateRequest twice = r;
  twice.recipe.images.per_row = 2;
  const Job more(twice, make_strategy("single", twice.cluster, {}));
  // one more image: 2 x (676,550,144 - 44,574,464) x 5,476 of the tower, 2 x 44,574,464 x 1,369 of the merger, and
  // attention: 4 s d per position, 28 blocks over 64 positions, 4 over all
  const double weights = 2.0 * 631'975'680 * 5476 + 2.0 * 44'574'464 * 1369;
  const double attention = 4.0 * 5476 * 1280 * (28 * 64.0 + 4 * 5476.0);
  CHECK(model_flops(more, 1, r.recipe.seq_len) - model_flops(with, 1, r.recipe.seq_len) ==
        doctest::Approx(weights + attention).epsilon(1e-6));
}
