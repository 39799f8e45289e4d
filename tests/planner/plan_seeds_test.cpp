// The plans among the inputs of the fuzz targets: they must stay readable, or the fuzzers start from nothing. With
// GPUPLAN_UPDATE_GOLDEN=1 they are made again.
#include <cstdlib>
#include <filesystem>

#include <doctest/doctest.h>

#include "base/files.h"
#include "base/json_file.h"
#include "models/catalogue.h"
#include "planner/plan/plan_file.h"

using namespace gpuplan;

namespace {

struct Seed {
  const char *name, *model, *gpus, *strategy;
  void (*change)(EstimateRequest& r);
};

const Seed kSeeds[]{
    {"lora_ddp", "llama-3.2-1b", "2xA6000", "ddp", [](EstimateRequest& r) { r.recipe.method = Method::Lora; }},
    {"qlora_fsdp1", "llama-3.2-1b", "2xA6000", "fsdp",
     [](EstimateRequest& r) {
       r.recipe.method = Method::Qlora, r.recipe.quant.kind = BaseQuant::Nf4;
       r.recipe.lora.targets = {"q_proj", "v_proj"};
       r.options.reshards = false, r.price_per_gpu_hour = 1;
     }},
    {"full_hsdp_offload", "gpt2", "2x4090,2x3090", "hsdp",
     [](EstimateRequest& r) {
       r.recipe.seq_len = 512, r.recipe.checkpointing = Checkpointing::EveryK, r.recipe.checkpoint_every = 2;
       r.recipe.offload.optimizer = r.recipe.offload.params = OffloadTarget::Cpu;
       r.options.wrap = WrapPolicy::Size, r.options.wrap_min_params = 1000;
     }},
};

nlohmann::json plan_of(const Seed& seed) {
  EstimateRequest r;
  r.model = load_model(seed.model).spec;
  r.cluster = parse_gpus(seed.gpus);
  r.strategy = seed.strategy;
  seed.change(r);
  r.cluster.gpus.change_each([](GpuSpec& gpu) { gpu.source = "catalogue"; });
  const EstimateResult result = estimate(r);
  return make_plan(r, result, result.strategies.front());
}

}  // namespace

TEST_CASE("the plans that fuzzing starts from are read") {
  const auto corpus = std::filesystem::path(GPUPLAN_TEST_DIR) / "fuzz" / "corpus";
  for (const Seed& seed : kSeeds) {
    const std::string name = std::string(seed.name) + ".json";
    const auto file = corpus / "estimate" / name;
    if (std::getenv("GPUPLAN_UPDATE_GOLDEN")) {
      const std::string plan = plan_of(seed).dump() + "\n";
      write_file_atomically(file, plan);
      write_file_atomically(corpus / "answer" / ("plan_" + name), "plan.json\n" + plan);
    }
    CAPTURE(file.string());
    CHECK_NOTHROW(parse_plan(read_json_file(file), file.string()));
    CHECK(read_file(corpus / "answer" / ("plan_" + name)) == "plan.json\n" + read_file(file));
  }
}
