#include "run/launch.h"

#include <array>
#include <optional>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/names.h"

namespace gpuplan {
namespace {

std::optional<std::int64_t> number_in(const char* name) {
  const auto text = name ? variable(name) : std::nullopt;
  if (!text) return {};
  try {
    return parse_integer(*text, name, 0);
  } catch (const InputError&) {
    throw InputError(name, fmt::format("'{}' in the environment is not a rank or a number of ranks", *text),
                     "is it left over from another job? unset it");
  }
}

/// One of several names, or null: the first that is set counts.
using Either = std::array<const char*, 2>;
std::optional<std::int64_t> number_in(const Either& names) {
  const auto first = number_in(names[0]);
  return first ? first : number_in(names[1]);
}

/// The variables of one launcher. In this order: mpirun inside a Slurm job starts its ranks through srun, or beside its
/// variables.
struct Names {
  Launcher launcher;
  const char* rank;
  Either size, local_rank, local_size;
};
constexpr Names kNames[] = {
    {Launcher::Gpuplan,
     kRankVariable,
     {kWorldSizeVariable, nullptr},
     {kRankVariable, nullptr},
     {kWorldSizeVariable, nullptr}},
    {Launcher::Mpi,
     "OMPI_COMM_WORLD_RANK",
     {"OMPI_COMM_WORLD_SIZE", nullptr},
     {"OMPI_COMM_WORLD_LOCAL_RANK", nullptr},
     {"OMPI_COMM_WORLD_LOCAL_SIZE", nullptr}},
    {Launcher::Mpi,
     "PMI_RANK",
     {"PMI_SIZE", nullptr},
     {"MPI_LOCALRANKID", "SLURM_LOCALID"},
     {"MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"}},
    {Launcher::Slurm,
     "SLURM_PROCID",
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     {"SLURM_LOCALID", nullptr},
     {"SLURM_NTASKS_PER_NODE", nullptr}},
    {Launcher::Torchrun, "RANK", {"WORLD_SIZE", nullptr}, {"LOCAL_RANK", nullptr}, {"LOCAL_WORLD_SIZE", nullptr}}};

/// A batch script and the shell of salloc have SLURM_PROCID and the job's SLURM_NTASKS, too, and are no ranks: srun's
/// tasks know their step's number of tasks, which is 1 for that shell, or have been given to PMIx.
bool is_task_of_srun() {
  if (!has_variable("SLURM_STEP_ID")) return false;
  if (const auto tasks = number_in("SLURM_STEP_NUM_TASKS")) return *tasks > 1;
  return has_variable("PMIX_RANK") && number_in("SLURM_NTASKS").value_or(1) > 1;
}

/// srun --mpi=pmi2 sets PMI's variables, too: then its own say more, where on several nodes which ranks are.
bool is_pmi_of_srun() {
  const auto rank = number_in("PMI_RANK");
  return rank && is_task_of_srun() && rank == number_in("SLURM_PROCID") &&
         number_in("PMI_SIZE") == number_in("SLURM_STEP_NUM_TASKS");
}

bool is_of(const Names& names) {
  if (names.launcher == Launcher::Slurm) return is_task_of_srun();
  if (std::string_view(names.rank) == "PMI_RANK") return !is_pmi_of_srun();
  if (names.launcher == Launcher::Torchrun)
    return has_variable("TORCHELASTIC_RUN_ID") || has_variable("LOCAL_WORLD_SIZE");
  return true;
}

/// "8(x2),4": tasks by node of the step.
std::optional<std::int64_t> slurm_tasks_here() {
  const auto list = variable("SLURM_STEP_TASKS_PER_NODE");
  const auto node = number_in("SLURM_NODEID");
  if (!list || !node) return {};
  const auto counts = expand_counts(*list, "SLURM_STEP_TASKS_PER_NODE");
  return *node < std::ssize(counts) ? std::optional(counts[std::size_t(*node)]) : std::nullopt;
}

constexpr std::int64_t kMostNodes = 1 << 20;  // more is no list of nodes

[[noreturn]] void refuse(std::string_view list, std::string_view where) {
  throw InputError(std::string(where), fmt::format("'{}' in the environment is no list of Slurm's", list),
                   "set MASTER_ADDR to the host of rank 0");
}

/// Splits at commas outside brackets.
std::vector<std::string_view> parts_of(std::string_view list, std::string_view where) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++depth;
    if (i < list.size() && list[i] == ']') --depth;
    if (depth < 0 || depth > 1) refuse(list, where);
    if (i < list.size() && (list[i] != ',' || depth > 0)) continue;
    if (i == begin) refuse(list, where);
    parts.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  if (depth != 0) refuse(list, where);
  return parts;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 18 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::int64_t number_of(std::string_view text, std::string_view list, std::string_view where) {
  if (!is_number(text)) refuse(list, where);
  return parse_integer(text, where, 0);
}

/// Numbers between brackets: "01-03,7" is 01, 02, 03, 7: as wide as the first of a range.
std::vector<std::string> numbers_in(std::string_view ranges, std::string_view list, std::string_view where) {
  std::vector<std::string> out;
  for (const std::string_view range : parts_of(ranges, where)) {
    const std::size_t dash = range.find('-');
    const std::string_view first = range.substr(0, dash),
                           last = dash == std::string_view::npos ? first : range.substr(dash + 1);
    const std::int64_t from = number_of(first, list, where), to = number_of(last, list, where);
    if (to < from || to - from >= kMostNodes) refuse(list, where);
    for (std::int64_t n = from; n <= to; ++n) out.push_back(fmt::format("{:0{}}", n, first.size()));
  }
  return out;
}

/// One name with any number of brackets.
std::vector<std::string> expand_name(std::string_view name, std::string_view list, std::string_view where) {
  std::vector<std::string> out{""};
  while (!name.empty()) {
    const std::size_t open = name.find('['), close = name.find(']');
    for (std::string& text : out) text += name.substr(0, open);
    if (open == std::string_view::npos) return out;
    const auto numbers = numbers_in(name.substr(open + 1, close - open - 1), list, where);
    std::vector<std::string> longer;
    if (std::ssize(out) * std::ssize(numbers) > kMostNodes) refuse(list, where);
    for (const std::string& text : out)
      for (const std::string& number : numbers) longer.push_back(text + number);
    out = std::move(longer);
    name.remove_prefix(close + 1);
  }
  return out;
}

}  // namespace

LaunchedRank read_launcher() {
  for (const Names& names : kNames) {
    if (!is_of(names)) continue;
    const auto rank = number_in(names.rank), size = number_in(names.size);
    if (!rank || !size) continue;
    if (*rank >= *size)
      throw InputError(names.rank, fmt::format("rank {} of {} in the environment", *rank, *size),
                       "is it left over from another job? unset it");
    const auto tasks_here = names.launcher == Launcher::Slurm ? slurm_tasks_here() : std::nullopt;
    return {.launcher = names.launcher,
            .rank = *rank,
            .size = *size,
            .local_rank = number_in(names.local_rank).value_or(*rank),
            .local_size = tasks_here ? *tasks_here : number_in(names.local_size).value_or(*size),
            .has_mpi = names.launcher == Launcher::Mpi ||
                       (names.launcher == Launcher::Slurm && (has_variable("PMIX_RANK") || has_variable("PMI_RANK")))};
  }
  return {};
}

std::vector<std::string> expand_nodes(std::string_view list, std::string_view where) {
  std::vector<std::string> out;
  for (const std::string_view part : parts_of(list, where))
    for (std::string& name : expand_name(part, list, where)) out.push_back(std::move(name));
  return out;
}

std::vector<std::int64_t> expand_counts(std::string_view list, std::string_view where) {
  std::vector<std::int64_t> out;
  for (const std::string_view part : parts_of(list, where)) {
    const std::size_t open = part.find("(x");
    const std::int64_t count = number_of(part.substr(0, open), list, where);
    std::int64_t times = 1;
    if (open != std::string_view::npos) {
      if (part.back() != ')') refuse(list, where);
      times = number_of(part.substr(open + 2, part.size() - open - 3), list, where);
    }
    if (times > kMostNodes) refuse(list, where);
    out.insert(out.end(), std::size_t(times), count);
  }
  return out;
}

}  // namespace gpuplan
