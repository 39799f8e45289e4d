#include "run/data/token_blocks.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "device/device.h"

namespace gpuplan {
namespace {

// Tokens that are looked at before training: a file of another vocabulary or dtype shows at its beginning as a rule,
// and the rest, which may be 10 GB, is checked when it is read.
constexpr std::int64_t kCheckedAtOnce = std::int64_t(1) << 18;

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

}  // namespace

void shift_labels(std::span<std::int32_t> labels) {
  std::shift_left(labels.begin(), labels.end(), 1);
  labels.back() = kIgnoredLabel;
}

void refuse_short(const std::string& file, std::int64_t num_tokens, std::int64_t seq_len) {
  throw InputError(
      file,
      fmt::format("holds {} tokens, less than one block of {}", format_grouped(num_tokens), format_grouped(seq_len)),
      "give more data or a smaller --seq-len");
}

std::unique_ptr<Examples> make_token_blocks(TokenArray tokens, const DataOptions& options) {
  if (tokens.row_tokens != 0 && tokens.row_tokens != options.seq_len)
    throw InputError(
        tokens.file,
        fmt::format("has rows of {} tokens, but the sequence length is {}", tokens.row_tokens, options.seq_len),
        fmt::format("give --seq-len {}, or a 1-D array", tokens.row_tokens));
  if (tokens.num_tokens < options.seq_len) refuse_short(tokens.file, tokens.num_tokens, options.seq_len);
  return std::make_unique<TokenBlocks>(std::move(tokens), options);
}

}  // namespace gpuplan
