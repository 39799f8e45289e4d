#include "base/stolen_time.h"

#include <fstream>

#include <fmt/format.h>

namespace gpuplan {

std::optional<ProcessorTimes> read_processor_times(const std::filesystem::path& stat) {
  std::ifstream file(stat);
  std::string label;
  double user{}, nice{}, system{}, idle{}, waiting{}, interrupts{}, soft_interrupts{}, stolen{};
  if (!(file >> label >> user >> nice >> system >> idle >> waiting >> interrupts >> soft_interrupts >> stolen) ||
      label != "cpu")
    return {};
  return ProcessorTimes{.wanted = user + nice + system + interrupts + soft_interrupts + stolen, .stolen = stolen};
}

double stolen_share(const std::optional<ProcessorTimes>& begin, const std::optional<ProcessorTimes>& end) {
  if (!begin || !end || end->wanted <= begin->wanted) return 0;
  return (end->stolen - begin->stolen) / (end->wanted - begin->wanted);
}

std::string describe_stolen(double share) {
  constexpr double kWorthTelling = 0.02;
  if (share < kWorthTelling) return {};
  return fmt::format(
      "the host took {:.0f} % of the processor time that this virtual machine wanted meanwhile: what was measured is "
      "slower than the machine is",
      100 * share);
}

}  // namespace gpuplan
