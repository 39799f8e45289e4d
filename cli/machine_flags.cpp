#include "cli/machine_flags.h"

#include "base/error.h"
#include "base/names.h"
#include "cli/arguments.h"

namespace gpuplan {

std::optional<ClusterSpec> given_machine(const CLI::App& app) {
  const auto gpus = given(app, "--gpus"), cluster = given(app, "--cluster");
  if (gpus && cluster)
    throw InputError("", "--gpus and --cluster contradict each other", "one of them says what the plan runs on");
  for (const char* flag : {"--num-gpus", "--gpu"})
    if (is_given(app, flag) && !cluster)
      throw InputError(flag, "needs --cluster", "or --gpus with number and name, as in --gpus 4xA6000");
  if (gpus) return parse_gpus(*gpus);
  if (!cluster) return std::nullopt;
  std::optional<std::int64_t> num_gpus;
  if (const auto count = given(app, "--num-gpus")) num_gpus = parse_integer(*count, "--num-gpus", 1);
  return load_cluster(*cluster, num_gpus, given(app, "--gpu"));
}

}  // namespace gpuplan
