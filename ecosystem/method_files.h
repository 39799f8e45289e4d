// Lists what a trainer's files say beside a plan that does not fine-tune: the program, its data set and its keys
// (data/ecosystem/method_files.yaml).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ecosystem/emit.h"
#include "ecosystem/training_data.h"

namespace gpuplan {

/// Holds the files of a program for a method.
struct MethodFiles {
  std::string program, file, starts, note;  // file empty: the table's
  std::vector<std::string> methods, needs, omits;
  std::vector<std::string> says;  // of `keys`, those by which a file says the method
  /// file_set: the words for a file of --data, where they differ; text_set: for one whose answers are texts.
  OrderedJson set, file_set, text_set, keys;
  OrderedJson text_keys, message_keys;        // beside a file whose answers are texts, or messages
  std::vector<std::string> text_columns;      // that a file must have whose answers are texts
  std::string why_no_texts, why_no_messages;  // such answers are not read; empty: they are
  DataRows rows = DataRows::Messages;
  double rate = 0, adapter_rate = 0;  // learning rates; 0: those of fine-tuning
};

/// nullptr: the program's files cannot say the method.
const MethodFiles* find_method_files(std::string_view program, std::string_view method);

/// "a, b and c": the programs whose files say the method; empty: none.
std::string programs_of_method(std::string_view method);

/// Says why the program cannot read rows of such a file; empty: it can.
std::string why_not_answers(const MethodFiles& files, const TrainingData& data);

/// The keys of the program's file beside those of the plan.
OrderedJson keys_of(const MethodFiles& files, const TrainingData& data);

/// The data set in the program's own words, `data` in its place where it has a name.
OrderedJson set_of(const MethodFiles& files, const TrainingData& data);

}  // namespace gpuplan
