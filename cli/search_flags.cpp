#include "cli/search_flags.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "cli/arguments.h"
#include "cli/config_files.h"
#include "cli/flag_ranges.h"
#include "cli/plan_flags.h"
#include "cli/plan_question.h"
#include "cli/row_lengths.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/gpu_list.h"
#include "cluster/profile/profile_store.h"
#include "planner/changes.h"
#include "planner/engine_gpus.h"
#include "planner/job.h"
#include "search/engine_division.h"
#include "search/frontier.h"

namespace gpuplan {
namespace {

constexpr const char* kSearch = "Search";
constexpr const char* kRental = "What can be rented";

/// Flags of a plan that a command gets from its row instead.
constexpr std::array kOfTheRow{"--gpus", "--gpu-spec", "--cluster", "--num-gpus", "--gpu", "--prefer"};

bool is_of_the_row(std::string_view flag) {
  return std::find(kOfTheRow.begin(), kOfTheRow.end(), flag) != kOfTheRow.end();
}

std::string given_flags(const CLI::App& app, const EstimateRequest& asked) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " ") + part; };
  if (const auto plan = given(app, "plan")) add(shell_word(*plan));
  for (const std::string& file : all_given(app, "--from")) add("--from " + shell_word(file));
  for (const PlanFlag& flag : plan_flags()) {
    auto value = given(app, flag.name);
    if (value && std::string_view(flag.name) == "--method") value = words_of_method(*value).trained_for;
    if (!value || is_of_the_row(flag.name) ||
        (flag.name == std::string_view("--rollout-engine") && divides_gpus(asked)))
      continue;
    add(flag_words(flag, *value));
  }
  return text;
}

/// Gives a number to a flag of the text, in the place of the one that it has there.
void put_number(std::string& flags, const std::string& flag, std::int64_t value) {
  const std::string start = fmt::format(" {} ", flag);
  if (const auto at = flags.find(start); at != std::string::npos)
    flags.erase(at, std::min(flags.find(' ', at + start.size()), flags.size()) - at);
  flags += fmt::format("{}{}", start, value);
}

/// Takes the data set's rows from a file, where no flag says otherwise.
void set_lengths(const CLI::App& app, AskedSearch& asked, const std::optional<ConfigReading>& configs) {
  EstimateRequest& r = asked.question.base;
  const bool says_seq_len = given(app, "plan") || (configs && (configs->plan || configs->setup.seq_len));
  PlanQuestion read;
  read.request = std::move(r);
  const std::optional<GivenRows> rows = take_rows(app, read, says_seq_len);
  r = std::move(read.request);
  const bool tries_packing = r.recipe.objective.method.is_usual() && !asked.question.pinned.contains("packing");
  if (read.stated_seq_len > 0 && tries_packing) r.recipe.seq_len = std::exchange(read.stated_seq_len, 0);
  if (!rows) {
    for (const Change& change : changes())
      if (change.needs_lengths) asked.question.pinned.insert(std::string(change.name));
    return;
  }
  const Lengths& lengths = rows->lengths;
  asked.given += fmt::format(" --rows {} --tokens-per-row {}", r.dataset.rows, r.dataset.tokens_per_row);
  if (rows->sets_seq_len || read.stated_seq_len > 0) put_number(asked.given, "--seq-len", r.recipe.seq_len);
  if (read.stated_seq_len > 0) asked.notes.push_back(read.notes.back());
  constexpr std::int64_t kPadded = 8;
  asked.notes.push_back(fmt::format(
      "rows of {}: {} of {:.0f} tokens on average, half up to {}, nine of ten up to {}, the longest {}; micro batches "
      "of {} "
      "would be padded to {:.0f} on average{}",
      rows->source, lengths.num_rows, lengths.mean, lengths.quantile(0.5), lengths.quantile(0.9), lengths.longest,
      kPadded, lengths.mean_longest_of(kPadded),
      r.recipe.seq_len < lengths.longest ? fmt::format("; longer rows are cut to {}", r.recipe.seq_len) : ""));
}

/// Rows of the table of changes whose flag was given, and degrees that were.
std::set<std::string> pinned_rows(const CLI::App& app) {
  std::set<std::string> out;
  for (const Change& change : changes())
    if (is_given(app, fmt::format("--{}", change.name))) out.insert(std::string(change.name));
  for (const std::string_view degree : kSearchedDegrees)
    if (is_given(app, fmt::format("--{}", degree))) out.insert(std::string(degree));
  if (is_given(app, "--strategy")) out.insert("strategy");
  return out;
}

struct MethodName {
  const char* name;
  Method method;
};
constexpr std::array kMethods{MethodName{"full", Method::Full}, MethodName{"lora", Method::Lora},
                              MethodName{"qlora", Method::Qlora}};

/// The methods to choose from: those of --method; of --quality and better; else the one whose flag is given.
void set_methods(const CLI::App& app, AskedSearch& asked, const std::optional<ConfigReading>& configs) {
  SearchQuestion& q = asked.question;
  const auto given_method = given(app, "--method"), quality = given(app, "--quality");
  const auto method = given_method ? words_of_method(*given_method).searched : std::nullopt;
  for (const MethodName& row : kMethods) {
    const std::string flag = fmt::format("--{}", row.name);
    if (!is_given(app, flag)) continue;
    if (method) throw InputError("", fmt::format("--method and {} contradict each other", flag), "give one of them");
    if (quality && quality_of(q.base.recipe) < parse_name<Quality>(*quality, "--quality"))
      throw InputError("--quality", fmt::format("{} is not of this quality", flag), "leave one of them out");
    q.methods = {row.method};
    return;
  }
  const bool says_method = configs && (configs->plan || configs->has_method);
  if (given(app, "plan") || (says_method && !method && !quality)) {
    q.methods = {q.base.recipe.method};
    return;
  }
  if (quality) q.least_quality = parse_name<Quality>(*quality, "--quality");
  if (method && *method != "any") {
    const auto row = std::ranges::find(kMethods, *method, &MethodName::name);
    q.methods = {row->method};
  } else {
    const bool takes_any = method || q.least_quality == Quality::Ok;
    const bool is_open = !method && !quality;
    q.methods = {Method::Full, Method::Lora};
    if (takes_any && !is_open) q.methods.push_back(Method::Qlora);
    if (q.least_quality == Quality::Best) q.methods = {Method::Full};
    if (is_open)
      asked.notes.push_back(
          "full fine-tuning and LoRA are tried; --method any tries QLoRA too, --method full only that");
  }
}

/// The optimizer step of the files is kept: another one would train something else.
void set_batch(const CLI::App& app, AskedSearch& asked, const std::optional<ConfigReading>& configs) {
  if (!configs || !configs->has_trainer || is_given(app, "--global-batch")) return;
  const Setup& s = configs->setup;
  const bool says_passes =
      asked.question.pinned.contains("micro-batch") && asked.question.pinned.contains("grad-accum");
  if (says_passes && s.max_steps.value_or(0) > 0)
    asked.notes.push_back(
        fmt::format("rows with more GPUs have more sequences per optimizer step, and are compared by the same data: "
                    "fewer steps than the {} of the files",
                    format_grouped(*s.max_steps)));
  if (says_passes) return;
  const ClusterSpec& own = asked.question.base.cluster;
  const std::int64_t processes = s.num_processes.value_or(own.gpus.empty() ? 1 : own.num_gpus());
  asked.question.global_batch = configs->step_rows ? *configs->step_rows
                                : s.global_batch   ? *s.global_batch
                                                   : s.micro_batch.value_or(1) * s.grad_accum.value_or(1) * processes;
  asked.notes.push_back(fmt::format("{} sequences per optimizer step, as the files have them{}; --global-batch sets it",
                                    *asked.question.global_batch,
                                    configs->step_rows || s.global_batch || s.num_processes ? ""
                                    : own.gpus.empty() ? " on one GPU, since none says how many processes train"
                                                       : fmt::format(" with a process on each of {} GPUs", processes)));
}

void set_limits(const CLI::App& app, SearchQuestion& q) {
  q.under = given_time(app, "--under");
  q.budget = given_number(app, "--budget");
  q.overhead = given_time(app, "--overhead").value_or(q.is_rented ? kReadyTime : Seconds{});
  if (const auto batch = given_integer(app, "--global-batch")) q.global_batch = batch;
  const auto least = given(app, "--min");
  if (least && *least != "gpus" && *least != "cost" && *least != "time")
    throw InputError("--min", fmt::format("'{}' cannot be asked for", *least), "gpus, cost or time");
  if (least && is_given(app, "--prefer"))
    throw InputError("", "--min and --prefer contradict each other", "give one of them");
  q.takes_fewest_gpus = least == "gpus";
  if (least == "cost" || least == "time") {
    q.preference = *least == "cost" ? Preference::Cost : Preference::Speed;
  } else if (!is_given(app, "--prefer")) {
    const bool must_be_fast = q.budget && !q.under;
    q.preference = q.is_rented && !must_be_fast ? Preference::Cost : Preference::Speed;
    q.is_fast_by_budget = q.is_rented && must_be_fast;
  } else {
    q.preference = q.base.preference;
  }
}

/// Machines without a price would all be within a budget.
void refuse_budget_without_price(const SearchQuestion& q) {
  const auto has_price = [](const Hardware& machine) {
    return std::ranges::any_of(machine.offers, [](const Offer& offer) { return offer.usd_per_gpu_hour.has_value(); });
  };
  if (q.budget && !q.machines.empty() && std::ranges::none_of(q.machines, has_price))
    throw InputError("--budget", "no price is known of these GPUs", "--price-per-gpu-hour says it");
}

std::string machine_flags(const CLI::App& app) {
  std::string text;
  for (const char* flag : {"--gpus", "--gpu-spec", "--cluster", "--gpu", "--num-gpus"})
    if (const auto value = given(app, flag))
      text += fmt::format("{}{} {}", text.empty() ? "" : " ", flag, shell_word(*value));
  return text;
}

/// Fewer GPUs of the machine: 1, 2, 4, ….
void add_parts(const CLI::App& app, SearchQuestion& q) {
  const Hardware whole = q.machines.front();
  if (whole.cluster.is_mixed() || given(app, "--gpus") == "local") return;
  for (std::int64_t count = devices_per_card(whole.cluster); count < whole.num_gpus(); count *= 2) {
    Hardware part = whole;
    part.cluster = resized(whole.cluster, count);
    part.cluster.price_per_gpu_hour = whole.cluster.price_per_gpu_hour;
    const auto cluster = given(app, "--cluster");
    part.flags = cluster ? fmt::format("--cluster {} --num-gpus {}", shell_word(*cluster), count)
                         : fmt::format("--gpus {}", part.cluster.name);
    if (const auto spec = given(app, "--gpu-spec")) part.flags += " --gpu-spec " + shell_word(*spec);
    q.machines.push_back(std::move(part));
  }
}

void set_machines(const CLI::App& app, AskedSearch& asked) {
  SearchQuestion& q = asked.question;
  const ClusterSpec& own = q.base.cluster;
  if (!own.gpus.empty()) {
    for (const char* flag : {"--vendor", "--spot", "--prices"})
      if (is_given(app, flag))
        throw InputError(flag, "is about renting, and the machine is given", "leave --gpus and --cluster out");
    q.machines = {own_machine(own, profile_of(q.base), machine_flags(app), q.base.price_per_gpu_hour)};
    if (given(app, "--min") == "gpus") add_parts(app, q);
    q.base.cluster = {};  // every way of the search would copy its GPUs
    return;
  }
  if (q.base.price_per_gpu_hour)
    throw InputError("--price-per-gpu-hour", "is the price of GPUs that are given with --gpus",
                     "--prices FILE has those of what can be rented");
  RentalWish wish{.vendor = given(app, "--vendor"), .takes_spot = is_given(app, "--spot"), .prices = {}};
  if (const auto prices = given(app, "--prices")) wish.prices = *prices;
  q.machines = rentable(wish);
}

/// Says which cards and profiles of the machines are the user's in the place of shipped ones.
void note_own_files(AskedSearch& asked) {
  const auto note = [&](std::string text) {
    if (!text.empty() && std::ranges::find(asked.notes, text) == asked.notes.end())
      asked.notes.push_back(std::move(text));
  };
  for (const Hardware& machine : asked.question.machines) {
    for (const GpuSpec& gpu : machine.cluster.gpus.kinds())
      if (gpu.source == gpu_path(gpu.id)) note(read_instead_of_shipped(gpu.id));
    note(read_instead_of_shipped(machine.profile));
  }
}

}  // namespace

std::string shell_word(const std::string& text) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./:=,+@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string flag_words(const PlanFlag& flag, const std::string& value) {
  const bool is_optional = std::string_view(flag.value).starts_with('[');
  return value.empty() ? flag.name : fmt::format("{}{}{}", flag.name, is_optional ? "=" : " ", shell_word(value));
}

void add_search_flags(CLI::App& app) {
  add_row_flags(app);
  add_flag(app, "--quality", "best|good|ok", "the least: full training, LoRA, QLoRA. Default good", kSearch);
  add_flag(app, "--global-batch", "N",
           fmt::format("sequences per optimizer step, on all GPUs. Default about {}", kUsualGlobalBatch), kSearch);
  add_flag(app, "--under", "TIME", "all of the training within this time, e.g. 6h", kSearch);
  add_flag(app, "--budget", "USD", "all of the training for this much", kSearch);
  add_flag(app, "--min", "gpus|cost|time", "the plan with the fewest GPUs, or the cheapest, or the fastest", kSearch);
  add_flag(app, "--max", "context|batch|model",
           "the longest sequence, the largest micro batch, or the largest model that fits", kSearch);
  add_flag(app, "--largest", "", "a table of the models of the catalogue that could be trained here, by context",
           kSearch);
  add_flag(app, "--top", "K", "rows shown at most, and kinds of GPU beside them. Default 4", kSearch);
  add_flag(app, "--overhead", "TIME",
           "set-up, download and failed starts, in every time and cost. Default 15min of a rented machine", kSearch);
  add_flag(app, "--vendor", "VENDOR", "only machines of this vendor", kRental);
  add_flag(app, "--spot", "", "also machines that may be taken away, with the time that restarts cost", kRental);
  add_flag(app, "--prices", "FILE",
           "YAML with a list `prices` of {gpu, vendor, usd_per_gpu_hour}, in place of the catalogue's", kRental);
}

void tell_what_is_searched(CLI::App& app) {
  const auto tell = [&](const std::string& flag, const std::string& words) {
    CLI::Option* option = app.get_option_no_throw(flag);
    if (!option) return;
    const std::string help = option->get_description();
    const std::size_t at = help.find("Default"), range = help.rfind(" (");
    if (at == std::string::npos) return;
    const bool has_range = range != std::string::npos && range > at && help.ends_with(')');
    option->description(help.substr(0, at) + words + (has_range ? help.substr(range) : ""));
  };
  const std::string is_searched = "Default: searched";
  for (const Change& change : changes())
    if (change.tried && !change.needs_lengths) tell(fmt::format("--{}", change.name), is_searched);
  for (const std::string_view degree : kSearchedDegrees) tell(fmt::format("--{}", degree), is_searched);
  for (const char* flag : {"--micro-batch", "--grad-accum", "--strategy"}) tell(flag, is_searched);
  tell("--prefer", "Default cost of what is rented, speed with --budget alone and on your own GPUs");
}

/// A method that the trainer has not is no question of machines.
static void check_trainer(const SearchQuestion& q) {
  if (q.machines.empty()) return;
  const auto mistake = recipe_mistake(q.base.recipe, q.base.model, q.machines.front().cluster);
  if (mistake && mistake->where() == "--method") throw *mistake;
}

AskedSearch read_search(const CLI::App& app, std::istream& in, bool needs_model) {
  const std::optional<ConfigReading> configs = given_configs(app);
  PlanQuestion open = read_open_question(app, in, needs_model, configs);
  AskedSearch asked{.question = {},
                    .given = given_flags(app, open.request),
                    .notes = std::move(open.notes),
                    .has_rows = open.has_rows,
                    .data_words = std::move(open.data_words),
                    .carried = std::move(open.carried)};
  SearchQuestion& q = asked.question;
  q.base = std::move(open.request);
  q.base.not_given = {};  // a search says every setting
  q.pinned = pinned_rows(app);
  if (configs && configs->states("attention")) q.pinned.insert("attention");  // a kernel that the user has installed
  // a file that does not say how it is started leaves it open
  if (configs && configs->has_files && !configs->setup.distributed && !is_given(app, "--strategy"))
    q.base.strategy = "auto";
  set_lengths(app, asked, configs);
  set_methods(app, asked, configs);
  set_batch(app, asked, configs);
  q.is_rented = q.base.cluster.gpus.empty();
  set_limits(app, q);  // wrong input is told before the catalogue is read
  if (!q.is_rented && has_engine_apart(q.base)) q.base.cluster = whole_cluster(q.base);
  set_machines(app, asked);
  refuse_budget_without_price(q);
  check_trainer(q);
  q.machines = divided(q);
  note_own_files(asked);
  if (!q.global_batch && !(q.pinned.contains("micro-batch") && q.pinned.contains("grad-accum")))
    asked.notes.push_back(
        fmt::format("about {} sequences per optimizer step; --global-batch sets it", kUsualGlobalBatch));
  return asked;
}

}  // namespace gpuplan
