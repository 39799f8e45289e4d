// What a run leaves, and going on from it.
#include "run_program/small_run.h"

using namespace gpuplan::test;

TEST_CASE(
    "saved: an adapter's files, and a run that goes on from them begins with the loss where the other would have gone "
    "on") {
  const SmallRun r;
  for (const std::string ranks : {"", " --gpus 2xcpu --strategy fsdp"}) {
    // constant rate, no moments at the seam: the first loss comes before the optimizer does anything
    const std::string flags = "--lora=r=3,base=fp32 --schedule constant --no-shuffle --lr 1e-2" + ranks;
    r.report(flags + " --max-steps 6");
    const double next = r.losses().back();
    r.report(flags + " --max-steps 5 --output " + r.at("out"));
    CHECK(std::filesystem::exists(r.at("out/adapter_config.json")));
    CHECK(std::filesystem::exists(r.at("out/adapter_model.safetensors")));
    // the sixth step's blocks are the first ones of a file that begins there
    const std::string two = ranks.empty() ? "" : "2";
    std::ifstream tokens(r.at("tokens.bin"), std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(tokens), {}};
    r.scratch().write("rest.bin", all.substr(5 * 16 * 2 * (two.empty() ? 1 : 2)));
    r.report(flags + " --max-steps 1 --adapter " + r.at("out") + " --data " + r.at("rest.bin"));
    CHECK(r.losses().front() == doctest::Approx(next).epsilon(1e-6));
    std::filesystem::remove_all(r.at("out"));
  }
}

TEST_CASE("saved: a fully trained model is a model folder that the next run reads") {
  const SmallRun r;
  const std::string flags = "--full --schedule constant --no-shuffle";
  r.report(flags + " --max-steps 6");
  const double next = r.losses().back();
  r.report(flags + " --max-steps 5 --gpus 2xcpu --strategy mp --output " + r.at("out"));
  for (const char* file : {"config.json", "model.safetensors"})
    CHECK(std::filesystem::exists(r.at(std::string("out/") + file)));
  std::ifstream tokens(r.at("tokens.bin"), std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(tokens), {}};
  r.scratch().write("rest.bin", all.substr(5 * 16 * 2));
  r.report(flags + " --max-steps 1 --init none --model " + r.at("out") + " --data " + r.at("rest.bin"));
  CHECK(r.losses().front() == doctest::Approx(next).epsilon(1e-6));
}

TEST_CASE(
    "order: --no-shuffle takes blocks as they stand, so the same blocks in another file give the same losses; "
    "shuffling does not") {
  const SmallRun r;
  r.report("--full --no-shuffle --max-steps 4");
  const auto in_order = r.losses();
  std::ifstream tokens(r.at("tokens.bin"), std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(tokens), {}};
  r.scratch().write("first.bin", all.substr(0, 4 * 16 * 2));
  r.report("--full --no-shuffle --max-steps none --epochs 1 --data " + r.at("first.bin"));
  CHECK(r.losses() == in_order);
  r.report("--full --max-steps 4");
  CHECK(r.losses() != in_order);
}
