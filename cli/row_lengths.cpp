#include "cli/row_lengths.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "rows/json_rows.h"
#include "search/on_cores.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

/// --tokenizer, or the folder of the model.
fs::path tokenizer_folder(const CLI::App& app, const ModelSpec& model) {
  std::error_code none;
  if (const auto named = given(app, "--tokenizer")) {
    const fs::path path = *named;
    if (is_folder(path)) return path;
    if (path.filename() == "tokenizer.model" && is_file(path)) return path.parent_path();
    throw InputError("--tokenizer", fmt::format("'{}' is neither a folder nor a tokenizer.model", *named),
                     "the folder of the model, with its tokenizer.model");
  }
  const fs::path source = model.source;
  return source.filename() == "config.json" ? source.parent_path() : source;
}

void refuse_without_rows(const std::string& file) {
  const std::string extension = to_lower(fs::path(file).extension().string());
  if (extension != ".bin" && extension != ".npy") return;
  throw InputError(file, "holds tokens without rows, which are cut into full sequences",
                   "give --rows N and --seq-len S with N x S tokens, or the JSON lines that it was made of");
}

/// Every row as `run --data` reads it, on all cores.
Lengths count_tokens(const JsonRows& rows, const std::string& file) {
  const std::size_t num_threads = num_threads_for(0, std::size_t(rows.size()) / 64 + 1);
  std::vector<std::map<std::int64_t, std::int64_t>> counted(num_threads);
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> stops{false};
  on_cores(
      num_threads,
      [&](std::size_t thread) {
        constexpr std::int64_t kPiece = 32;
        for (std::int64_t first = next.fetch_add(kPiece); first < rows.size() && !stops; first = next.fetch_add(kPiece))
          for (std::int64_t row = first; row < std::min(rows.size(), first + kPiece); ++row)
            ++counted[thread][std::int64_t(rows.read(row).ids.size())];
      },
      [&] { stops = true; });
  std::map<std::int64_t, std::int64_t> all;
  for (const auto& part : counted)
    for (const auto& [length, count] : part)
      if (length > 0) all[length] += count;
  if (all.empty()) throw InputError(file, "has no row with a token", "rows of input_ids or text that are not empty");
  return make_lengths(std::move(all));
}

}  // namespace

void add_row_flags(CLI::App& app) {
  const char* const kRows = "Rows of the data";
  add_flag(app, "--lengths", "FILE",
           "a length in tokens per line, a length and a count, or JSON lines with input_ids: what packing gains, what "
           "the longest row needs",
           kRows);
  add_flag(app, "--data", "FILE",
           "the same from the data itself: JSON lines with input_ids, or with text and the tokenizer.model of --model",
           kRows);
  add_flag(app, "--tokenizer", "DIR", "where the tokenizer.model for --data is. Default: the folder of --model", kRows);
}

std::optional<GivenRows> take_rows(const CLI::App& app, EstimateRequest& request, bool says_seq_len) {
  const auto lengths = given(app, "--lengths"), data = given(app, "--data");
  if (lengths && data) throw InputError("", "--lengths and --data contradict each other", "give one of them");
  if (is_given(app, "--tokenizer") && !data)
    throw InputError("--tokenizer", "is for the text of --data", "add --data train.jsonl");
  if (!lengths && !data) return {};
  for (const char* flag : {"--rows", "--tokens-per-row", "--tokens"})
    if (is_given(app, flag))
      throw InputError("", fmt::format("{} and {} contradict each other", lengths ? "--lengths" : "--data", flag),
                       "the file says both");
  GivenRows out;
  if (lengths) {
    out = {.lengths = read_lengths(*lengths), .source = *lengths};
  } else {
    refuse_without_rows(*data);
    const std::int64_t vocabulary = request.model.vocab_size > 0
                                        ? request.model.vocab_size
                                        : std::int64_t(std::numeric_limits<std::int32_t>::max());
    const JsonRows rows({.file = *data,
                         .tokenizer_folder = tokenizer_folder(app, request.model),
                         .token_dtype = {},
                         .vocab_size = vocabulary});
    out = {.lengths = count_tokens(rows, *data), .source = *data};
  }
  request.dataset.rows = out.lengths.num_rows;
  request.dataset.tokens_per_row = std::max<std::int64_t>(1, std::llround(out.lengths.mean));
  out.sets_seq_len = !says_seq_len && !is_given(app, "--seq-len");
  if (out.sets_seq_len) request.recipe.seq_len = out.lengths.longest;
  return out;
}

}  // namespace gpuplan
