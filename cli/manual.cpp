#include "cli/completion.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/names.h"
#include "cli/commands.h"

namespace gpuplan {
namespace {

struct Entry {
  const char* term;
  const char* meaning;
};

constexpr std::array kExitCodes{
    Entry{"0", "Something fits; with --strategy, that strategy does. Or the question was answered, the run ended."},
    Entry{"1", "A valid question whose answer is no: nothing fits, or nothing was found."},
    Entry{"2", "The input is wrong. The message says where, what would be accepted, and the nearest known name."},
    Entry{"3", "The machine failed: a device, a file, a rank. Or training diverged, or was stopped by Ctrl-C."},
    Entry{"4", "A bug of gpuplan."}};

constexpr std::array kVariables{
    Entry{"GPUPLAN_DATA_DIR", "The folder with models, GPUs, machines and profiles, instead of the installed one."},
    Entry{"GPUPLAN_PROFILE_DIR",
          "The folder of measured profiles, instead of gpuplan/profiles in XDG_DATA_HOME or ~/.local/share."},
    Entry{"GPUPLAN_NVML", "The NVIDIA management library to open, instead of the driver's libnvidia-ml.so.1."},
    Entry{"GPUPLAN_LIBRARY_DIR", "The folder of gpuplan's own CPU, CUDA and NCCL libraries, instead of the program's."},
    Entry{"GPUPLAN_LIBCURL", "The libcurl to open, instead of the system's."},
    Entry{"GPUPLAN_CPU_VARIANT", "baseline or avx2: CPU ranks use no wider instructions."},
    Entry{"GPUPLAN_PROC",
          "The folder with meminfo and cpuinfo of the host that --gpus cpu means, instead of /proc: two questions then "
          "find the same memory free."},
    Entry{"GPUPLAN_SYS", "The folder in which doctor looks at PCIe bridges, instead of /sys."},
    Entry{"GPUPLAN_PORT", "The port at which ranks on GPUs meet."},
    Entry{"GPUPLAN_STEP_PATIENCE",
          "Seconds after which run ends ranks whose step does not end, if it is also 100 times the median step. "
          "Default: 600."},
    Entry{"GPUPLAN_SECRET", "What these ranks must know to meet, 16 characters or more. Default: the file below."},
    Entry{"GPUPLAN_SECRET_FILE", "A file of mode 600 with it. Default: gpuplan/rendezvous.key below XDG_DATA_HOME."},
    Entry{"HF_TOKEN, HF_TOKEN_PATH, HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_HUB_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT",
          "As for the programs of Hugging Face: where configurations of models come from and are kept, and the token "
          "that is sent there."},
    Entry{"NO_COLOR", "When set and not empty, no colour is used. Colour is used on terminals only."},
    Entry{"FORCE_COLOR",
          "When set, not empty and not 0, colour is used in pipes and files too, unless NO_COLOR is set. "
          "--color goes before both."},
    Entry{"LC_ALL, LC_CTYPE, LANG, TERM",
          "Bars and stars are drawn in ASCII unless the locale is UTF-8, and on a dumb terminal."}};

/// Backslashes and dashes as roff wants them; a line that begins with a dot or a quote would be a request.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\' || c == '-') out += '\\';
    out += c;
  }
  return out;
}

std::string section(std::string_view title) { return fmt::format(".SH {}\n", title); }

std::string entry(std::string_view term, std::string_view meaning) {
  return fmt::format(".TP\n.B {}\n{}\n", roff(term), roff(meaning));
}

std::string term_of(const CLI::Option& option) {
  if (option.get_positional()) return option.get_type_name();
  std::string term = option.get_snames().empty() ? "" : fmt::format("-{}, ", option.get_snames().front());
  term += "--" + option.get_lnames().front();
  if (option.get_items_expected_max() == 0) return term;
  const std::string value = option.get_type_name();
  return term + (value.starts_with('[') ? "[=" + value.substr(1) : " " + value);
}

/// Terms with what they mean: flags that two commands share are explained at the first.
using Explained = std::set<std::pair<std::string, std::string>>;

std::string options_of(const CLI::App& app, Explained& explained) {
  std::string out;
  bool shares = false;
  for (const CLI::Option* option : app.get_options()) {
    const std::string term = term_of(*option);
    if (explained.emplace(term, option->get_description()).second)
      out += entry(term, option->get_description());
    else
      shares = shares || term != "-h, --help";
  }
  if (out.empty()) return out;
  return fmt::format(".SS {}\n{}", roff(app.get_name()),
                     shares ? "Options that an earlier command explains apply here too.\n" : "") +
         out;
}

}  // namespace

std::string manual_page(const CLI::App& program) {
  std::string synopsis, description, options, examples;
  Explained explained;
  for (const Command& command : commands()) {
    synopsis +=
        fmt::format("{}.B gpuplan {}\n{}\n", synopsis.empty() ? "" : ".br\n", command.name, roff(command.usage));
    description += fmt::format(".PP\n.B gpuplan {}\n{}.\n", command.name, roff(command.summary));
    options += options_of(*program.get_subcommand(command.name), explained);
    for (const std::string& line : split(command.example, '\n')) examples += roff(line) + "\n";
  }
  std::string out =
      fmt::format(".\\\" Written by `gpuplan completion man`.\n.TH GPUPLAN 1 \"\" \"gpuplan {}\" \"User Commands\"\n",
                  GPUPLAN_VERSION);
  out += section("NAME") + fmt::format("gpuplan \\- {}\n", roff(program.get_description()));
  out += section("SYNOPSIS") + synopsis + section("DESCRIPTION") + description + section("OPTIONS") + options;
  out += section("EXIT STATUS");
  for (const Entry& code : kExitCodes) out += entry(code.term, code.meaning);
  out += section("ENVIRONMENT");
  for (const Entry& variable : kVariables) out += entry(variable.term, variable.meaning);
  return out + section("EXAMPLES") + ".nf\n" + examples + ".fi\n";
}

}  // namespace gpuplan
