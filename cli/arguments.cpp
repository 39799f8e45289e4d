#include "cli/arguments.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "cli/commands.h"
#include "cli/flag_ranges.h"
#include "cli/gpu_words.h"
#include "cluster/gpu_list.h"

namespace gpuplan {
namespace {

constexpr const char *kLicences = "--licences", *kColour = "--color", *kFormat = "--format";

enum class Colour : std::uint8_t { Auto, Always, Never };
constexpr std::array kColours{NameRow<Colour>{"auto", Colour::Auto}, NameRow<Colour>{"always", Colour::Always},
                              NameRow<Colour>{"never", Colour::Never}};
constexpr NameTable<Colour> names_of(Colour) { return {"colour", kColours}; }

/// The value of a flag among arguments that nothing has parsed yet; those behind "--" are a program's own.
std::optional<std::string> value_among(const std::vector<std::string>& args, const std::string& flag) {
  for (std::size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
    if (args[i] == flag && i + 1 < args.size()) return args[i + 1];
    if (args[i].starts_with(flag + "=")) return args[i].substr(flag.size() + 1);
  }
  return {};
}

const Command* find_command(const std::string& name) {
  for (const Command& command : commands())
    if (command.name == name) return &command;
  return nullptr;
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// Flags and keys of trainers, and what says the same here.
constexpr std::array kOfTrainers{
    std::pair{"--batch-size", "--micro-batch"},
    std::pair{"--per-device-train-batch-size", "--micro-batch"},
    std::pair{"--micro-batch-size", "--micro-batch"},
    std::pair{"--gradient-accumulation-steps", "--grad-accum"},
    std::pair{"--max-seq-length", "--seq-len"},
    std::pair{"--max-length", "--seq-len"},
    std::pair{"--sequence-len", "--seq-len"},
    std::pair{"--cutoff-len", "--seq-len"},
    std::pair{"--context-length", "--seq-len"},
    std::pair{"--context", "--seq-len"},
    std::pair{"--gradient-checkpointing", "--checkpointing full"},
    std::pair{"--load-in-4bit", "--qlora"},
    std::pair{"--load-in-8bit", "--lora --int8"},
    std::pair{"--use-peft", "--lora"},
    std::pair{"--lora-r", "--lora r=16"},
    std::pair{"--lora-rank", "--lora r=16"},
    std::pair{"--num-train-epochs", "--epochs"},
    std::pair{"--num-epochs", "--epochs"},
    std::pair{"--optim", "--optimizer"},
    std::pair{"--bf16", "--precision bf16-mixed"},
    std::pair{"--fp16", "--precision fp16-mixed"},
    std::pair{"--attn-implementation", "--attention"},
    std::pair{"--per-device-eval-batch-size", "--eval-batch"},
    std::pair{"--max-steps", "--rows N, the steps times the sequences of an optimizer step"},
    std::pair{"--deepspeed", "'gpuplan estimate --from FILE'"},
    std::pair{"--dtype", "--precision bf16-mixed (fp32 weights), bf16-true, fp16-mixed or fp32"},
    std::pair{"--torch-dtype", "--precision bf16-mixed (fp32 weights), bf16-true, fp16-mixed or fp32"},
    std::pair{"--nodes", "--gpus 16xH100 (machines of eight), or --cluster"},
    std::pair{"--num-nodes", "--gpus 16xH100 (machines of eight), or --cluster"},
    std::pair{"--spot", "'gpuplan plan --spot', among machines for rent"}};

/// "here it is --micro-batch", for a flag of a trainer that this command has under another name.
std::string name_here(const CLI::App& app, std::string flag) {
  std::ranges::replace(flag, '_', '-');
  for (const auto& [theirs, ours] : kOfTrainers) {
    const std::string_view own(ours);
    const std::string asked = own.starts_with('\'') ? "--model" : std::string(own.substr(0, own.find(' ')));
    const bool is_known = app.get_option_no_throw(asked) != nullptr;
    if (flag == theirs && is_known) return fmt::format("here it is {}", own);
  }
  return {};
}

[[noreturn]] void refuse_flag(const CLI::App& app, const std::string& argument) {
  const std::string flag = argument.substr(0, argument.find('='));
  if (const std::string hint = name_here(app, flag); !hint.empty())
    throw InputError("", fmt::format("unknown option {}", flag), hint);
  const std::string help = app.get_parent() ? fmt::format("'gpuplan {} --help' lists the options", app.get_name())
                                            : "'gpuplan --help' lists the commands";
  throw InputError("", fmt::format("unknown option {}", flag), did_you_mean(flag, flag_names(app), help));
}

[[noreturn]] void refuse_word(const CLI::App& app, const std::string& word) {
  if (app.get_parent())
    throw InputError("", fmt::format("unexpected argument '{}'", word),
                     fmt::format("'gpuplan {} --help' shows what it takes", app.get_name()));
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  throw InputError("", fmt::format("unknown command '{}'", word),
                   did_you_mean(word, names, fmt::format("commands: {}", fmt::join(names, ", "))));
}

void refuse_remaining(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining();
  if (!app.get_parent() && !rest.empty() && !rest.front().starts_with('-'))
    refuse_word(app, rest.front());  // a command with a slip in it, before what it takes
  for (const std::string& argument : rest)
    if (argument.size() > 1 && argument.starts_with('-') && argument != "--") refuse_flag(app, argument);
  for (const std::string& argument : rest)
    if (argument != "--") refuse_word(app, argument);
}

/// Flags of trainers whose meaning is certain: what they are given as here.
struct OtherName {
  std::string_view flag, ours;
  std::string_view value_begins = "";  // of ours: "--zero 3" is "--strategy zero3"
  std::string_view needs = "";         // the type of our flag's value, where commands have flags of one name
};
constexpr std::array kOtherNames{OtherName{"--zero", "--strategy", "zero"},
                                 OtherName{"--zero-stage", "--strategy", "zero"},
                                 OtherName{"--deepspeed", "--from", "", "FILE"}};

const OtherName* other_name_of(const CLI::App& app, const std::string& argument) {
  std::string flag = argument.substr(0, argument.find('='));
  std::ranges::replace(flag, '_', '-');
  for (const OtherName& row : kOtherNames) {
    const CLI::Option* ours = flag == row.flag ? app.get_option_no_throw(std::string(row.ours)) : nullptr;
    if (ours && (row.needs.empty() || ours->get_type_name() == row.needs)) return &row;
  }
  return nullptr;
}

/// The arguments with our flags in the place of those names.
std::vector<std::string> in_our_names(const CLI::App& app, std::vector<std::string> args) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    const OtherName* row = other_name_of(app, args[i]);
    if (!row) continue;
    const std::size_t equals = args[i].find('=');
    if (equals != std::string::npos) {
      args[i] = fmt::format("{}={}{}", row->ours, row->value_begins, args[i].substr(equals + 1));
      continue;
    }
    args[i] = row->ours;
    if (i + 1 < args.size() && !args[i + 1].starts_with('-')) args[i + 1].insert(0, row->value_begins);
  }
  return args;
}

/// GPUs behind a flag whose value may be left out ("--lora 2x3090") are a word of their own, before it.
std::vector<std::string> with_gpus_before(const CLI::App& app, std::vector<std::string> args) {
  for (std::size_t i = 0; i + 1 < args.size(); ++i) {
    const CLI::Option* const flag = args[i].starts_with("--") ? app.get_option_no_throw(args[i]) : nullptr;
    if (!flag || flag->get_expected_min() > 0) continue;
    const std::vector<std::string> behind(args.begin() + std::ptrdiff_t(i) + 1, args.end());
    if (const std::size_t count = num_gpu_words(behind); count > 0) {
      const auto at = args.begin() + std::ptrdiff_t(i);
      std::rotate(at, at + 1, at + 1 + std::ptrdiff_t(count));
      i += count;
    }
  }
  return args;
}

bool is_switch(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

/// A flag that swallowed the next flag as its value, was given more than once, or got a value that it does not take: a
/// number out of its range, too.
void check_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->results().empty()) continue;
    if (is_switch(*option)) {
      if (option->results().front() != "true") throw InputError(option->get_name(), "takes no value");
      continue;
    }
    const bool takes_many =
        option->get_items_expected_max() > 1 || (option->get_positional() && option->get_allow_extra_args());
    if (option->results().size() > 1 && !takes_many)
      throw InputError(option->get_name(), "is given more than once", "give it once");
    if (option->results().front().starts_with("--"))
      throw InputError(option->get_name(), "needs a value",
                       fmt::format("{} {}", option->get_name(), option->get_type_name()));
    for (const std::string& value : option->results()) check_ranges(app.get_name(), option->get_name(), value);
  }
}

void check_screen_flags(const CLI::App& app) {
  if (const auto when = given(app, kColour)) parse_name<Colour>(*when, kColour);
  const CLI::Option* const format = app.get_option_no_throw(kFormat);
  if (format && format->get_type_name() == "md|csv" && !format->results().empty())
    parse_name<TableFormat>(format->results().front(), kFormat);
}

/// The flag that a JSON file is for, by a key at its top: a model's configuration, a trainer's, or else a plan.
const char* flag_of_json(const std::string& file) {
  if (!is_file(file)) return "plan";
  try {
    const nlohmann::json value = read_json_file(file, kPlanLimit);
    if (!value.is_object() || value.contains("schema_version")) return "plan";
    return value.contains("model_type") ? "--model" : "--from";
  } catch (const InputError&) { return "plan"; }  // which says where it is broken
}

/// The flag that a word of "estimate llama3-8b 2x3090" stands for: files are plans or a trainer's, folders hold models.
const char* flag_of_word(const CLI::App& app, const std::string& word) {
  if (word == "-") return "plan";
  if (is_folder(word)) return "--model";
  const char* const flag = word.ends_with(".json") ? flag_of_json(word)
                           : is_there(word)        ? "--from"
                           : means_gpus(word)      ? "--gpus"
                                                   : "--model";
  return is_there(word) && !app.get_option_no_throw(flag) ? "plan" : flag;
}

/// "fix axolotl.yaml 2x3090": GPUs among the names of files.
void place_gpus(CLI::App& app) {
  CLI::Option *const files = app.get_option_no_throw("files"), *const gpus = app.get_option_no_throw("--gpus");
  if (!files || !gpus) return;
  const std::vector<std::string> words = join_gpu_words(files->results());
  files->clear();
  for (const std::string& word : words) {
    const bool is_file_name = is_there(word) || !gpus->results().empty() || !means_gpus(word);
    (is_file_name ? files : gpus)->add_result(word);
  }
}

void place_words(CLI::App& app) {
  place_gpus(app);
  CLI::Option* const plan = app.get_option_no_throw("plan");
  if (!plan || plan->results().empty()) return;
  const std::vector<std::string> words = join_gpu_words(plan->results());
  plan->clear();
  for (const std::string& word : words) {
    const char* const flag = flag_of_word(app, word);
    CLI::Option* const option = app.get_option_no_throw(flag);
    if (!option) refuse_word(app, word);
    if (!option->results().empty() && std::string_view(flag) != "--from")  // of which there may be several
      throw InputError("",
                       fmt::format("'{}' says {} a second time", word, flag == std::string("plan") ? "the plan" : flag),
                       fmt::format("it is given as '{}' already{}", option->results().front(),
                                   flag == std::string("--model") ? "; GPUs are written 2x3090 or 3060,4070" : ""));
    option->add_result(word);
  }
}

/// CLI11 names the flag first: "--model: 1 required TEXT missing".
[[noreturn]] void refuse_mismatch(const CLI::App& app, const std::string& message) {
  const std::string flag = message.substr(0, message.find_first_of(": "));
  const CLI::Option* option = app.get_option_no_throw(flag);
  throw InputError(flag, option && is_switch(*option) ? "takes no value" : "needs a value",
                   option && !is_switch(*option) ? fmt::format("{} {}", flag, option->get_type_name()) : "");
}

/// "help" and "help COMMAND": the help that "--help" and "COMMAND --help" show.
Parsed parse_help(const CLI::App& app, const std::vector<std::string>& args) {
  Parsed parsed{.app = &app, .wants_help = true};
  if (args.size() < 2) return parsed;
  if (!find_command(args[1])) refuse_word(app, args[1]);
  parsed.app = app.get_subcommand(args[1]);
  if (args.size() > 2) refuse_word(*parsed.app, args[2]);
  return parsed;
}

const CLI::App* selected(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? &app : chosen.front();
}

/// The arguments, while flags are declared of which they name some. CLI11 compares each flag with all before it.
thread_local const std::vector<std::string>* named_alone = nullptr;

bool is_flag_named(const std::string& flag) {
  return !named_alone || std::ranges::any_of(*named_alone, [&](const std::string& argument) {
    return argument.starts_with(flag) && (argument.size() == flag.size() || argument[flag.size()] == '=');
  });
}

void declare_command(CLI::App& app, const Command& command, bool has_flags,
                     const std::vector<std::string>* named = nullptr) {
  CLI::App* sub = app.add_subcommand(command.name, command.summary);
  sub->footer(command.example)->allow_extras();
  sub->set_help_flag("-h,--help", "show this help; -h its first flags");
  if (!command.setup || !has_flags) return;
  named_alone = named;
  command.setup(*sub);
  if (command.has_tables)
    add_flag(*sub, kFormat, "md|csv", "the tables of the answer alone, whole, as Markdown or CSV");
  add_flag(*sub, kColour, "auto|always|never", "colours in the answer. Default auto: on a terminal");
  named_alone = nullptr;
}

template <class Wanted>
void declare(CLI::App& app, Wanted wants_flags, const std::vector<std::string>* named = nullptr) {
  app.name("gpuplan");
  app.description("plan the fine-tuning of language models: what fits, how fast, at what cost");
  app.set_help_flag("-h,--help", "show this help; -h the short one");
  app.set_version_flag("-V,--version", GPUPLAN_VERSION, "show the version");
  add_flag(app, kColour, "auto|always|never", "colours in the answer. Default auto: on a terminal");
  app.add_flag(kLicences)->description(
      "show the licences of the program, of its libraries and of the sources of its data");
  app.require_subcommand(0, 1)->allow_extras();
  for (const Command& command : commands()) declare_command(app, command, wants_flags(command), named);
}

/// Says whether what looks like a flag is one that was declared; help names all of them.
bool knows_flags(const CLI::App& command, const std::vector<std::string>& args) {
  return std::ranges::all_of(args, [&](const std::string& argument) {
    const std::string flag = argument.substr(0, argument.find('='));
    const CLI::Option* const option = flag.starts_with('-') ? command.get_option_no_throw(flag) : nullptr;
    return flag.size() < 2 || !flag.starts_with('-') || (option && option != command.get_help_ptr());
  });
}

}  // namespace

Screen screen_for(const std::vector<std::string>& args, Screen screen) {
  if (const auto when = value_among(args, kColour); when && *when != "auto") screen.has_colour = *when == "always";
  const auto format = value_among(args, kFormat);
  const bool is_table = format && (*format == "md" || *format == "csv");
  if (!is_table || (!args.empty() && args.front() == "profiles")) return screen;  // whose --format is of plots
  constexpr int kEveryColumn = 100'000;
  screen.format = *format == "csv" ? TableFormat::Csv : TableFormat::Markdown;
  screen.width = kEveryColumn;
  screen.has_colour = false;
  return screen;
}

void declare_commands(CLI::App& app) {
  declare(app, [](const Command&) { return true; });
}

void declare_commands(CLI::App& app, const std::vector<std::string>& args) {
  const auto is_named = [&](const Command& command) { return std::ranges::find(args, command.name) != args.end(); };
  const bool wants_all = std::ranges::any_of(
      commands(), [&](const Command& command) { return command.lists_all_flags && is_named(command); });
  const bool is_quick = !wants_all && !args.empty() && find_command(args.front());
  declare(
      app, [&](const Command& command) { return wants_all || is_named(command); }, is_quick ? &args : nullptr);
  if (!is_quick || knows_flags(*app.get_subcommand(args.front()), args)) return;
  for (const Command& command : commands())
    if (is_named(command)) {
      app.remove_subcommand(app.get_subcommand(command.name));
      declare_command(app, command, true);
    }
}

Parsed parse(CLI::App& app, const std::vector<std::string>& args) {
  if (!args.empty() && args.front() == "help") return parse_help(app, args);
  Parsed parsed;
  const Command* command = args.empty() ? nullptr : find_command(args.front());
  const auto end = command && command->takes_program ? std::find(args.begin(), args.end(), "--") : args.end();
  std::vector<std::string> ours(args.begin(), end);
  if (command) ours = in_our_names(*app.get_subcommand(command->name), std::move(ours));
  if (command) ours = with_gpus_before(*app.get_subcommand(command->name), std::move(ours));
  std::ranges::reverse(ours);  // CLI11 takes them from the back
  try {
    app.parse(ours);
  } catch (const CLI::CallForHelp&) {
    parsed.wants_help = true;
    parsed.wants_short_help = std::find(args.begin(), end, "--help") == end;
  } catch (const CLI::CallForVersion&) { parsed.wants_version = true; } catch (const CLI::ArgumentMismatch& error) {
    refuse_mismatch(*selected(app), error.what());
  }
  parsed.app = selected(app);
  if (parsed.wants_help || parsed.wants_version) return parsed;
  refuse_remaining(app);
  refuse_remaining(*parsed.app);  // before its words: the value of an unknown flag is none
  if (parsed.app != &app) place_words(*app.get_subcommand(parsed.app->get_name()));
  check_values(*parsed.app);
  check_screen_flags(*parsed.app);
  refuse_remaining(*parsed.app);
  parsed.wants_licences = is_given(app, kLicences);
  parsed.command = parsed.app == &app ? nullptr : find_command(parsed.app->get_name());
  return parsed;
}

CLI::Option* add_flag(CLI::App& app, const std::string& name, const std::string& value, const std::string& help,
                      const std::string& group, Declared declared) {
  if (declared == Declared::IfNamed && !is_flag_named(name)) {
    static thread_local CLI::App elsewhere;
    static thread_local CLI::Option* const unread = elsewhere.add_option("unread");
    return unread;
  }
  CLI::Option* option = value.empty() ? app.add_flag(name) : app.add_option(name);
  const std::string ranges = ranges_text(app.get_name(), name);
  option->description(ranges.empty() ? help : fmt::format("{} ({})", help, ranges))->group(group);
  if (value.empty()) return option;
  option->type_name(value);
  option->expected(value.starts_with('[') ? 0 : 1, 1);
  return option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

/// A flag of the command, which CLI11 finds by copying the names of all.
static const CLI::Option* find_flag(const CLI::App& app, const std::string& name) {
  if (!name.starts_with("--")) return app.get_option_no_throw(name);
  const std::string_view bare = std::string_view(name).substr(2);
  for (const CLI::Option* option : app.get_options())
    if (std::ranges::find(option->get_lnames(), bare) != option->get_lnames().end()) return option;
  return nullptr;
}

std::optional<std::string> given(const CLI::App& app, const std::string& name) {
  const CLI::Option* option = find_flag(app, name);
  if (!option || option->results().empty()) return {};
  return is_switch(*option) ? "" : option->results().front();
}

std::vector<std::string> all_given(const CLI::App& app, const std::string& name) {
  const CLI::Option* option = find_flag(app, name);
  return option ? option->results() : std::vector<std::string>{};
}

bool is_given(const CLI::App& app, const std::string& name) { return given(app, name).has_value(); }

HubSettings given_hub(const CLI::App& app) {
  HubSettings hub = hub_settings();
  hub.is_offline |= is_given(app, "--offline");
  return hub;
}

namespace {

/// "128xH100" for --gpus H100 --num-gpus 128; a list that says the number itself must say the same.
std::string counted(const std::string& gpus, std::optional<std::int64_t> num_gpus) {
  if (!num_gpus) return gpus;
  std::vector<NamedGpus> parts;
  try {
    parts = split_gpu_list(gpus);
  } catch (InputError& error) { throw error.add_context("--gpus"); }
  const NamedGpus& named = parts.front();
  if (parts.size() > 1)
    throw InputError("--num-gpus", fmt::format("--gpus {} names several kinds of GPUs", gpus),
                     "write the number of each there, as in --gpus 2x4090,2x3090");
  const bool says_number = named.name != trim(gpus);
  if (says_number && named.num_cards != *num_gpus)
    throw InputError("", fmt::format("--gpus {} and --num-gpus {} contradict each other", gpus, *num_gpus),
                     "give one of them");
  return fmt::format("{}x{}", *num_gpus, named.name);
}

}  // namespace

std::optional<ClusterSpec> given_machine(const CLI::App& app) {
  const auto gpus = given(app, "--gpus"), cluster = given(app, "--cluster");
  if (gpus && cluster)
    throw InputError("", "--gpus and --cluster contradict each other", "one of them says what the plan runs on");
  if (const auto gpu = given(app, "--gpu"); gpu && !cluster && !gpus)
    throw InputError("--gpu", "names the card of a machine that --cluster describes",
                     fmt::format("did you mean --gpus {}?", *gpu));
  if (is_given(app, "--gpu") && !cluster) throw InputError("--gpu", "needs --cluster", "--gpus names the card already");
  if (is_given(app, "--num-gpus") && !gpus && !cluster)
    throw InputError("--num-gpus", "needs --gpus or --cluster", "for example --gpus A6000 --num-gpus 4");
  const auto gpu_specs = given(app, "--gpu-spec");
  if (gpu_specs && !gpus)
    throw InputError("--gpu-spec", "describes a card of --gpus, which is not given",
                     "for example --gpus 2x3060 --gpu-spec '3060:12GiB,360GB/s,25TFLOPS'");
  if (gpus) return parse_gpus(counted(*gpus, given_integer(app, "--num-gpus")), gpu_specs.value_or(""));
  if (!cluster) return std::nullopt;
  return load_cluster(*cluster, given_integer(app, "--num-gpus"), given(app, "--gpu"));
}

}  // namespace gpuplan
