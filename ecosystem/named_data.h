// The data that a trainer's file names, as rows and tokens: local files are counted, public sets stand in
// data/datasets.yaml, and limits such as max_steps and max_samples are kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ecosystem/config_reader.h"
#include "ecosystem/row_count.h"

namespace gpuplan {

/// A public set.
struct NamedData {
  std::string name;
  std::vector<std::string> also;  // other names of it
  std::int64_t rows{};
  std::int64_t tokens{}, bytes{};  // of all rows, where they were counted here; else 0
  std::int64_t prompt_tokens{};    // of `tokens`, those of the prompts; 0: not counted
  double tokens_per_row{};         // as the source states it; 0: it does not
  std::string tokenizer, source;
};

/// Gives every row of data/datasets.yaml. Throws InputError for a broken file.
std::span<const NamedData> named_data();

/// nullptr for a set that has no row.
const NamedData* find_named_data(const std::string& name);

/// "~/data/gsm8k/train.parquet" is the training split of gsm8k, as the scripts of trainers write it into a folder of
/// the set's name (verl's examples/data_preprocess).
const NamedData* named_by_folder(const std::string& path);

/// The path of a file that another one names; nothing where it is not there.
using FindPath = std::function<std::optional<std::filesystem::path>(const std::string& named, const std::string& by)>;

/// Says which figures of the data flags gave before the files are asked.
struct GivenData {
  bool rows = false, tokens_per_row = false;
};

/// Answers of the files about the data.
struct SettledData {
  bool has_rows = false;  // how much is trained on
  std::string words;      // how many steps of how many sequences, where the files count those; empty: they do not
  RowLengths lengths;     // of rows that all lie in files which could be counted
};

/// Sets rows, tokens per row and epochs of the request as the files say them; what nothing says, and what `given`
/// names, stays. `notes` receives what they come from. Requires: the request has its cluster and strategy.
SettledData settle_data(const ConfigReading& reading, const FindPath& find, GivenData given, EstimateRequest& request,
                        std::vector<std::string>& notes);

/// Shortens sequences that batches are padded to (`dynamic`) to the longest row, which decides the memory where no row
/// is as long as a sequence may be. Where the model sees images or writes answers, rows are longer than their texts,
/// and nothing changes. `notes` receives what was counted.
void bound_sequences(EstimateRequest& request, const RowLengths& rows, std::vector<std::string>& notes);

}  // namespace gpuplan
