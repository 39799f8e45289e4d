#include "cli/offload_flag.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "models/recipe_names.h"

namespace gpuplan {
namespace {

constexpr const char* kFlag = "--offload";

void read_part(Offload& offload, const std::string& part) {
  const std::size_t colon = part.find(':');
  const std::string what = to_lower(trim(part.substr(0, colon)));
  const OffloadTarget target =
      colon == std::string::npos ? OffloadTarget::Cpu : parse_offload(part.substr(colon + 1), kFlag);
  if (what == "optimizer")
    offload.optimizer = target;
  else if (what == "params" || what == "parameters")
    offload.params = target;
  else if (what != "activations")
    throw InputError(
        kFlag, fmt::format("unknown part '{}'", what),
        did_you_mean(what, {"optimizer", "params", "activations"}, "known: optimizer, params, activations, none"));
  else if (target == OffloadTarget::Nvme)
    throw InputError(kFlag, "activations go to the host, not to NVMe", "write activations");
  else
    offload.activations = target == OffloadTarget::Cpu;
}

}  // namespace

Offload parse_offload_list(const std::string& text) {
  Offload offload;
  if (squash(text) == "none") return offload;
  for (const std::string& part : split(text, ',')) read_part(offload, part);
  return offload;
}

}  // namespace gpuplan
