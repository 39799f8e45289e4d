// A checkpoint as `gpuplan run --resume` reads it: what trainer_state.json holds, and a rank's state with its manifest.
#include <array>

#include <nlohmann/json.hpp>

#include "fuzz/fuzz_input.h"
#include "run/files/checkpoints.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuplan;
  constexpr const char *kFacts = "out/checkpoint-2/trainer_state.json",
                       *kState = "out/checkpoint-2/rank-00000-of-00001.safetensors";
  static const std::string whole_facts = R"({"global_step":2,"save":"00ff","saved_after_step":2})";
  static std::array<std::byte, 8> memory{};
  const std::string_view content = fuzz::text_of(data, size);
  const auto state = fuzz::as_file(kState, content);
  const Checkpoints checkpoints(state.parent_path().parent_path(), 0, {});
  const auto resume = [&] {
    const auto latest = checkpoints.latest();
    GPUPLAN_CHECK(latest == 2, "a checkpoint that is there is found");
    checkpoints.facts(*latest);
    checkpoints.load(*latest, {host_blob("weights", memory)});
  };
  fuzz::as_file(kFacts, whole_facts);
  fuzz::try_to(resume);
  fuzz::as_file(kFacts, content);
  fuzz::try_to(resume);
  return 0;
}
