#include "cli/calibrate_worker.h"

#include <ostream>

#include "base/error.h"
#include "base/names.h"
#include "calibrate/facts_json.h"
#include "calibrate/session.h"

namespace gpuplan {

int run_worker(const std::vector<std::string>& arguments, Console& console) {
  if (arguments.size() < 2) throw InputError(kWorkerCommand, "is started by 'gpuplan calibrate'", "run that instead");
  const DeviceKind kind = parse_name<DeviceKind>(arguments[0], kWorkerCommand);
  if (arguments[1] == "facts") {
    console.out << to_json_line(read_worker_facts(kind)) << "\n";
    return 0;
  }
  const bool is_quick = arguments.size() > 2 && arguments[2] == "quick";
  return serve_probes(kind, parse_integer(arguments[1], kWorkerCommand, 1), is_quick, console.in, console.out);
}

}  // namespace gpuplan
