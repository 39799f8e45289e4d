// Files that trainers bring along and that configurations and commands name by path: data/ecosystem/shipped_files.yaml
// has what they say, so that a question needs no copy of them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gpuplan {

struct ShippedFile {
  std::string format;  // name of the key table of the files that name it; of a file that a command names, "trl file"
  std::string stem;    // "zero3_bf16" of deepspeed_configs/zero3_bf16.json; "llama3_1/8B_lora"
  std::string text;    // the settings that decide memory and time, as JSON
  std::string source;
  std::string
      named;  // how a file of `format` names it: "deepspeed_configs/zero3.json"; empty: it has to be brought along
  std::string brought_by;  // a command that puts it there; empty: none is needed, or none is known
};

/// Gives every row. Throws InputError for a broken data file.
std::span<const ShippedFile> shipped_files();

/// The file that `path` names in a file of `format`, by its last parts without their ending; nullptr for others.
const ShippedFile* find_shipped_file(std::string_view format, const std::string& path);

}  // namespace gpuplan
