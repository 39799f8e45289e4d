// The training data that a Python script loads: names of public sets and of local files, of its calls of load_dataset.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ecosystem/python_value.h"

namespace gpuplan {

/// Calls that load data are rows of data/ecosystem/python_calls.yaml.
struct DataCalls {
  std::vector<std::string> loads;    // load_dataset(path, name, data_dir, data_files, split)
  std::vector<std::string> readers;  // paths that stand for a format, whose rows are in data_files
  std::vector<std::string> from_files;
  std::vector<std::string> joins;  // of which all sets are trained on; else the first is
  std::vector<std::string> cuts;   // methods that may leave fewer rows
};

/// Sets as `data_sets` has them, "train.jsonl#500" for a part of 500 rows. Other splits than those of training and
/// values that only a run shows are left out. `notes` receives what may leave fewer rows.
std::vector<std::string> data_of_calls(const std::vector<PythonCall>& calls, const DataCalls& rows,
                                       std::string_view code, const std::string& script,
                                       std::vector<std::string>& notes);

}  // namespace gpuplan
