#include "ecosystem/named_data.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/unit_text.h"
#include "base/yaml_file.h"
#include "ecosystem/row_count.h"
#include "ecosystem/script_folder.h"
#include "models/training_method.h"
#include "planner/rollout_phases.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr IntRange kSomeRows{1, 1'000'000'000'000};

std::vector<NamedData> read_named_data() {
  YamlFile file = YamlFile::read(data_dir() / "datasets.yaml");
  std::vector<NamedData> sets;
  for (Fields& f : file.top().list("sets")) {
    NamedData& set = sets.emplace_back();
    set.name = f.text("name");
    f.optional("also", set.also);
    f("rows", set.rows, kSomeRows);
    f.optional("tokens", set.tokens, kSomeRows);
    f.optional("bytes", set.bytes, kSomeRows);
    f.optional("prompt_tokens", set.prompt_tokens, kSomeRows);
    f.optional("tokens_per_row", set.tokens_per_row, NumberRange{1, 1e6});
    f.optional("tokenizer", set.tokenizer);
    set.source = f.text("source");
    f.refuse_unknown();
  }
  file.top().refuse_unknown();
  file.finish();
  return sets;
}

/// Holds what is known of one named set.
struct Part {
  std::int64_t rows{};
  std::optional<double> tokens_per_row;
  std::string text;
  double prompt = 0;               // tokens of a prompt; 0: not counted
  std::int64_t rows_per_pair = 1;  // that the trainer makes of each
  RowsOf rows_of;                  // empty: not counted here
};

class DataReader {
 public:
  DataReader(const ConfigReading& reading, const FindPath& find, const Recipe& recipe, std::vector<std::string>& notes)
      : reading_(reading),
        find_(find),
        recipe_(recipe),
        notes_(notes) {}

  /// The sets that are known; false where one of them is not.
  bool read(std::vector<Part>& parts) {
    bool knows_all = true;
    for (const std::string& name : *reading_.setup.data_sets) {
      if (auto part = read_set(name))
        parts.push_back(std::move(*part));
      else
        knows_all = false;
    }
    return knows_all;
  }

 private:
  /// "alpaca#500" is 500 rows of it, "alpaca#10%" a share.
  std::optional<Part> read_set(const std::string& given) {
    const std::size_t mark = given.rfind('#');
    const std::string named = given.substr(0, mark);
    std::string name = named.starts_with("HF::") || named.starts_with("MS::") ? named.substr(4) : named;
    for (const char sign : {'[', ']', '\'', '"'}) std::erase(name, sign);  // of a Hydra list: ['a.parquet','b.parquet']
    std::optional<Part> part = read_file_of(name);
    if (!part)
      if (const NamedData* set = find_named_data(name)) part = part_of(*set);
    if (!part) part = part_of_split(name);
    if (!part)
      if (const NamedData* set = named_by_folder(name)) {
        part = part_of(*set);
        part->text = fmt::format("{}, taken as {}", name, part->text);
      }
    const bool is_share = mark != std::string::npos && given.ends_with('%');
    const auto number = mark == std::string::npos
                            ? std::nullopt
                            : as_number(given.substr(mark + 1, given.size() - mark - (is_share ? 2 : 1)));
    if (is_share && number && part) {
      if (part->rows > 0) part->rows = std::max<std::int64_t>(1, std::llround(double(part->rows) * *number / 100));
    } else if (number && *number >= 1 && !is_share) {
      if (!part) part = Part{.rows = std::int64_t(*number), .tokens_per_row = {}, .text = name, .rows_of = {}};
      part->rows = std::int64_t(*number);
    }
    if (!part) notes_.push_back(fmt::format("{}: how many rows it has is not known here: --rows, --lengths", name));
    return part;
  }

  /// "ultrachat_200k@train_sft": the rows that the table has are those of a training split; others add few to them.
  std::optional<Part> part_of_split(const std::string& name) {
    const std::size_t mark = name.rfind('@');
    const NamedData* const set = mark == std::string::npos ? nullptr : find_named_data(name.substr(0, mark));
    if (!set) return {};
    if (to_lower(name.substr(mark + 1)).starts_with("train")) return part_of(*set);
    notes_.push_back(fmt::format("{}: how many rows this split has is not known here, and they are not counted", name));
    return Part{.rows = 0, .tokens_per_row = 0.0, .text = {}, .rows_of = {}};
  }

  static Part part_of(const NamedData& set) {
    Part part{.rows = set.rows, .tokens_per_row = {}, .text = {}, .rows_of = {}};
    if (set.tokens > 0) part.tokens_per_row = double(set.tokens) / double(set.rows);
    if (set.tokens_per_row > 0) part.tokens_per_row = set.tokens_per_row;
    part.prompt = double(set.prompt_tokens) / double(set.rows);
    part.text = part.tokens_per_row ? fmt::format("{} ({}; tokens by {})", set.name, set.source, set.tokenizer)
                                    : fmt::format("{} ({}; tokens not counted here)", set.name, set.source);
    return part;
  }

  std::optional<fs::path> path_of(const std::string& name) const {
    if (!reading_.folder.empty())
      if (auto path = find_(in_script_folder(reading_.folder, name), reading_.file)) return path;
    if (auto path = find_(name, reading_.file)) return path;
    const std::string folder = reading_.setup.data_folder.value_or("data");
    const auto list = find_(folder + "/dataset_info.json", reading_.file);
    if (!list) return {};
    const json sets = read_json_file(*list);
    if (!sets.is_object() || !sets.contains(name) || !sets[name].is_object()) return {};
    const json& set = sets[name];
    if (!set.contains("file_name") || !set["file_name"].is_string()) return {};
    const fs::path beside = list->parent_path() / set["file_name"].get<std::string>();
    return is_file(beside) ? std::optional(beside) : std::nullopt;
  }

  std::optional<Part> read_file_of(const std::string& name) {
    const auto path = path_of(name);
    if (!path || !is_file(*path)) return {};
    const auto counted = count_rows(*path);
    if (!counted) {
      notes_.push_back(fmt::format("{}: its rows are not counted, as only JSON lines, JSON and CSV are read: --rows",
                                   path->filename().string()));
      return {};
    }
    if (counted->rows == 0) throw InputError(path->string(), "has no row");
    const RowsRead read = rows_read(*counted, recipe_);
    return Part{.rows = counted->rows,
                .tokens_per_row = std::max(1.0, read.tokens),
                .text = fmt::format("{} ({}tokens by its words and signs, about; --tokens-per-row says them)",
                                    path->filename().string(), read.rows_per_pair > 1 ? "two of each pair; " : ""),
                .rows_per_pair = read.rows_per_pair,
                .rows_of = *read.lengths};
  }

  const ConfigReading& reading_;
  const FindPath& find_;
  const Recipe& recipe_;
  std::vector<std::string>& notes_;
};

/// Ranks that get rows of their own.
std::int64_t replicas(const EstimateRequest& r) {
  return r.strategy == "single" || r.strategy == "mp" ? 1 : std::max<std::int64_t>(1, r.cluster.num_gpus());
}

/// Sequences of an optimizer step; where GPUs are still looked for, as the files say it.
std::int64_t sequences_per_step(const Setup& setup, const EstimateRequest& r) {
  const std::int64_t per_rank = r.recipe.micro_batch * r.recipe.grad_accum;
  if (r.cluster.gpus.empty()) return setup.global_batch.value_or(per_rank * setup.num_processes.value_or(1));
  return per_rank * replicas(r);
}

/// A number of steps, or of generations, ends the training before the epochs do. A row is a prompt, which is trained on
/// with all its answers, as often as the trainer says.
bool settle_steps(const Setup& setup, EstimateRequest& r, std::string& words, std::vector<std::string>& notes) {
  if (const std::int64_t answers = setup.total_answers.value_or(0); answers > 0 && generates(r.recipe)) {
    r.dataset.rows = std::max<std::int64_t>(1, answers / answers_of_row(r));
    r.dataset.epochs = 1;
    notes.push_back(fmt::format("{} answers in all, as the files say, whatever the epochs", format_grouped(answers)));
    return true;
  }
  const std::int64_t rounds = setup.max_rounds.value_or(0), steps = rounds > 0 ? rounds : setup.max_steps.value_or(0);
  if (steps < 1) return false;
  const bool is_round = rounds > 0 && generates(r.recipe);
  const std::int64_t of_a_row = answers_of_row(r) * (generates(r.recipe) && !is_round ? r.rollout.iterations : 1);
  const std::int64_t per_step = is_round
                                    ? setup.generation_batch.value_or(sequences_per_step(setup, r) * r.rollout.updates)
                                    : sequences_per_step(setup, r);
  if (r.recipe.packing == Packing::Packed) r.dataset.tokens_per_row = 0;
  r.dataset.rows = std::max<std::int64_t>(1, ceil_div(steps * per_step, of_a_row));
  r.dataset.epochs = 1;
  words = fmt::format("{} {} of {} sequences", format_grouped(steps), is_round ? "generations" : "steps",
                      format_grouped(per_step));
  notes.push_back(fmt::format("{} by {}, whatever the epochs", words,
                              is_round ? "the number of the trainer's steps" : "max_steps"));
  return true;
}

/// A number of steps ends each epoch before its rows do; says whether it does.
bool end_epochs(const Setup& setup, EstimateRequest& r, std::vector<std::string>& notes) {
  const std::int64_t steps = setup.epoch_steps.value_or(0), per_step = sequences_per_step(setup, r);
  if (steps < 1 || generates(r.recipe)) return false;
  const bool is_packed = r.recipe.packing == Packing::Packed && r.dataset.tokens_per_row > 0;
  const double sequences =
      double(r.dataset.rows) * (is_packed ? double(r.dataset.tokens_per_row) / double(r.recipe.seq_len) : 1);
  if (sequences <= double(steps) * double(per_step)) return false;
  if (r.recipe.packing == Packing::Packed) r.dataset.tokens_per_row = 0;
  r.dataset.rows = steps * per_step;
  notes.push_back(fmt::format("{} steps of {} sequences in each epoch, as the file says, whatever the rows",
                              format_grouped(steps), format_grouped(per_step)));
  return true;
}

/// Takes the prompts' mean length of sets whose prompts were counted, where neither files nor flags say it.
void settle_prompts(const Setup& setup, const std::vector<Part>& parts, EstimateRequest& r,
                    std::vector<std::string>& notes) {
  if (!generates(r.recipe) || setup.mean_prompt || r.rollout.mean_prompt > 0) return;
  double tokens = 0, rows = 0;
  for (const Part& part : parts) {
    if (part.rows > 0 && part.prompt <= 0) return;
    tokens += double(part.rows) * part.prompt;
    rows += double(part.rows);
  }
  const std::int64_t mean = std::max<std::int64_t>(1, std::llround(tokens / rows));
  if (r.rollout.prompt_len > 0 && mean > r.rollout.prompt_len) return;
  r.rollout.mean_prompt = mean;
  notes.push_back(fmt::format(
      "a prompt has {} tokens on average, by those of the set without a chat template: --prompt-len", mean));
}

/// Rows of a set that are kept from the training, to evaluate it by: a share is rounded up, as train_test_split of
/// datasets does (huggingface/datasets src/datasets/arrow_dataset.py). One row at least is trained on.
std::int64_t held_out(const Setup& setup, std::int64_t rows) {
  const double held = setup.held_out.value_or(0);
  const bool is_never_read = setup.evaluates_held_out.value_or(false) && setup.evaluates == false;
  if (held <= 0 || rows <= 1 || is_never_read) return 0;
  const double number = held < 1 ? std::ceil(held * double(rows)) : std::floor(held);
  return std::clamp<std::int64_t>(std::int64_t(std::min(number, double(rows))), 0, rows - 1);
}

std::string held_words(std::int64_t rows) {
  return rows > 0 ? fmt::format("; {} more are held out for evaluation", format_grouped(rows)) : "";
}

}  // namespace

std::span<const NamedData> named_data() { return read_once<read_named_data>(); }

const NamedData* named_by_folder(const std::string& path) {
  const std::size_t end = path.find_last_of('/');
  if (end == std::string::npos || end == 0) return nullptr;
  const std::string file = to_lower(path.substr(end + 1));
  if (file.substr(0, file.find('.')) != "train") return nullptr;
  const std::size_t begin = path.find_last_of('/', end - 1);
  return find_named_data(begin == std::string::npos ? path.substr(0, end) : path.substr(begin + 1, end - begin - 1));
}

const NamedData* find_named_data(const std::string& name) {
  const std::string wanted = to_lower(name);
  const auto is_it = [&](const NamedData& set) {
    return to_lower(set.name) == wanted ||
           std::ranges::any_of(set.also, [&](const std::string& other) { return to_lower(other) == wanted; });
  };
  const auto sets = named_data();
  const auto found = std::ranges::find_if(sets, is_it);
  return found == sets.end() ? nullptr : &*found;
}

void bound_sequences(EstimateRequest& request, const RowLengths& rows, std::vector<std::string>& notes) {
  Recipe& recipe = request.recipe;
  if (rows.rows_of.empty() || recipe.packing != Packing::Dynamic || generates(recipe)) return;
  if (request.model.vision.is_present() || recipe.attention_groups > 1) return;
  const std::int64_t longest = std::max(rows.at_most(), recipe.objective.completion_len);
  if (longest >= recipe.seq_len) return;
  notes.push_back(
      fmt::format("memory is counted for {} tokens and not for the {} that a sequence may have: batches are "
                  "padded to their longest row, and the longest of all has {}{}",
                  format_grouped(longest), format_grouped(recipe.seq_len), rows.is_about ? "about " : "",
                  format_grouped(rows.longest())));
  recipe.seq_len = longest;
}

SettledData settle_data(const ConfigReading& reading, const FindPath& find, GivenData given, EstimateRequest& request,
                        std::vector<std::string>& notes) {
  if (given.rows && given.tokens_per_row) return {.has_rows = true, .words = {}, .lengths = {}};
  SettledData out;
  const Setup& setup = reading.setup;
  const Dataset asked = request.dataset;
  std::vector<Part> parts;
  const bool has_sets = setup.data_sets && !setup.data_sets->empty();
  const bool knows_all = has_sets && DataReader(reading, find, request.recipe, notes).read(parts) &&
                         std::ranges::any_of(parts, [](const Part& part) { return part.rows > 0; });
  const std::int64_t most = setup.max_samples.value_or(0);
  if (knows_all) {
    double tokens = 0;
    std::int64_t rows = 0;
    std::vector<std::string> texts;
    bool has_tokens = true;
    for (const Part& part : parts) {
      if (part.rows == 0) continue;
      const std::int64_t taken = (most > 0 ? std::min(most, part.rows) : part.rows) * part.rows_per_pair;
      rows += taken;
      has_tokens = has_tokens && part.tokens_per_row.has_value();
      tokens += double(taken) * part.tokens_per_row.value_or(0);
      texts.push_back(part.text);
      for (const auto& [length, count] : part.rows_of) out.lengths.rows_of[length] += count;
    }
    out.lengths.is_about = true;
    if (given.tokens_per_row || std::ranges::any_of(parts, [](const Part& part) { return part.rows_of.empty(); }))
      out.lengths = {};
    settle_prompts(setup, parts, request, notes);
    const std::int64_t kept = rows - held_out(setup, rows);
    request.dataset.rows = kept;
    if (has_tokens) request.dataset.tokens_per_row = std::max<std::int64_t>(1, std::llround(tokens / double(rows)));
    notes.push_back(
        fmt::format("{} rows of {}{}", format_grouped(kept), fmt::join(texts, " and "), held_words(rows - kept)));
  } else if (most > 0) {  // a limit, which says nothing of how many there are
    const std::int64_t rows = std::min(most, asked.rows);
    request.dataset.rows = rows - held_out(setup, rows);
    notes.push_back(fmt::format("at most {} rows by max_samples, and how many there are is not known: {} are assumed{}",
                                format_grouped(most), format_grouped(request.dataset.rows),
                                held_words(rows - request.dataset.rows)));
  }
  const bool has_steps =
      !given.rows && (settle_steps(setup, request, out.words, notes) || end_epochs(setup, request, notes));
  if (given.rows) request.dataset.rows = asked.rows;
  const bool fills_packs = has_steps && request.recipe.packing == Packing::Packed;
  if (given.tokens_per_row && !fills_packs) request.dataset.tokens_per_row = asked.tokens_per_row;
  out.has_rows = given.rows || knows_all || has_steps;
  return out;
}

}  // namespace gpuplan
