// Shell and Slurm scripts that start a training: which launcher and trainer they name, with which flags and files, on
// how many GPUs. The flags are handed on as though they stood in a file of that program. Nothing is executed.
// Source of the command lines: data/ecosystem/launchers.yaml.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ecosystem/file_kind.h"
#include "ecosystem/shell_text.h"

namespace gpuplan {

/// "--lora_r 8", "lora_r=8", "--packing": a flag without values is true.
/// Names of flags that are variables of the environment begin so: "environment.NPROC_PER_NODE".
inline const std::string kEnvironment = "environment.";

struct LaunchFlag {
  std::string name;  // "lora_r"; with dots below mappings
  std::vector<ShellWord> values;
  int line = 1;
  std::size_t begin = 0, end = 0;  // of its word in the script's text; alike where it does not stand there
  std::string file;                // where it stands; empty: where the others of its part do
};

/// A command speaks to several programs; each gets its flags, and the file that they change.
struct LaunchPart {
  std::string table;   // name of the key table; empty: the keys tell
  std::string config;  // as the command names it; empty: none
  int config_line = 1;
  std::vector<LaunchFlag> flags;
  std::string file;         // where they stand; empty: the script
  bool is_program = false;  // its command names the program itself: trl sft
  bool may_be_own = false;  // the script is known by its bare name alone, which others have too
  bool is_whole = false;    // each process of the script puts the whole model on one GPU
};

struct Launch {
  std::vector<LaunchPart> parts;
  std::string folder;                            // in which it runs; empty: the current one
  std::string script;                            // that it starts, where no row names it: its flags tell what it is
  bool is_module = false;                        // it is named as one: package.train
  std::map<std::string, ShellWord> environment;  // variables that it starts with
  bool needs_source = false;                     // they tell nothing: its source may
  std::map<std::string, std::string> written;    // files that the script writes itself
  std::vector<std::string> notes;
};

/// Says whether a text is a script of commands: by its name, its first line, or a launcher that begins one.
bool is_launch_script(const ConfigFile& file);

/// Reads the first training of a script. Throws InputError where it starts none, or one that is not planned.
Launch read_launch(const ConfigFile& script);

/// Holds what is said beside the files.
struct SaidBeside {
  std::int64_t num_gpus = 0;       // 0: not said
  std::vector<std::string> facts;  // of Setup, which flags say in the place of the files
};

/// The part as a file of `table` would say it, with the values of `below` for what no flag says; null: none. `notes`
/// receives what is not known and not needed, or is one of the facts `said` beside. Throws InputError for another value
/// that is needed and not known.
std::shared_ptr<ValueTree> tree_of(const LaunchPart& part, const std::string& script, const KeyTable* table,
                                   const ValueTree* below, std::vector<std::string>& notes,
                                   const std::vector<std::string>& said = {});

}  // namespace gpuplan
