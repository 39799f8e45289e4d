#include "cli/program.h"

#include <sstream>
#include <system_error>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/licences.h"
#include "cli/output_flags.h"
#include "report/text/notes.h"
#include "report/text/plain_stream.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

/// "gpuplan: --gpus: unknown GPU 'A600': did you mean 'A6000'?", the hint on a line of its own when it gets long.
std::string message_of(const InputError& error, const Screen& screen) {
  const std::string problem = error.where().empty() ? error.problem() : error.where() + ": " + error.problem();
  const std::string line = fmt::format("gpuplan: {}: {}", problem, error.hint());
  if (error.hint().empty()) return fmt::format("gpuplan: {}\n", problem);
  if (width_of(line) <= prose_width(screen) && line.find('\n') == std::string::npos) return line + "\n";
  return fmt::format("gpuplan: {}\n{}", problem, wrap(error.hint(), prose_width(screen), "  ", "  "));
}

void require_plain(const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (arg == "--") return;  // a program's own
    require_plain_name(arg, "", "give files names that can be shown");
  }
}

int dispatch(const std::vector<std::string>& args, Console& console) {
  CLI::App app;
  declare_commands(app, args);
  if (args.empty()) {
    console.err << help_text(app, console.screen);
    return kWrongInput;
  }
  if (const auto code = serve_own_process(args, console)) return *code;
  require_plain(args);
  const Parsed parsed = parse(app, args);
  if (parsed.wants_version)
    console.print(fmt::format("gpuplan {}\n", GPUPLAN_VERSION));
  else if (parsed.wants_licences)
    console.print(licences_text(read_licences(), console.screen));
  else if (parsed.wants_help || !parsed.command)
    console.print(parsed.wants_short_help ? short_help_text(*parsed.app, console.screen)
                                          : help_text(*parsed.app, console.screen));
  else {
    if (given_surroundings() && needs_machine(*parsed.command))
      throw InputError(parsed.command->name, "needs a machine", "the gpuplan of a machine has it");
    check_outputs(*parsed.app);
    console.answers_on_err = takes_standard_output(*parsed.app);
    return parsed.command->run(*parsed.app, console);
  }
  return 0;
}

int run_and_catch(const std::vector<std::string>& args, Console& console) {
  try {
    const int code = dispatch(args, console);
    console.out.flush();
    if (!console.out) throw EnvError("the answer could not be written to standard output");
    return code;
  } catch (const InputError& error) {
    console.err << for_standard_error(printable(message_of(error, console.screen)));
    return kWrongInput;
  } catch (const EnvError& error) { console.tell(error.what()); } catch (const std::system_error& error) {
    console.tell(error.what());
  }
  return kWorldFailed;
}

}  // namespace

Answer answer(const std::vector<std::string>& args, Surroundings given, const std::string& input,
              const Screen& screen) {
  const WithSurroundings with(given);
  std::istringstream in(input);
  std::ostringstream out, err;
  Answer answered;
  answered.code = run(args, out, err, screen, in);
  answered.out = out.str();
  answered.err = err.str();
  answered.written = std::move(given.written);
  return answered;
}

int run(const std::vector<std::string>& args, std::ostream& out, std::ostream& err, const Screen& given,
        std::istream& in) {
  const Screen screen = screen_for(args, given);
  PlainBuffer plain_out(out, screen.has_colour), plain_err(err, /*has_colour=*/true);
  std::ostream shown(&plain_out), told(&plain_err);
  told << std::unitbuf;
  Console console{in, shown, told, err, screen, "gpuplan", args};
  for (const std::string& arg : args) console.command_line += " " + arg;
  try {
    return run_and_catch(args, console);
  } catch (const std::exception& error) {
    err << fmt::format("gpuplan: this is a bug in gpuplan, please report it with the command that you ran:\n  {}\n",
                       error.what());
    return kOurBug;
  }
}

}  // namespace gpuplan
