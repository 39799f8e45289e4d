// YAML files that people write: parsed with the place of every mistake into the values that base/fields reads; and
// numbers and texts as they are read back, to the last bit.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/fields.h"
#include "base/input_limits.h"
#include "base/json_file.h"
#include "base/units.h"

namespace gpuplan {

/// A whole file, whose top is a mapping.
class YamlFile {
 public:
  /// Throws InputError with where = "file:line:column" when it is not YAML, or is no mapping.
  static YamlFile parse(const std::string& text, const std::string& name);
  static YamlFile read(const std::filesystem::path& path, const InputLimit& limit = kFileLimit);

  Fields& top() { return top_; }
  /// The text; of a file of data/ as it is on the disk.
  std::string content() const;
  /// Throws InputError listing every noted problem as "file:line: key: problem".
  void finish(std::string hint = {}) const { top_.finish(std::move(hint)); }

 private:
  YamlFile(std::shared_ptr<ValueTree> tree, std::string content);
  Fields top_;
  std::string content_;  // empty: of a file of data/ that nobody asked for
};

/// Parses a text whose top is a mapping and whose scalars are texts. Throws InputError as YamlFile::parse does.
std::shared_ptr<ValueTree> parse_yaml(const std::string& text, const std::string& name);

/// A file of a Python program: a scalar without quotes is what PyYAML reads (`no` is false, `1e-4` is a text), one in
/// quotes is a text. Throws InputError as YamlFile::parse does; the top may be any value. LastWins: of a key that comes
/// twice the last value counts, as in PyYAML, and ValueTree::repeated names it.
std::shared_ptr<ValueTree> parse_yaml11(const std::string& text, const std::string& name,
                                        DuplicateKeys duplicates = DuplicateKeys::Refuse);

/// A file of data/ in that form.
std::shared_ptr<ValueTree> read_yaml11(const std::filesystem::path& path);

/// `value` x 10^-`exponent` in the fewest digits: decimal(1.06e10, 9) is "10.6". Requires: finite.
std::string decimal(double value, int exponent = 0);

std::string in_gb_s(BytesPerSec rate);    // for keys that end in _gb_s
std::string in_gbit_s(BytesPerSec rate);  // _gbit_s
std::string in_tflops(FlopsPerSec rate);  // _tflops
std::string in_us(Seconds time);          // _us
std::string in_mib(Bytes amount);         // _mib
std::string in_gib(Bytes amount);         // _gib

/// Puts a text in double quotes, on one line.
std::string in_quotes(std::string_view text);

}  // namespace gpuplan
