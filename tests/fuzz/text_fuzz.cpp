// Every text a user can type as a number, an amount, a data type or a name: refused with an InputError or read, nothing else.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/dtype.h"
#include "base/error.h"
#include "base/names.h"
#include "base/unit_text.h"

namespace {

template <class Read>
void try_to(Read read) {
  try {
    read();
  } catch (const gpuplan::InputError&) {
    // the answer for most texts
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuplan;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_to([&] { format_bytes(parse_bytes(text, "fuzz")); });
  try_to([&] { format_duration(Seconds{parse_number(text, "fuzz")}); });
  try_to([&] { format_usd(parse_number(text, "fuzz")); });
  try_to([&] { format_grouped(parse_integer(text, "fuzz", -5)); });
  try_to([&] { parse_dtype(text, "fuzz"); });
  did_you_mean(text, {"ddp", "fsdp", "llama-3-8b"});
  split(text, ',');
  return 0;
}
