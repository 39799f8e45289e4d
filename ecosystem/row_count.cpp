#include "ecosystem/row_count.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/names.h"
#include "models/framework.h"
#include "models/training_method.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

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

/// Tokens of the parts of a preference row.
struct AnswerTokens {
  double chosen = 0, rejected = 0, rest = 0;
  std::int64_t messages = 0;  // objects in the chosen answer

  /// The prompt with one answer. Chosen answers that are conversations hold the prompt; where only the rejected one has
  /// a key of its own, the rest is the conversation with the other.
  double with(double answer) const { return chosen == 0 ? rest : answer + (messages > 1 ? 0 : rest); }
};

void count_length(RowsOf& rows_of, double tokens) { ++rows_of[std::max<std::int64_t>(1, std::llround(tokens))]; }

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
      if (c != ',' && c != '\n' && depth_ > 0 && --depth_ == 0) end_row();
    } else if (c == '{' || (c == '[' && depth_ > 0)) {  // a list of rows is no level
      ++depth_;
      if (c == '{' && depth_ > 1 && part_ == &parts_.chosen) ++parts_.messages;
    }
  }
  double tokens() const { return tokens_ + last_; }

  double tokens_per_answer() const { return tokens_per_answer_; }
  const RowsOf& rows_of() const { return rows_of_; }
  const RowsOf& longer_of() const { return longer_of_; }
  const RowsOf& answers_of() const { return answers_of_; }

 private:
  void begin_field() {
    part_ = word_.starts_with("chosen")     ? &parts_.chosen
            : word_.starts_with("rejected") ? &parts_.rejected
                                            : &parts_.rest;
  }
  void end_row() {
    const double all = parts_.chosen + parts_.rejected + parts_.rest;
    count_length(rows_of_, all);
    if (parts_.rejected > 0) {
      for (const double answer : {parts_.chosen, parts_.rejected}) {
        tokens_per_answer_ += parts_.with(answer) / 2;
        count_length(answers_of_, parts_.with(answer));
      }
      count_length(longer_of_, parts_.with(std::max(parts_.chosen, parts_.rejected)));
    }
    parts_ = {};
    part_ = &parts_.rest;
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
  AnswerTokens parts_;            // of the row that goes by
  RowsOf rows_of_, longer_of_, answers_of_;
  double tokens_per_answer_ = 0;
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
  RowsOf rows_of() {
    if (is_csv_ && has_text_) end_line();
    return is_csv_ ? csv_rows_of_ : json_.rows_of();
  }
  RowsOf longer_of() const { return is_csv_ ? RowsOf{} : json_.longer_of(); }
  RowsOf answers_of() const { return is_csv_ ? RowsOf{} : json_.answers_of(); }

  std::int64_t rows() const {
    if (is_list_) return depth_ == 0 && has_item_ ? rows_ + 1 : rows_;
    const std::int64_t last = has_text_ ? 1 : 0;  // a line without an end
    return is_csv_ ? std::max<std::int64_t>(0, rows_ + last - 1) : rows_ + last;
  }

 private:
  void end_line() {
    rows_ += has_text_ ? 1 : 0;
    if (is_csv_ && has_text_ && rows_ > 1) count_length(csv_rows_of_, text_.tokens() - tokens_before_);
    tokens_before_ = text_.tokens();
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
  double tokens_before_ = 0;  // the line of CSV that goes by
  RowsOf csv_rows_of_;
  bool is_csv_, has_begun_ = false, is_list_ = false, is_quoted_ = false, is_escaped_ = false;
  bool has_text_ = false, has_item_ = false;
  int depth_ = 0;
  std::int64_t rows_ = 0;
};

bool is_local_format(const std::string& ending) {
  return ending == ".json" || ending == ".jsonl" || ending == ".ndjson" || ending == ".csv";
}

}  // namespace

std::int64_t RowLengths::at_most() const {
  constexpr std::int64_t kTenth = 10;
  if (rows_of.empty()) return 0;
  const std::int64_t tokens = is_about ? longest() + longest() / kTenth + kTemplateTokens : longest();
  return (tokens + kPaddedTo - 1) / kPaddedTo * kPaddedTo;
}

std::int64_t RowLengths::num_longer_than(std::int64_t tokens) const {
  std::int64_t rows = 0;
  for (auto row = rows_of.upper_bound(tokens); row != rows_of.end(); ++row) rows += row->second;
  return rows;
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
  return CountedRows{.rows = counter.rows(),
                     .tokens = counter.tokens(),
                     .tokens_per_answer = counter.tokens_per_answer(),
                     .rows_of = counter.rows_of(),
                     .longer_of = counter.longer_of(),
                     .answers_of = counter.answers_of()};
}

RowsRead rows_read(const CountedRows& counted, const Recipe& recipe) {
  const double rows = double(counted.rows);
  const RowsRead whole{.tokens = counted.tokens / rows, .lengths = &counted.rows_of};
  if (counted.longer_of.empty()) return whole;
  const double per_answer = counted.tokens_per_answer / rows;
  if (recipe.objective.answers() > 1) return {.are_pairs = true, .tokens = per_answer, .lengths = &counted.longer_of};
  const std::vector<std::string>& unpairs = recipe.framework->preference.unpairs;
  if (std::ranges::find(unpairs, recipe.objective.method->like) == unpairs.end()) return whole;
  return {.rows_per_pair = 2, .tokens = per_answer, .lengths = &counted.answers_of};
}

}  // namespace gpuplan
