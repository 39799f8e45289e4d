// Every text a user can type as a number, an amount, a data type or a name.
#include "base/dtype.h"
#include "base/https.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "fuzz/fuzz_input.h"

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
  origin_of(std::string(text));
  return 0;
}
