// Files packed with gzip, unpacked piece by piece with zlib.
#pragma once

#include <memory>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan {

/// Says whether a file begins as gzip does.
bool begins_as_gzip(std::string_view bytes);

/// Unpacks a file of gzip, member after member, in flat memory.
class Inflater {
 public:
  /// `where`: for messages.
  Inflater(std::streambuf& packed, std::string where);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Returns the next piece, valid until the next call; empty at the end. Throws InputError for what is no gzip, is cut
  /// off or does not have its checksum.
  std::string_view next();

 private:
  struct Stream;  // zlib's

  [[noreturn]] void refuse(std::string_view problem) const;
  bool read_more();

  std::streambuf& packed_;
  std::string where_;
  std::unique_ptr<Stream> stream_;
  std::vector<char> in_, out_;
  bool is_in_member_ = false, has_member_ = false;
};

}  // namespace gpuplan
