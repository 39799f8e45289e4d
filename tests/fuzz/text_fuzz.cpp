// Every text a user can type as a number, an amount, a data type or a name.
#include "base/dtype.h"
#include "base/https.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "cluster/gpu_spec_text.h"
#include "ecosystem/engine_job.h"
#include "fuzz/fuzz_input.h"
#include "run/launch.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuplan;
  using fuzz::try_to;
  const std::string_view text = fuzz::text_of(data, size);
  try_to([&] { format_bytes(parse_bytes(text, "fuzz")); });
  try_to([&] { format_duration(Seconds{parse_number(text, "fuzz")}); });
  try_to([&] { format_usd(parse_number(text, "fuzz")); });
  try_to([&] { format_grouped(parse_integer(text, "fuzz", -5)); });
  try_to([&] { parse_dtype(text, "fuzz"); });
  did_you_mean(text, {"ddp", "fsdp", "llama-3-8b"});
  split(text, ',');
  try_to([&] { parse_hosts(std::string(text), "fuzz"); });
  try_to([&] { expand_nodes(text, "fuzz"); });
  try_to([&] { expand_counts(text, "fuzz"); });
  try_to([&] { read_described_gpus(std::string(text)); });
  origin_of(std::string(text));
  return 0;
}
