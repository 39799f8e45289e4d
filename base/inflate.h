// Files packed with gzip, unpacked piece by piece: RFC 1952 around RFC 1951.
#pragma once

#include <array>
#include <cstdint>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan {

/// Says whether a file begins as gzip does.
bool begins_as_gzip(std::string_view bytes);

/// What is packed in a file of gzip, member after member, in flat memory.
class Inflater {
 public:
  /// `where`: for messages.
  Inflater(std::streambuf& packed, std::string where);
  /// The next piece, valid until the next call; empty at the end. Throws InputError for what is no gzip, is cut off or
  /// does not have its checksum.
  std::string_view next();

 private:
  /// A canonical Huffman code: `table` has symbol and length of every text of kFast bits; longer codes are found by
  /// their counts per length.
  struct Code {
    static constexpr int kFast = 10, kLongest = 15;
    struct Entry {
      std::uint16_t symbol{};
      std::uint8_t length{};  // 0: longer than kFast
    };
    std::array<Entry, 1 << kFast> table{};
    std::array<std::uint16_t, kLongest + 1> count{};
    std::vector<std::uint16_t> symbols;  // by code
  };
  enum class At : std::uint8_t { Member, Block, Stored, Coded, Trailer, End };

  [[noreturn]] void refuse(const char* problem) const;
  int byte();
  std::uint32_t bits(int count);
  void fill(int count);
  void read_header();
  void read_block();
  void read_codes();
  void copy_stored();
  void decode();
  void read_trailer();
  Code make_code(const std::uint8_t* lengths, std::size_t num) const;
  std::uint16_t symbol(const Code& code);
  void put(char c) { window_[end_++] = c; }
  bool is_full() const { return end_ + kLongestMatch > window_.size(); }

  static constexpr std::size_t kHistory = 32768, kPiece = 65536, kLongestMatch = 258;

  std::streambuf& packed_;
  std::string where_;
  At at_ = At::Member;
  bool is_last_ = false, has_member_ = false;
  std::uint64_t held_ = 0;  // bits that were read and not used, the next one lowest
  int num_held_ = 0;
  std::size_t stored_left_ = 0;
  Code literals_, distances_;
  std::vector<char> window_;  // what came before, up to kHistory, then the piece
  std::size_t begin_ = 0, end_ = 0;
  std::uint32_t checksum_ = 0, size_ = 0;
};

}  // namespace gpuplan
