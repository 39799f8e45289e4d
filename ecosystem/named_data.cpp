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
    f.optional("tokens_per_row", set.tokens_per_row, NumberRange{1, 1e6});
    f.optional("tokenizer", set.tokenizer);
    set.source = f.text("source");
    f.refuse_unknown();
  }
  file.top().refuse_unknown();
  file.finish();
  return sets;
}

/// Says how many tokens a text is, about, while its bytes of UTF-8 go by: by the words, numbers and signs that a
/// tokenizer of byte pairs cuts it into first. Ten of the fifteen counted sets of data/datasets.yaml come out within 4
/// %, two within 7 %; three hold descriptions of tools, which their count leaves out.
class TextTokens {
 public:
  void add(unsigned char byte) {
    if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z')
      add_letter();
    else if (byte >= '0' && byte <= '9')
      add_digit();
    else if (byte == ' ' || byte == '\t')
      tokens_ += extend(Run::Space) == 2 ? 1 : 0;  // the last one is part of the next word
    else if (byte == '\n' || byte == '\r')
      add_break();
    else if (byte < 0x80)
      add_sign();
    else
      add_other(byte);
  }
  double tokens() const { return tokens_; }

 private:
  enum class Run : std::uint8_t { None, Letter, Digit, Space, Break, Sign, Wide };

  /// The length of the run that the byte begins or goes on with.
  int extend(Run run) {
    length_ = run == run_ ? length_ + 1 : 1;
    run_ = run;
    return length_;
  }
  void add_letter() {
    constexpr int kShort = 6, kLong = 20;
    constexpr double kPerLetter = 0.075, kPerLetterOfLong = 0.3;
    const bool has_sign = run_ == Run::Sign && length_ == 1 && before_sign_ != Run::Space;  // "(a", "'s"
    const int length = extend(Run::Letter);
    tokens_ += length == 1        ? (has_sign ? 0 : 1)
               : length <= kShort ? 0
               : length <= kLong  ? kPerLetter
                                  : kPerLetterOfLong;
  }
  void add_digit() {
    constexpr int kPerToken = 3;
    tokens_ += run_ == Run::Space ? 1 : 0;  // which is no part of a number
    tokens_ += extend(Run::Digit) % kPerToken == 1 ? 1 : 0;
  }
  void add_break() {
    const bool has_sign = run_ == Run::Sign;
    tokens_ += extend(Run::Break) == 1 && !has_sign ? 1 : 0;
  }
  void add_sign() {
    if (run_ != Run::Sign) before_sign_ = run_;
    tokens_ += extend(Run::Sign) == 1 ? 1 : 0;
  }
  void add_other(unsigned char byte) {
    constexpr double kPerWide = 0.75, kPerByte = 0.4;
    const bool is_lead = byte >= 0xc0, is_wide = byte >= 0xe3 && byte <= 0xed;  // Chinese, Japanese, Korean
    if (is_lead) extend(is_wide ? Run::Wide : Run::None);
    tokens_ += run_ != Run::Wide ? kPerByte : is_lead ? kPerWide : 0;
  }

  Run run_ = Run::None, before_sign_ = Run::None;
  int length_ = 0;
  double tokens_ = 0;
};

/// Tokens of a preference row's parts, summed over rows.
struct AnswerTokens {
  double chosen = 0, rejected = 0, rest = 0;
  std::int64_t messages = 0, rows = 0;  // objects in chosen answers, and how many answers there are
};

/// The same of all texts in JSON but keys.
class JsonTokens {
 public:
  void add(char c) {
    if (is_quoted_) return add_quoted(c);
    if (c == '"') {
      is_quoted_ = true;
      text_ = {};
      word_.clear();
    } else if (c == ':') {
      last_ = 0;  // it was a key
      if (depth_ == 1) begin_field();
    } else if (c == ',' || c == '}' || c == ']' || c == '\n') {
      take_last();
      if (c != ',' && c != '\n' && depth_ > 0) --depth_;
    } else if (c == '{' || (c == '[' && depth_ > 0)) {  // a list of rows is no level
      ++depth_;
      if (c == '{' && depth_ > 1 && part_ == &parts_.chosen) ++parts_.messages;
    }
  }
  double tokens() const { return tokens_ + last_; }

  /// A prompt with one of its answers. Chosen answers that are conversations hold the prompt; where only the rejected
  /// one has a key of its own, the rest is the other conversation.
  double tokens_per_answer() const {
    if (parts_.rejected == 0) return 0;
    if (parts_.chosen == 0) return parts_.rest;
    constexpr double kConversation = 1.5;  // messages per answer
    const bool holds_prompt = double(parts_.messages) > kConversation * double(parts_.rows);
    return (parts_.chosen + parts_.rejected) / 2 + (holds_prompt ? 0 : parts_.rest);
  }

 private:
  void begin_field() {
    part_ = word_.starts_with("chosen")     ? &parts_.chosen
            : word_.starts_with("rejected") ? &parts_.rejected
                                            : &parts_.rest;
    if (part_ == &parts_.chosen) ++parts_.rows;
  }
  void take_last() {
    tokens_ += last_;
    *part_ += last_;
    last_ = 0;
  }
  void add_quoted(char c) {
    if (is_escaped_) return add_escaped(c);
    if (c == '\\') {
      is_escaped_ = true;
    } else if (c == '"') {
      is_quoted_ = false;
      last_ = text_.tokens();
    } else {
      constexpr std::size_t kLongestKey = 16;
      if (word_.size() < kLongestKey) word_ += c;
      text_.add(static_cast<unsigned char>(c));
    }
  }
  void add_escaped(char c) {
    if (c == 'u' && num_digits_ == 0) {
      num_digits_ = 4, code_ = 0;
      return;
    }
    if (num_digits_ == 0) {
      text_.add(static_cast<unsigned char>(c == 'n' || c == 'r' ? '\n' : c == 't' ? '\t' : c));
    } else {
      code_ = code_ * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
      if (--num_digits_ > 0) return;
      add_code();
    }
    is_escaped_ = false;
  }
  /// Bytes of UTF-8 of the same kind.
  void add_code() {
    if (code_ < 0x80) return text_.add(static_cast<unsigned char>(code_));
    const bool is_wide = code_ >= 0x3000 && code_ < 0xd800;
    text_.add(is_wide ? 0xe4 : 0xc3);
    text_.add(0x80);
  }

  TextTokens text_;
  std::string word_;              // how the last text begins
  double tokens_ = 0, last_ = 0;  // of the last text, which may be a key
  AnswerTokens parts_;
  double* part_ = &parts_.rest;
  int depth_ = 0;  // 1: in a row
  bool is_quoted_ = false, is_escaped_ = false;
  int num_digits_ = 0, code_ = 0;  // of \u
};

/// Counts the rows of one format while the bytes of a file go by.
class RowCounter {
 public:
  explicit RowCounter(bool is_csv) : is_csv_(is_csv) {}

  void add(std::string_view piece) {
    for (const char c : piece) {
      is_csv_ ? add_csv(c) : add_json(c);
      is_csv_ ? text_.add(static_cast<unsigned char>(c)) : json_.add(c);
    }
  }

  double tokens() const { return is_csv_ ? text_.tokens() : json_.tokens(); }
  double tokens_per_answer() const { return is_csv_ ? 0 : json_.tokens_per_answer(); }

  std::int64_t rows() const {
    if (is_list_) return depth_ == 0 && has_item_ ? rows_ + 1 : rows_;
    const std::int64_t last = has_text_ ? 1 : 0;  // a line without an end
    return is_csv_ ? std::max<std::int64_t>(0, rows_ + last - 1) : rows_ + last;
  }

 private:
  void end_line() {
    rows_ += has_text_ ? 1 : 0;
    has_text_ = false;
  }

  void add_csv(char c) {
    if (c == '"') is_quoted_ = !is_quoted_;
    if (c == '\n' && !is_quoted_) return end_line();
    has_text_ = has_text_ || (c != '\r' && c != ' ');
  }

  void add_json(char c) {
    const bool is_space = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (!has_begun_ && !is_space) has_begun_ = true, is_list_ = c == '[';
    if (!is_list_) return c == '\n' ? end_line() : void(has_text_ = has_text_ || !is_space);
    if (is_quoted_) {
      if (is_escaped_)
        is_escaped_ = false;
      else if (c == '\\')
        is_escaped_ = true;
      else if (c == '"')
        is_quoted_ = false;
      return;
    }
    if (c == '"') is_quoted_ = true;
    if (c == ']' || c == '}') --depth_;
    if (depth_ == 1 && c == ',') ++rows_;
    if (depth_ >= 1 && !is_space && c != ']') has_item_ = true;
    if (c == '[' || c == '{') ++depth_;
  }

  TextTokens text_;
  JsonTokens json_;
  bool is_csv_, has_begun_ = false, is_list_ = false, is_quoted_ = false, is_escaped_ = false;
  bool has_text_ = false, has_item_ = false;
  int depth_ = 0;
  std::int64_t rows_ = 0;
};

bool is_local_format(const std::string& ending) {
  return ending == ".json" || ending == ".jsonl" || ending == ".ndjson" || ending == ".csv";
}

/// Holds what is known of one named set.
struct Part {
  std::int64_t rows{};
  std::optional<double> tokens_per_row;
  std::string text;
};

class DataReader {
 public:
  DataReader(const ConfigReading& reading, const FindPath& find, std::int64_t num_answers,
             std::vector<std::string>& notes)
      : reading_(reading),
        find_(find),
        num_answers_(num_answers),
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
  /// "alpaca#500" is 500 rows of it.
  std::optional<Part> read_set(const std::string& given) {
    const std::size_t mark = given.rfind('#');
    const std::string named = given.substr(0, mark);
    std::string name = named.starts_with("HF::") || named.starts_with("MS::") ? named.substr(4) : named;
    std::optional<Part> part = read_file_of(name);
    if (!part)
      if (const NamedData* set = find_named_data(name)) part = part_of(*set);
    const auto number = mark == std::string::npos ? std::nullopt : as_number(given.substr(mark + 1));
    if (number && *number >= 1) {
      if (!part) part = Part{.rows = std::int64_t(*number), .tokens_per_row = {}, .text = name};
      part->rows = std::int64_t(*number);
    }
    if (!part) notes_.push_back(fmt::format("{}: how many rows it has is not known here: --rows, --lengths", name));
    return part;
  }

  static Part part_of(const NamedData& set) {
    Part part{.rows = set.rows, .tokens_per_row = {}, .text = {}};
    if (set.tokens > 0) part.tokens_per_row = double(set.tokens) / double(set.rows);
    if (set.tokens_per_row > 0) part.tokens_per_row = set.tokens_per_row;
    part.text = part.tokens_per_row ? fmt::format("{} ({}; tokens by {})", set.name, set.source, set.tokenizer)
                                    : fmt::format("{} ({}; tokens not counted here)", set.name, set.source);
    return part;
  }

  std::optional<fs::path> path_of(const std::string& name) const {
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
    const double tokens =
        num_answers_ > 1 && counted->tokens_per_answer > 0 ? counted->tokens_per_answer : counted->tokens;
    return Part{.rows = counted->rows,
                .tokens_per_row = std::max(1.0, tokens / double(counted->rows)),
                .text = fmt::format("{} (tokens by its words and signs, about; --tokens-per-row says them)",
                                    path->filename().string())};
  }

  const ConfigReading& reading_;
  const FindPath& find_;
  std::int64_t num_answers_;  // to a prompt
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
bool settle_steps(const Setup& setup, EstimateRequest& r, std::vector<std::string>& notes) {
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
  notes.push_back(fmt::format("{} {} of {} sequences by {}, whatever the epochs", format_grouped(steps),
                              is_round ? "generations" : "steps", format_grouped(per_step),
                              is_round ? "the number of the trainer's steps" : "max_steps"));
  return true;
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

std::optional<CountedRows> count_rows(const fs::path& path) {
  const std::string ending = to_lower(path.extension().string());
  if (!is_local_format(ending)) return {};
  constexpr std::int64_t kPiece = std::int64_t(1) << 20;
  const InputFile file(path);
  RowCounter counter(ending == ".csv");
  for (std::int64_t begin = 0; begin < file.size(); begin += kPiece)
    counter.add(file.content() ? std::string_view(*file.content()).substr(std::size_t(begin), std::size_t(kPiece))
                               : std::string_view(file.read(begin, kPiece)));
  return CountedRows{
      .rows = counter.rows(), .tokens = counter.tokens(), .tokens_per_answer = counter.tokens_per_answer()};
}

bool settle_data(const ConfigReading& reading, const FindPath& find, GivenData given, EstimateRequest& request,
                 std::vector<std::string>& notes) {
  if (given.rows && given.tokens_per_row) return true;
  const Setup& setup = reading.setup;
  const Dataset asked = request.dataset;
  std::vector<Part> parts;
  const bool has_sets = setup.data_sets && !setup.data_sets->empty();
  const bool knows_all = has_sets && DataReader(reading, find, request.recipe.objective.answers(), notes).read(parts);
  const std::int64_t most = setup.max_samples.value_or(0);
  if (knows_all) {
    double tokens = 0;
    std::int64_t rows = 0;
    std::vector<std::string> texts;
    bool has_tokens = true;
    for (const Part& part : parts) {
      const std::int64_t taken = most > 0 ? std::min(most, part.rows) : part.rows;
      rows += taken;
      has_tokens = has_tokens && part.tokens_per_row.has_value();
      tokens += double(taken) * part.tokens_per_row.value_or(0);
      texts.push_back(part.text);
    }
    const std::int64_t kept = rows - held_out(setup, rows);
    request.dataset.rows = kept;
    if (has_tokens) request.dataset.tokens_per_row = std::max<std::int64_t>(1, std::llround(tokens / double(rows)));
    notes.push_back(
        fmt::format("{} rows of {}{}", format_grouped(kept), fmt::join(texts, " and "), held_words(rows - kept)));
  } else if (most > 0) {
    request.dataset.rows = most - held_out(setup, most);
    notes.push_back(fmt::format("{} rows, as many as max_samples lets in{}", format_grouped(request.dataset.rows),
                                held_words(most - request.dataset.rows)));
  }
  const bool has_steps = !given.rows && settle_steps(setup, request, notes);
  if (given.rows) request.dataset.rows = asked.rows;
  const bool fills_packs = has_steps && request.recipe.packing == Packing::Packed;
  if (given.tokens_per_row && !fills_packs) request.dataset.tokens_per_row = asked.tokens_per_row;
  return given.rows || knows_all || most > 0 || has_steps;
}

}  // namespace gpuplan
