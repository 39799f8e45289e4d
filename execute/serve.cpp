// gpuplan serve: the page with this program behind it.
#include "execute/commands.h"

#include <algorithm>
#include <filesystem>
#include <random>

#include <sys/resource.h>

#include <fmt/format.h>

#include "base/child_process.h"
#include "base/error.h"
#include "base/files.h"
#include "base/input_limits.h"
#include "base/json_file.h"
#include "base/processor.h"
#include "base/user_folders.h"
#include "cli/arguments.h"
#include "cli/flag_ranges.h"
#include "cli/json_question.h"
#include "serve/server.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr InputLimit kQuestionLimit{"a question", kMostQuestionBytes};
constexpr rlim_t kMostMemory = rlim_t(16) << 30;

/// Profiles of this machine, which a question finds where it looks for them.
void add_profiles(nlohmann::json& question) {
  const fs::path folder = user_data_dir();
  question["variables"].emplace("XDG_DATA_HOME", folder.parent_path().string());
  for (const std::string& name :
       names_in(folder / "profiles"))  // names that cannot be shown are the answer's to refuse
    if (const fs::path file = folder / "profiles" / name; name.ends_with(".yaml"))
      if (const auto content = read_if_there(file)) question["files"].emplace(file.string(), *content);
}

/// A question gets what this machine is known by; it still reads nothing else. One of another shape is refused later.
std::string with_facts_of_machine(const std::string& text) {
  auto parsed = json_in(text);
  if (!parsed || !parsed->is_object()) return text;
  nlohmann::json& question = *parsed;
  for (const char* key : {"files", "variables"})
    if (!question.contains(key)) question[key] = nlohmann::json::object();
  if (!question["files"].is_object() || !question["variables"].is_object()) return text;
  for (const char* file : {"/proc/meminfo", "/proc/cpuinfo"})
    if (const auto content = read_if_there(file)) question["files"].emplace(file, *content);
  add_profiles(question);
  question.emplace("cores", num_usable_cores());
  return json_line(question);
}

std::string random_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", device());
  return token;
}

bool is_this_machine_alone(const std::string& host) { return host == "::1" || host.starts_with("127."); }

void show(const std::string& address, Console& console) {
  const std::string browser = find_program("xdg-open");
  if (browser.empty()) return console.tell("there is no xdg-open here; open the address in a browser");
  start_child({.name = "xdg-open", .command = {browser, address}});
}

}  // namespace

void setup_serve(CLI::App& app) {
  add_flag(app, "--port", "PORT", "of the address; 0 is any that is free. Default 0");
  add_flag(app, "--host", "ADDRESS",
           "of this machine, for others who know the token that is printed. Default 127.0.0.1: this machine alone");
  add_flag(app, "--timeout", "TIME", "after which a question is given up. Default 5min");
  add_flag(app, "--open", "", "open the page in the browser");
}

int run_serve(const CLI::App& app, Console& console) {
  ServeOptions options;
  if (const auto host = given(app, "--host")) options.host = *host;
  options.port = given_integer(app, "--port").value_or(0);
  if (const auto time = given_time(app, "--timeout")) options.answer_seconds = time->value;
  if (!is_this_machine_alone(options.host)) options.token = random_token();
  options.num_answers = std::max<std::int64_t>(1, num_usable_cores());
  options.command = {own_program().string(), kAnswerCommand};
  serve(options, [&](std::int64_t port) {
    const std::string host = options.host.find(':') == std::string::npos ? options.host : "[" + options.host + "]";
    const std::string address =
        fmt::format("http://{}:{}/{}", host, port, options.token.empty() ? "" : "?token=" + options.token);
    console.print(fmt::format("{}\nCtrl-C ends it.\n", address));
    console.out.flush();
    if (is_given(app, "--open")) show(address, console);
  });
  return 0;
}

int answer_one_question(Console& console) {
  const rlimit memory{kMostMemory, kMostMemory};
  setrlimit(RLIMIT_AS, &memory);
  console.out << answer_json(with_facts_of_machine(read_stream(console.in, "question", kQuestionLimit))) << std::flush;
  return 0;
}

}  // namespace gpuplan
