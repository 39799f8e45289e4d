// gpuplan doctor: what this machine has, and what stands in the way of training as fast as it could.
#include "base/json_file.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "diagnose/machine_check.h"
#include "report/json/answers_json.h"
#include "report/text/answers_text.h"

namespace gpuplan {
namespace {

void setup_doctor(CLI::App& app) { add_flag(app, "--json", "", "the answer as JSON, in base units"); }

int run_doctor(const CLI::App& app, Console& console) {
  const MachineCheck check = check_machine();
  console.print(is_given(app, "--json") ? json_text(machine_check_json(check))
                                        : machine_check_text(check, console.screen));
  return check.machine ? 0 : 1;
}

}  // namespace

const Command kDoctor{.name = "doctor",
                      .summary = "what this machine has, and what slows it down",
                      .usage = "[--json]",
                      .example = "gpuplan doctor",
                      .first_flags = "--json",
                      .setup = setup_doctor,
                      .run = run_doctor};

}  // namespace gpuplan
