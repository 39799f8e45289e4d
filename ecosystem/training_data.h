// Files of trainers need more than the plan so that they train: a data set, the template of its conversations, a
// token that pads, a learning rate.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ecosystem/emit.h"
#include "models/model_spec.h"

namespace gpuplan {

/// Pairs: chosen and rejected; Labelled: a completion and its label; Prompts: prompts alone.
enum class DataRows : std::uint8_t { Text, Messages, Completion, Pairs, Labelled, Prompts };

/// A data set of the Hub, or a file of JSON lines; without a name the trainer's files get a small public one.
struct TrainingData {
  std::string name;
  DataRows rows = DataRows::Messages;
  bool is_file = false;
  std::vector<std::string> columns;  // keys of a file's first line
  bool answers_with_texts = false;   // there its answers are texts, and no lists of messages

  bool has_column(const std::string& column) const {
    return std::find(columns.begin(), columns.end(), column) != columns.end();
  }
};

/// `name` of --data: a file that is there, whose first line says what its rows hold, or the name of a set on the Hub,
/// whose rows hold `messages`. Throws InputError for a file whose first line has none of what trainers read.
TrainingData training_data(const std::string& name);

/// A trainer's template and pad token for a model; empty where the tables have none.
struct ChatTemplate {
  std::string llama_factory, axolotl, pad_token;
  bool reads_images = false;
};
const ChatTemplate& chat_template_of(const ModelSpec& model);

/// Keys of each program's file.
OrderedJson trl_data(const TrainingData& data, const ModelSpec& model);
OrderedJson run_clm_data(const TrainingData& data);
OrderedJson axolotl_data(const TrainingData& data, const ModelSpec& model);
OrderedJson torchtune_data(const TrainingData& data);
/// The description of the set that LLaMA-Factory reads beside its file.
OrderedJson llama_factory_data(const TrainingData& data, const ModelSpec& model);

}  // namespace gpuplan
