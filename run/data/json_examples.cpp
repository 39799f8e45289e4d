#include "run/data/json_examples.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "device/device.h"
#include "run/data/json_rows.h"
#include "run/data/token_blocks.h"

namespace gpuplan {
namespace {

class Packed : public Examples {
 public:
  explicit Packed(const DataOptions& options) : rows_(options), seq_len_(options.seq_len) {
    ends_.reserve(std::size_t(rows_.size()));
    for (std::int64_t row = 0; row < rows_.size(); ++row)
      ends_.push_back(num_tokens() + std::ssize(rows_.read(row).ids));
    if (num_tokens() < seq_len_) refuse_short(rows_.path(), num_tokens(), seq_len_);
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

  std::string describe() const override {
    return fmt::format("{}: {} examples, {} tokens, {} blocks of {}", rows_.file_name(), format_grouped(rows_.size()),
                       format_grouped(num_tokens()), format_grouped(size()), format_grouped(seq_len_));
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
  std::vector<std::int64_t> ends_;  // tokens up to and with each row
  mutable std::mutex mutex_;
  mutable std::int64_t last_row_ = -1;
  mutable std::shared_ptr<const TokenRow> last_;
};

class Padded : public Examples {
 public:
  /// Reads every row once: a bad one is told before training, not after hours of it.
  explicit Padded(const DataOptions& options) : rows_(options), seq_len_(options.seq_len) {
    for (std::int64_t row = 0; row < rows_.size(); ++row) rows_.read(row);
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

  std::string describe() const override {
    return fmt::format("{}: {} examples, each padded or cut to {} tokens", rows_.file_name(), format_grouped(size()),
                       format_grouped(seq_len_));
  }

 private:
  JsonRows rows_;
  std::int64_t seq_len_;
};

}  // namespace

std::unique_ptr<Examples> make_packed(const DataOptions& options) { return std::make_unique<Packed>(options); }
std::unique_ptr<Examples> make_padded(const DataOptions& options) { return std::make_unique<Padded>(options); }

}  // namespace gpuplan
