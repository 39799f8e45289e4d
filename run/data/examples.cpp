#include "run/data/examples.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "base/narrow.h"
#include "base/random_bits.h"
#include "base/unit_text.h"
#include "device/device.h"
#include "models/training_method.h"
#include "rows/json_rows.h"
#include "run/data/token_array.h"

namespace gpuplan {
namespace {

/// "holds 100 tokens, less than one block of 256".
[[noreturn]] void refuse_short(const std::string& file, std::int64_t num_tokens, std::int64_t seq_len) {
  throw InputError(
      file,
      fmt::format("holds {} tokens, less than one block of {}", format_grouped(num_tokens), format_grouped(seq_len)),
      "give more data or a smaller --seq-len");
}

/// Rows whose labels all count for nothing.
struct UnlabelledRows {
  std::int64_t num_rows = 0, num_unlabelled = 0;

  /// Labels of a row that a loss may see.
  void add(std::span<const std::int32_t> labels) {
    ++num_rows;
    num_unlabelled += std::ranges::all_of(labels, [](std::int32_t label) { return label == kIgnoredLabel; });
  }
  /// Throws InputError where no row has a label. `where`: "within 256 tokens".
  void require_some(const std::string& file, std::string_view where) const {
    if (num_unlabelled == num_rows)
      throw InputError(
          file,
          fmt::format("none of its {} rows has a label{}: there is nothing to train", format_grouped(num_rows), where),
          "labels that are -100 count for nothing, as does the label of a row's first token");
  }
  std::string describe() const {
    return num_unlabelled == 0 ? ""
                               : fmt::format("; {} of {} rows have no label and train nothing",
                                             format_grouped(num_unlabelled), format_grouped(num_rows));
  }
};

// Tokens that are looked at before training: a file of another vocabulary or dtype shows at its beginning as a rule,
// and the rest, which may be 10 GB, is checked when it is read.
constexpr std::int64_t kCheckedAtOnce = std::int64_t(1) << 18;

/// Consecutive blocks of a token file: block i begins at token i S.
class TokenBlocks : public Examples {
 public:
  TokenBlocks(TokenArray tokens, const DataOptions& options)
      : tokens_(std::move(tokens)),
        seq_len_(options.seq_len),
        vocab_size_(options.vocab_size) {
    std::vector<std::int32_t> first(std::size_t(std::min(tokens_.num_tokens, kCheckedAtOnce)));
    tokens_.read(0, first, vocab_size_);
  }

  std::int64_t size() const override { return tokens_.num_tokens / seq_len_; }

  void read(std::int64_t index, std::span<std::int32_t> ids, std::span<std::int32_t> labels) const override {
    GPUPLAN_CHECK(0 <= index && index < size() && std::ssize(ids) == seq_len_ && std::ssize(labels) == seq_len_,
                  "one block is read");
    tokens_.read(index * seq_len_, ids, vocab_size_);
    std::ranges::copy(ids, labels.begin());
    shift_labels(labels);
  }

  std::string describe() const override {
    return fmt::format("{}: {} tokens of {}, {} blocks of {}", std::filesystem::path(tokens_.file).filename().string(),
                       format_grouped(tokens_.num_tokens), tokens_.format->name, format_grouped(size()),
                       format_grouped(seq_len_));
  }

 private:
  TokenArray tokens_;
  std::int64_t seq_len_, vocab_size_;
};

/// Throws InputError when there is not one whole block, or rows of another length than seq_len.
std::unique_ptr<Examples> make_token_blocks(TokenArray tokens, const DataOptions& options) {
  if (tokens.row_tokens != 0 && tokens.row_tokens != options.seq_len)
    throw InputError(
        tokens.file,
        fmt::format("has rows of {} tokens, but the sequence length is {}", tokens.row_tokens, options.seq_len),
        fmt::format("give --seq-len {}, or a 1-D array", tokens.row_tokens));
  if (tokens.num_tokens < options.seq_len) refuse_short(tokens.file, tokens.num_tokens, options.seq_len);
  return std::make_unique<TokenBlocks>(std::move(tokens), options);
}

/// JSON lines joined and cut in blocks. Counts the tokens of every line first (two passes over the file); 16 bytes of
/// memory for each line.
class Packed : public Examples {
 public:
  explicit Packed(const DataOptions& options) : rows_(options), seq_len_(options.seq_len) {
    constexpr auto kNone = std::numeric_limits<std::int64_t>::max();
    std::int64_t first_trained = kNone;  // of all tokens
    ends_.reserve(std::size_t(rows_.size()));
    for (std::int64_t row = 0; row < rows_.size(); ++row) {
      const TokenRow document = rows_.read(row);
      for (std::int64_t j = 0; first_trained == kNone && j < std::ssize(document.labels); ++j)
        if (document.labels[std::size_t(j)] != kIgnoredLabel && (num_tokens() + j) % seq_len_ != 0)
          first_trained = num_tokens() + j;  // nothing predicts the first token of a block
      ends_.push_back(num_tokens() + std::ssize(document.ids));
      unlabelled_.add(document.labels);
    }
    if (num_tokens() < seq_len_) refuse_short(rows_.path(), num_tokens(), seq_len_);
    unlabelled_.require_some(rows_.path(), "");
    if (first_trained >= size() * seq_len_)  // what fills no block is left out
      throw InputError(rows_.path(),
                       fmt::format("none of its {} blocks of {} tokens has a label: there is nothing to train",
                                   format_grouped(size()), format_grouped(seq_len_)),
                       "labels that are -100 count for nothing, as do that of a block's first token and those behind "
                       "the last whole block");
  }

  std::int64_t size() const override { return num_tokens() / seq_len_; }

  void read(std::int64_t index, std::span<std::int32_t> ids, std::span<std::int32_t> labels) const override {
    GPUPLAN_CHECK(0 <= index && index < size() && std::ssize(ids) == seq_len_ && std::ssize(labels) == seq_len_,
                  "one block is read");
    std::int64_t at = index * seq_len_;  // of all tokens
    auto row = std::ranges::upper_bound(ends_, at) - ends_.begin();
    for (std::int64_t filled = 0; filled < seq_len_; ++row) {
      const auto document = cached(row);
      const std::int64_t from = at - (row == 0 ? 0 : ends_[std::size_t(row) - 1]);
      const std::int64_t count = std::min(std::ssize(document->ids) - from, seq_len_ - filled);
      std::copy_n(document->ids.begin() + from, count, ids.begin() + filled);
      std::copy_n(document->labels.begin() + from, count, labels.begin() + filled);
      filled += count;
      at += count;
    }
    shift_labels(labels);
  }

  bool is_text() const override { return rows_.has_text(); }
  std::string describe() const override {
    return fmt::format("{}: {} examples, {} tokens, {} blocks of {}{}", rows_.file_name(), format_grouped(rows_.size()),
                       format_grouped(num_tokens()), format_grouped(size()), format_grouped(seq_len_),
                       unlabelled_.describe());
  }

 private:
  std::int64_t num_tokens() const { return ends_.empty() ? 0 : ends_.back(); }

  /// The row read last is kept: blocks that follow each other often share it.
  std::shared_ptr<const TokenRow> cached(std::int64_t row) const {
    {
      const std::lock_guard lock(mutex_);
      if (row == last_row_) return last_;
    }
    auto document = std::make_shared<const TokenRow>(rows_.read(row));
    const std::lock_guard lock(mutex_);
    last_row_ = row;
    return last_ = document;
  }

  JsonRows rows_;
  std::int64_t seq_len_;
  UnlabelledRows unlabelled_;
  std::vector<std::int64_t> ends_;  // tokens up to and with each row
  mutable std::mutex mutex_;
  mutable std::int64_t last_row_ = -1;
  mutable std::shared_ptr<const TokenRow> last_;
};

/// JSON lines, one a row.
class Padded : public Examples {
 public:
  /// Reads every row once: a bad one is told before training, not after hours of it.
  explicit Padded(const DataOptions& options) : rows_(options), seq_len_(options.seq_len) {
    for (std::int64_t row = 0; row < rows_.size(); ++row) {
      const TokenRow one = rows_.read(row);
      const auto kept = std::span(one.labels).first(std::size_t(std::min(std::ssize(one.labels), seq_len_)));
      unlabelled_.add(kept.subspan(std::min<std::size_t>(1, kept.size())));  // nothing predicts the first token
    }
    unlabelled_.require_some(rows_.path(), fmt::format(" within {} tokens", format_grouped(seq_len_)));
  }

  std::int64_t size() const override { return rows_.size(); }

  void read(std::int64_t index, std::span<std::int32_t> ids, std::span<std::int32_t> labels) const override {
    GPUPLAN_CHECK(std::ssize(ids) == seq_len_ && std::ssize(labels) == seq_len_, "one row is read");
    const TokenRow row = rows_.read(index);
    const std::int64_t count = std::min(std::ssize(row.ids), seq_len_);
    std::ranges::fill(ids, 0);  // behind all real tokens, which do not see it: any token does
    std::ranges::fill(labels, kIgnoredLabel);
    std::copy_n(row.ids.begin(), count, ids.begin());
    std::copy_n(row.labels.begin(), count, labels.begin());
    shift_labels(labels);
  }

  bool is_text() const override { return rows_.has_text(); }
  std::string describe() const override {
    return fmt::format("{}: {} examples, each padded or cut to {} tokens{}", rows_.file_name(), format_grouped(size()),
                       format_grouped(seq_len_), unlabelled_.describe());
  }

 private:
  JsonRows rows_;
  std::int64_t seq_len_;
  UnlabelledRows unlabelled_;
};

/// Rows of several answers, each a sequence of its own.
class Answers : public Examples {
 public:
  /// Reads every row once, as Padded does.
  explicit Answers(const DataOptions& options) : rows_(options), options_(options) {
    std::vector<std::int32_t> ids(narrow<std::size_t>(tokens())), labels(ids.size());
    for (std::int64_t row = 0; row < rows_.size(); ++row) {
      for (const TokenRow& one : rows_.read_answers(row)) {
        num_cut_ += std::ssize(one.ids) > options_.seq_len;
        num_with_old_ += !one.old.empty();
      }
      read(row, ids, labels);
      unlabelled_.add(labels);
    }
    unlabelled_.require_some(rows_.path(), fmt::format(" within {} tokens", format_grouped(options_.seq_len)));
    if (num_with_old_ != 0 && num_with_old_ != rows_.size())
      throw InputError(
          rows_.path(),
          fmt::format("{} of its {} rows have 'old_{}_logps'", num_with_old_, rows_.size(), options_.answers.front()),
          "all rows have them, or none: then they are the model's before each step");
  }

  std::int64_t size() const override { return rows_.size(); }

  void add_given(std::int64_t index, GivenFigures& to) const override {
    for (const TokenRow& answer : rows_.read_answers(index)) {
      if (options_.has_reference) add_losses(answer.reference, to.reference);
      if (num_with_old_ > 0) add_losses(answer.old, to.old);
      if (options_.has_advantages) to.advantages.push_back(float(answer.advantage));
    }
  }

  void read(std::int64_t index, std::span<std::int32_t> ids, std::span<std::int32_t> labels) const override {
    GPUPLAN_CHECK(std::ssize(ids) == tokens() && std::ssize(labels) == tokens(), "the answers of one row are read");
    const auto length = std::size_t(options_.seq_len);
    std::size_t at = 0;
    for (const TokenRow& answer : rows_.read_answers(index)) {
      read_answer(answer, ids.subspan(at, length), labels.subspan(at, length));
      at += length;
    }
  }

  bool is_text() const override { return rows_.has_text(); }
  std::string describe() const override {
    return fmt::format("{}: {} rows of {}, each padded or cut to {} tokens{}{}", rows_.file_name(),
                       format_grouped(size()), fmt::join(options_.answers, " and "), format_grouped(options_.seq_len),
                       num_cut_ == 0 ? "" : fmt::format("; {} answers are cut", format_grouped(num_cut_)),
                       unlabelled_.describe());
  }

 private:
  std::int64_t tokens() const { return options_.seq_len * std::ssize(options_.answers); }

  /// Losses stand where labels do: at the position that predicts the token.
  void add_losses(const std::vector<float>& log_probs, std::vector<float>& to) const {
    const auto begin = std::ssize(to);
    to.resize(to.size() + std::size_t(options_.seq_len), 0.0F);
    for (std::int64_t t = 1; t < std::min(std::ssize(log_probs), options_.seq_len); ++t)
      to[std::size_t(begin + t - 1)] = -log_probs[std::size_t(t)];
  }

  void read_answer(const TokenRow& answer, std::span<std::int32_t> ids, std::span<std::int32_t> labels) const {
    const auto count = std::min(answer.ids.size(), ids.size());
    std::ranges::fill(ids, 0);
    std::ranges::fill(labels, kIgnoredLabel);
    std::copy_n(answer.ids.begin(), count, ids.begin());
    if (options_.labels_end_alone) {
      labels[count - 1] = ids[count - 1];  // any label: its position counts
      return;
    }
    std::copy_n(answer.labels.begin(), count, labels.begin());
    shift_labels(labels);
  }

  JsonRows rows_;
  DataOptions options_;
  UnlabelledRows unlabelled_;
  std::int64_t num_cut_ = 0, num_with_old_ = 0;
};

using Opener = std::unique_ptr<Examples> (*)(const DataOptions&);

std::unique_ptr<Examples> open_json(const DataOptions& options) {
  if (!options.answers.empty()) return std::make_unique<Answers>(options);
  if (options.packing == Packing::Packed) return std::make_unique<Packed>(options);
  return std::make_unique<Padded>(options);
}

struct Format {
  std::string_view extension;
  Opener open;
};
constexpr std::array kFormats{
    Format{".bin", [](const DataOptions& options) { return make_token_blocks(open_bin(options), options); }},
    Format{".npy", [](const DataOptions& options) { return make_token_blocks(open_npy(options), options); }},
    Format{".jsonl", open_json}, Format{".ndjson", open_json}, Format{".json", open_json}};

constexpr std::uint64_t kRounds =
    6;  // four make a random-looking permutation (Luby and Rackoff 1988); small domains want more

/// A permutation of [0, 4^half_bits): each round xors one half with a keyed function of the other, and swaps them.
std::uint64_t feistel(std::uint64_t index, int half_bits, std::uint64_t key) {
  const std::uint64_t mask = (std::uint64_t(1) << half_bits) - 1;
  std::uint64_t left = index >> half_bits, right = index & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t next = left ^ (random_bits(right ^ random_bits(key + round)) & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

void ask_for_answers(DataOptions& options, const Recipe& recipe) {
  if (recipe.objective.method.is_usual()) return;
  const bool is_pair = recipe.objective.method->loss == MethodLoss::Pairs;
  options.answers = is_pair ? std::vector<std::string>{"chosen", "rejected"} : std::vector<std::string>{"completion"};
  options.labels_end_alone = has_own_head(recipe);
  options.has_advantages = options.has_token_log_probs = !is_pair;
  options.has_reference = reference_of(recipe) == Reference::Precomputed;
}

std::unique_ptr<Examples> open_examples(const DataOptions& options) {
  GPUPLAN_CHECK(options.seq_len > 0 && options.vocab_size > 0, "an example has a length, tokens a vocabulary");
  const std::string extension = to_lower(options.file.extension().string());
  const auto format = std::ranges::find(kFormats, extension, &Format::extension);
  if (format == kFormats.end())
    throw InputError(options.file.string(), "its name does not say what data it holds",
                     extension == ".gz" || extension == ".zst"
                         ? "unpack it first"
                         : "expected .bin or .npy (tokens), or .jsonl (tokens or text)");
  if (!options.answers.empty() && format->open != open_json)
    throw InputError(
        options.file.string(), "tokens without rows hold no answers to compare",
        fmt::format(R"(JSON lines: {{"prompt": ..., "{}": ...}})", fmt::join(options.answers, R"(": ..., ")")));
  return format->open(options);
}

void shift_labels(std::span<std::int32_t> labels) {
  std::shift_left(labels.begin(), labels.end(), 1);
  labels.back() = kIgnoredLabel;
}

std::int64_t SampleOrder::example_at(std::int64_t position) const {
  const std::int64_t epoch = position / num_examples;
  auto index = std::uint64_t(position % num_examples);
  if (!shuffles) return std::int64_t(index);
  // The smallest 4^h that holds all examples is less than four times as large; what falls outside walks on along its
  // cycle, which comes back inside because the index itself is inside.
  const int half_bits = int(std::bit_width(std::uint64_t(num_examples - 1)) + 1) / 2;
  if (half_bits == 0) return 0;
  const std::uint64_t key = random_bits(random_bits(seed) + std::uint64_t(epoch));
  do index = feistel(index, half_bits, key);
  while (index >= std::uint64_t(num_examples));
  return std::int64_t(index);
}

}  // namespace gpuplan
