#include "rows/json_rows.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/narrow.h"
#include "base/unit_text.h"
#include "base/work_count.h"
#include "device/device.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::size_t kScanPiece = std::size_t(4)
                                   << 20;  // bytes of the file that are resident while its lines are found

constexpr std::size_t kLargeRow = 1 << 20;  // a value and its tokens take up to a hundred times as much: one at a time
constexpr std::size_t kTouchedAround = 64 << 10,  // that the system brings in around a row
    kMostTouched = 8 << 20;                       // before it is given back

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Finds the end of the line that begins at `at`. Throws InputError when it is too far, without reading on.
std::size_t end_of_line(std::string_view text, std::size_t at, std::size_t number, const std::string& file) {
  const std::string_view part = text.substr(at, kRowLimit.bytes + 1);
  const std::size_t length = std::min(part.size(), part.find('\n'));
  if (length > kRowLimit.bytes) require_size(length, fmt::format("{}:{}", file, number), kRowLimit);
  return at + length;
}

std::vector<std::int64_t> find_lines(const FileMapping& mapping, const std::string& file) {
  const std::string_view text = text_of(mapping.bytes());
  std::vector<std::int64_t> starts;
  std::size_t forgotten = 0, number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_line(text, at, ++number, file);
    if (text.substr(at, end - at).find_first_not_of(" \t\r") != std::string_view::npos)
      starts.push_back(std::int64_t(at));
    at = end + 1;
    if (end - forgotten > kScanPiece)
      mapping.forget(mapping.bytes().subspan(forgotten, end - forgotten)), forgotten = end;
  }
  return starts;
}

[[noreturn]] void refuse_keys(const json& example) {
  if (example.contains("messages") || example.contains("conversations"))
    throw InputError("", "is a chat, which needs the model's chat template", kTokeniseHint);
  std::vector<std::string> keys;
  for (const auto& item : example.items()) keys.push_back(item.key());
  throw InputError("", fmt::format("has neither 'input_ids' nor 'text' (keys: {})", fmt::join(keys, ", ")),
                   R"(expected {"input_ids": [...]} or {"text": "..."})");
}

}  // namespace

JsonRows::JsonRows(const DataOptions& options)
    : options_(options),
      mapping_(options.file),
      starts_(find_lines(mapping_, path())) {
  if (starts_.empty()) throw InputError(path(), "holds no example", "expected one JSON object per line");
}

std::string_view JsonRows::line(std::int64_t row) const {
  const std::string_view rest = text_of(mapping_.bytes()).substr(std::size_t(starts_[std::size_t(row)]));
  return rest.substr(0, rest.find('\n'));
}

std::string JsonRows::place(std::int64_t row) const {
  const std::string_view before = text_of(mapping_.bytes()).substr(0, std::size_t(starts_[std::size_t(row)]));
  return fmt::format("{}:{}", path(), 1 + std::ranges::count(before, '\n'));
}

template <class Parse>
auto JsonRows::parsed(std::int64_t row, Parse parse) const {
  GPUPLAN_CHECK(0 <= row && row < size(), "the row is there");
  const std::string_view text = line(row);
  std::unique_lock<std::mutex> alone(reading_large_, std::defer_lock);
  if (text.size() > kLargeRow) alone.lock();
  const auto in_line = [&](auto work) {
    try {
      return work();
    } catch (const InputError& error) {  // the place within the line is of no use to people; the line is
      throw InputError(place(row), error.problem(), error.hint());
    }
  };
  const json example = in_line([&] { return parse_json(text, ""); });
  if (reads_text(example)) open_tokenizer_once();  // what is wrong with its files is not about this line
  auto result = in_line([&] { return parse(example); });
  forget(text);
  return result;
}

TokenRow JsonRows::read(std::int64_t row) const {
  return parsed(row, [this](const json& example) { return parse(example); });
}

std::vector<TokenRow> JsonRows::read_answers(std::int64_t row) const {
  return parsed(row, [this](const json& example) { return parse_answers(example); });
}

bool JsonRows::reads_text(const json& example) const {
  if (!example.is_object()) return false;
  if (options_.answers.empty()) return !example.contains("input_ids") && example.contains("text");
  return std::ranges::any_of(options_.answers, [&](const std::string& key) {
    const auto answer = example.find(key);
    return answer != example.end() && answer->is_string();
  });
}

void JsonRows::open_tokenizer_once() const {
  std::call_once(opens_tokenizer_, [&] { tokenizer_ = open_tokenizer(options_.tokenizer_folder); });
}

/// Pages are given back for many rows at once: the system call costs more than a short row.
void JsonRows::forget(std::string_view row) const {
  count_work(Work::Bytes, std::int64_t(row.size()));
  std::string_view all;
  {
    const std::lock_guard lock(touching_);
    const char* const begin = touched_.empty() ? row.data() : std::min(touched_.data(), row.data());
    const char* const end = touched_.empty() ? row.data() + row.size()
                                             : std::max(touched_.data() + touched_.size(), row.data() + row.size());
    touched_ = {begin, std::size_t(end - begin)};
    num_touched_ += row.size() + kTouchedAround;
    if (num_touched_ < kMostTouched) return;
    all = std::exchange(touched_, {}), num_touched_ = 0;
  }
  mapping_.forget(std::as_bytes(std::span(all.data(), all.size())));
}

TokenRow JsonRows::parse(const json& example) const {
  if (!example.is_object())
    throw InputError("", "is not a JSON object", R"(expected {"input_ids": [...]} or {"text": "..."})");
  TokenRow row;
  const auto ids = example.find("input_ids"), text = example.find("text"), labels = example.find("labels");
  if (ids != example.end())
    row.ids = integers(*ids, "input_ids", 0);
  else if (text != example.end())
    row.ids = encode(*text, "text");
  else
    refuse_keys(example);
  row.labels = ids != example.end() && labels != example.end() ? integers(*labels, "labels", kIgnoredLabel) : row.ids;
  if (row.labels.size() != row.ids.size())
    throw InputError("", fmt::format("has {} input_ids but {} labels", row.ids.size(), row.labels.size()),
                     "labels are as long as input_ids and not shifted; -100 counts for nothing");
  return row;
}

std::vector<TokenRow> JsonRows::parse_answers(const json& example) const {
  const std::string expected = fmt::format(R"(expected {{"prompt": ..., "{}": ...}}, each token ids or a text)",
                                           fmt::join(options_.answers, R"(": ..., ")"));
  if (!example.is_object()) throw InputError("", "is not a JSON object", expected);
  const auto prompt = example.find("prompt");
  std::vector<TokenRow> out;
  for (const std::string& key : options_.answers) {
    const auto text = example.find(key);
    if (text == example.end()) throw InputError("", fmt::format("has no '{}'", key), expected);
    if (text->is_array() && !text->empty() && text->front().is_object())
      throw InputError("", fmt::format("'{}' is a chat, which needs the model's chat template", key), kTokeniseHint);
    TokenRow& row = out.emplace_back(answer(prompt == example.end() ? nullptr : &*prompt, *text, key.c_str()));
    if (options_.has_reference) row.reference = log_probs(example, "ref_" + key + "_logps", row);
    if (options_.has_reference && row.reference.empty())
      throw InputError("", fmt::format("has no 'ref_{}_logps'", key), "--ref copy or --ref adapter computes them");
    if (!options_.has_advantages) continue;
    row.old = log_probs(example, "old_" + key + "_logps", row);
    const auto advantage = example.find("advantage");
    if (advantage == example.end() || !advantage->is_number())
      throw InputError("", "has no number 'advantage'", "an answer's reward against that of others to its prompt");
    row.advantage = advantage->get<double>();
  }
  return out;
}

/// A list has one number per token of the answer; a number is the sum of them.
std::vector<float> JsonRows::log_probs(const json& example, const std::string& key, const TokenRow& answer) const {
  const auto found = example.find(key);
  if (found == example.end()) return {};
  const auto begin =
      std::ranges::find_if(answer.labels, [](std::int32_t l) { return l != kIgnoredLabel; }) - answer.labels.begin();
  const std::int64_t count = std::ssize(answer.ids) - begin;
  std::vector<float> out(answer.ids.size(), 0.0F);
  if (found->is_number() && !options_.has_token_log_probs) {
    if (std::ssize(answer.ids) > options_.seq_len)
      throw InputError("", fmt::format("'{}' is of an answer that is cut at {} tokens", key, options_.seq_len),
                       "a longer --seq-len");
    out[std::size_t(begin)] = float(found->get<double>());
    return out;
  }
  const bool is_list = found->is_array() && std::ssize(*found) == count &&
                       std::ranges::all_of(*found, [](const json& item) { return item.is_number(); });
  if (!is_list)
    throw InputError("", fmt::format("'{}' is no list of {} numbers, one per token of the answer", key, count),
                     options_.has_token_log_probs ? "" : "or one number, their sum");
  for (std::int64_t k = 0; k < count; ++k) out[std::size_t(begin + k)] = float((*found)[std::size_t(k)].get<double>());
  return out;
}

/// Ids follow each other; a text is read with its prompt before it, as its words may join the prompt's, and what both
/// begin with is the prompt's.
TokenRow JsonRows::answer(const json* prompt, const json& text, const char* key) const {
  if (prompt && prompt->is_string() != text.is_string())
    throw InputError("", fmt::format("'prompt' is a {} and '{}' a {}", prompt->type_name(), key, text.type_name()),
                     "both are token ids, or both texts");
  TokenRow row;
  std::size_t begin = 0;  // of the answer
  if (text.is_string()) {
    const std::string before = prompt ? prompt->get<std::string>() : "";
    row.ids = encode(before + text.get<std::string>());
    const std::vector<std::int32_t> own = prompt ? encode(before) : std::vector<std::int32_t>{};
    begin = std::size_t(std::mismatch(row.ids.begin(), row.ids.end(), own.begin(), own.end()).first - row.ids.begin());
  } else {
    if (prompt) row.ids = integers(*prompt, "prompt", 0);
    begin = row.ids.size();
    const std::vector<std::int32_t> own = integers(text, key, 0);
    row.ids.insert(row.ids.end(), own.begin(), own.end());
  }
  if (begin == row.ids.size()) throw InputError("", fmt::format("'{}' is empty", key), "an answer has a token");
  row.labels = row.ids;
  std::fill_n(row.labels.begin(), begin, kIgnoredLabel);
  return row;
}

std::vector<std::int32_t> JsonRows::encode(const json& text, const char* key) const {
  if (!text.is_string()) throw InputError("", fmt::format("'{}' is a {}, not a string", key, text.type_name()));
  return encode(text.get_ref<const std::string&>());
}

std::vector<std::int32_t> JsonRows::encode(const std::string& text) const {
  auto ids = tokenizer_->encode(text);
  const auto outside = std::ranges::find_if(ids, [&](std::int32_t id) { return id >= options_.vocab_size; });
  if (outside != ids.end())
    throw InputError("",
                     fmt::format("the tokenizer gives {}, outside the vocabulary of {}", *outside,
                                 format_grouped(options_.vocab_size)),
                     "tokenizer.model and config.json must be of the same model");
  return ids;
}

std::vector<std::int32_t> JsonRows::integers(const json& list, const char* key, std::int64_t also_allowed) const {
  if (!list.is_array()) throw InputError("", fmt::format("'{}' is a {}, not a list", key, list.type_name()));
  std::vector<std::int32_t> values;
  values.reserve(list.size());
  for (const json& item : list) {
    const bool is_whole = item.is_number_integer() &&
                          !(item.is_number_unsigned() && item.get<std::uint64_t>() > std::uint64_t(INT64_MAX));
    const std::int64_t value = is_whole ? item.get<std::int64_t>() : -1;
    if (!is_whole || ((value < 0 || value >= options_.vocab_size) && value != also_allowed))
      throw InputError(
          "",
          fmt::format("{}[{}] is {:.60}, {}", key, values.size(), item.dump(),
                      is_whole ? fmt::format("outside the vocabulary of {}", format_grouped(options_.vocab_size))
                               : "not a whole number"),
          "was it made with this model's tokenizer?");
    values.push_back(narrow<std::int32_t>(value));
  }
  return values;
}

}  // namespace gpuplan
