#include "cli/row_lengths.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "ecosystem/row_count.h"
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

/// True where --data holds what `run --data` reads, so that its tokens are counted exactly.
bool reads_exactly(const CLI::App& app, const std::string& file, const fs::path& folder) {
  if (is_given(app, "--tokenizer")) return true;
  const InputFile input(file);
  constexpr std::int64_t kFirstLine = std::int64_t(1) << 20;
  const std::string text = input.read(0, std::min(input.size(), kFirstLine));
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || text[begin] != '{') return begin == std::string::npos;
  const auto row = nlohmann::json::parse(text.substr(begin, text.find('\n', begin) - begin), nullptr, false);
  if (!row.is_object()) return row.is_discarded() && text.size() < std::size_t(kFirstLine);
  return row.contains("input_ids") || (row.contains("text") && is_there(folder / "tokenizer.model"));
}

/// Rows of text of any trainer, by their words and signs; nullopt: there is no text in them.
std::optional<GivenRows> count_words(const std::string& file, EstimateRequest& request) {
  const auto counted = count_rows(file);
  if (!counted || counted->rows == 0 || counted->tokens <= 0) return {};
  const RowsRead read = rows_read(*counted, request.recipe);
  request.dataset.tokens_per_row = std::max<std::int64_t>(1, std::llround(read.tokens));
  const std::string_view of_pairs = read.are_pairs           ? "; of each pair the longer answer"
                                    : read.rows_per_pair > 1 ? "; the trainer makes two rows of each pair"
                                                             : "";
  return GivenRows{.lengths = make_lengths(*read.lengths),
                   .source = fmt::format("{} (tokens by its words and signs, about{})", file, of_pairs),
                   .is_about = true};
}

GivenRows with_mean(GivenRows rows, EstimateRequest& request) {
  request.dataset.tokens_per_row = std::max<std::int64_t>(1, std::llround(rows.lengths.mean));
  return rows;
}

GivenRows rows_of_data(const CLI::App& app, const std::string& file, EstimateRequest& request) {
  refuse_without_rows(file);
  const fs::path folder = tokenizer_folder(app, request.model);
  if (!reads_exactly(app, file, folder))
    if (auto rows = count_words(file, request)) return *rows;
  const std::int64_t vocabulary =
      request.model.vocab_size > 0 ? request.model.vocab_size : std::int64_t(std::numeric_limits<std::int32_t>::max());
  const JsonRows rows({.file = file, .tokenizer_folder = folder, .token_dtype = {}, .vocab_size = vocabulary});
  return with_mean({.lengths = count_tokens(rows, file), .source = file}, request);
}

}  // namespace

void add_row_flags(CLI::App& app) {
  const char* const kRows = "Rows of the data";
  add_flag(app, "--lengths", "FILE",
           "a length in tokens per line, a length and a count, or JSON lines with input_ids: what packing gains, what "
           "the longest row needs",
           kRows);
  add_flag(app, "--data", "FILE",
           "the same from the data itself: JSON lines with input_ids, or with text and the tokenizer.model of --model; "
           "other JSON, JSON lines and CSV (messages, prompt and answers) are counted by their words, about",
           kRows);
  add_flag(app, "--tokenizer", "DIR", "where the tokenizer.model for --data is. Default: the folder of --model", kRows);
}

std::optional<GivenRows> take_rows(const CLI::App& app, PlanQuestion& question, bool says_seq_len) {
  EstimateRequest& request = question.request;
  const auto lengths = given(app, "--lengths"), data = given(app, "--data");
  if (lengths && data) throw InputError("", "--lengths and --data contradict each other", "give one of them");
  if (is_given(app, "--tokenizer") && !data)
    throw InputError("--tokenizer", "is for the text of --data", "add --data train.jsonl");
  if (!lengths && !data) return {};
  for (const char* flag : {"--rows", "--tokens-per-row", "--tokens"})
    if (is_given(app, flag))
      throw InputError("", fmt::format("{} and {} contradict each other", lengths ? "--lengths" : "--data", flag),
                       "the file says both");
  GivenRows out = lengths ? with_mean({.lengths = read_lengths(*lengths), .source = *lengths}, request)
                          : rows_of_data(app, *data, request);
  request.dataset.rows = out.lengths.num_rows;
  if (generates(request.recipe)) {  // its rows are prompts, whose answers are not there yet
    request.dataset.tokens_per_row = 0;
    return {};
  }
  const RowLengths rows{.rows_of = out.lengths.rows_of, .is_about = out.is_about};
  out.lengths.at_most = rows.at_most();
  out.sets_seq_len = !says_seq_len && !is_given(app, "--seq-len");
  if (out.sets_seq_len)
    request.recipe.seq_len =
        request.recipe.packing == Packing::Dynamic && out.is_about ? out.lengths.at_most : out.lengths.longest;
  bound_by(rows, question);
  return out;
}

}  // namespace gpuplan
