// The commands of the whole program.
#include "execute/commands.h"

#include <array>

#include "calibrate/worker.h"

namespace gpuplan {
namespace {

Command with(Command words, void (*setup)(CLI::App&), int (*run)(const CLI::App&, Console&)) {
  words.setup = setup;
  words.run = run;
  return words;
}

}  // namespace

std::span<const Command> machine_commands() {
  static const std::array kCommands{with(kRun, setup_run, run_run), with(kCalibrate, setup_calibrate, run_calibrate),
                                    with(kServe, setup_serve, run_serve)};
  return kCommands;
}

std::optional<int> serve_own_process(const std::vector<std::string>& arguments, Console& console) {
  if (arguments.front() == kAnswerCommand) return answer_one_question(console);
  if (arguments.front() != kWorkerCommand) return {};
  return run_worker({arguments.begin() + 1, arguments.end()}, console.in, console.out);
}

}  // namespace gpuplan
