// A Hugging Face config.json as `--model FILE` reads it. What is read has tensors, and survives the way through a plan.
#include <nlohmann/json.hpp>

#include "fuzz/fuzz_input.h"
#include "models/catalogue.h"
#include "models/hf_config.h"
#include "models/weights.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuplan;
  const auto file = fuzz::as_file("config.json", fuzz::text_of(data, size));
  LoadedModel loaded;
  if (!fuzz::try_to([&] { loaded = load_model(file.string()); })) return 0;
  ModelSpec& model = loaded.spec;
  GPUPLAN_CHECK(list_weights(model).total_elements() > 0, "a model has parameters");
  ModelSpec again = parse_hf_config(to_hf_config(model), "again");
  again.name = model.name, again.id = model.id, again.source = model.source;
  again.recorded_parameters = model.recorded_parameters;
  GPUPLAN_CHECK(again == model, "a model read back from its own config is the same");
  return 0;
}
