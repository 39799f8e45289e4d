#include "base/inflate.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace gpuplan {
namespace {

constexpr std::array<std::uint16_t, 29> kLengthBase{3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                                    31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::array<std::uint8_t, 29> kLengthBits{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                   2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::array<std::uint16_t, 30> kDistanceBase{1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                                      33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                                      1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr std::array<std::uint8_t, 30> kDistanceBits{0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                                     6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

constexpr std::array<std::uint32_t, 256> make_checksums() {
  std::array<std::uint32_t, 256> out{};
  for (std::uint32_t n = 0; n < 256; ++n) {
    std::uint32_t c = n;
    for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? 0xedb88320U ^ (c >> 1) : c >> 1;
    out[n] = c;
  }
  return out;
}

std::uint32_t checksum_with(std::uint32_t before, std::string_view bytes) {
  static constexpr auto kTable = make_checksums();
  std::uint32_t c = ~before;
  for (const char byte : bytes) c = kTable[(c ^ std::uint8_t(byte)) & 0xff] ^ (c >> 8);
  return ~c;
}

}  // namespace

bool begins_as_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

Inflater::Inflater(std::streambuf& packed, std::string where)
    : packed_(packed),
      where_(std::move(where)),
      window_(kHistory + kPiece) {}

void Inflater::refuse(const char* problem) const { throw InputError(where_, problem, "unpack it with gzip -d"); }

int Inflater::byte() {
  const int next = packed_.sbumpc();
  if (next == std::char_traits<char>::eof()) refuse("is packed, and cut off");
  return next;
}

void Inflater::fill(int count) {
  for (; num_held_ < count; num_held_ += 8) held_ |= std::uint64_t(byte()) << num_held_;
}

std::uint32_t Inflater::bits(int count) {
  fill(count);
  const auto out = std::uint32_t(held_ & ((std::uint64_t{1} << count) - 1));
  held_ >>= count;
  num_held_ -= count;
  return out;
}

std::string_view Inflater::next() {
  if (end_ > kHistory) {  // what was given out becomes history
    std::memmove(window_.data(), window_.data() + end_ - kHistory, kHistory);
    end_ = kHistory;
  }
  begin_ = end_;
  while (at_ != At::End && !is_full()) switch (at_) {
      case At::Member: read_header(); break;
      case At::Block: read_block(); break;
      case At::Stored: copy_stored(); break;
      case At::Coded: decode(); break;
      case At::Trailer:
        checksum_ = checksum_with(checksum_, {window_.data() + begin_, end_ - begin_});
        size_ += std::uint32_t(end_ - begin_);
        read_trailer();
        if (end_ > begin_) return {window_.data() + begin_, end_ - begin_};
        break;
      case At::End: break;
    }
  checksum_ = checksum_with(checksum_, {window_.data() + begin_, end_ - begin_});
  size_ += std::uint32_t(end_ - begin_);
  return {window_.data() + begin_, end_ - begin_};
}

void Inflater::read_header() {
  if (has_member_ && packed_.sgetc() == std::char_traits<char>::eof()) {
    at_ = At::End;
    return;
  }
  if (byte() != 0x1f || byte() != 0x8b || byte() != 8) {
    if (!has_member_) refuse("is no gzip file");
    at_ = At::End;  // what follows the last member is no part of it
    return;
  }
  const int flags = byte();
  for (int skipped = 0; skipped < 6; ++skipped) byte();
  if ((flags & 4) != 0) {
    int length = byte();
    for (length |= byte() << 8; length > 0; --length) byte();
  }
  for (const int text : {8, 16})  // name, comment
    if ((flags & text) != 0)
      while (byte() != 0) {}
  if ((flags & 2) != 0) byte(), byte();
  held_ = 0, num_held_ = 0, checksum_ = 0, size_ = 0;
  has_member_ = true;
  at_ = At::Block;
}

void Inflater::read_block() {
  is_last_ = bits(1) != 0;
  switch (bits(2)) {
    case 0: {
      bits(num_held_ % 8);
      stored_left_ = bits(16);
      if ((bits(16) ^ 0xffffU) != stored_left_) refuse("is packed, and damaged");
      at_ = At::Stored;
      return;
    }
    case 1: {
      std::array<std::uint8_t, 288> lengths{};
      std::fill(lengths.begin(), lengths.begin() + 144, std::uint8_t(8));
      std::fill(lengths.begin() + 144, lengths.begin() + 256, std::uint8_t(9));
      std::fill(lengths.begin() + 256, lengths.begin() + 280, std::uint8_t(7));
      std::fill(lengths.begin() + 280, lengths.end(), std::uint8_t(8));
      literals_ = make_code(lengths.data(), lengths.size());
      std::array<std::uint8_t, 30> five{};
      five.fill(5);
      distances_ = make_code(five.data(), five.size());
      break;
    }
    case 2: read_codes(); break;
    default: refuse("is packed, and damaged");
  }
  at_ = At::Coded;
}

void Inflater::read_codes() {
  constexpr std::array<std::uint8_t, 19> kOrder{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  const std::size_t num_literals = bits(5) + 257, num_distances = bits(5) + 1, num_lengths = bits(4) + 4;
  std::array<std::uint8_t, 19> of_lengths{};
  for (std::size_t i = 0; i < num_lengths; ++i) of_lengths[kOrder[i]] = std::uint8_t(bits(3));
  const Code code = make_code(of_lengths.data(), of_lengths.size());
  std::vector<std::uint8_t> lengths;
  while (lengths.size() < num_literals + num_distances) {
    const std::uint16_t next = symbol(code);
    if (next < 16) {
      lengths.push_back(std::uint8_t(next));
      continue;
    }
    if (next == 16 && lengths.empty()) refuse("is packed, and damaged");
    const std::uint8_t repeated = next == 16 ? lengths.back() : std::uint8_t(0);
    const std::uint32_t times = next == 16 ? 3 + bits(2) : next == 17 ? 3 + bits(3) : 11 + bits(7);
    lengths.insert(lengths.end(), times, repeated);
  }
  if (lengths.size() != num_literals + num_distances) refuse("is packed, and damaged");
  literals_ = make_code(lengths.data(), num_literals);
  distances_ = make_code(lengths.data() + num_literals, num_distances);
}

Inflater::Code Inflater::make_code(const std::uint8_t* lengths, std::size_t num) const {
  Code out;
  for (std::size_t i = 0; i < num; ++i) ++out.count[lengths[i]];
  out.count[0] = 0;
  std::array<std::uint32_t, Code::kLongest + 2> first{}, place{};  // code and place of each length's first symbol
  for (std::size_t length = 1; length <= Code::kLongest; ++length) {
    first[length + 1] = (first[length] + out.count[length]) << 1;
    place[length + 1] = place[length] + out.count[length];
    if (first[length] + out.count[length] > (std::uint32_t{1} << length)) refuse("is packed, and damaged");
  }
  out.symbols.resize(place[Code::kLongest + 1]);
  for (std::size_t i = 0; i < num; ++i) {
    const std::uint8_t length = lengths[i];
    if (length == 0) continue;
    const std::uint32_t code = first[length]++;
    out.symbols[place[length]++] = std::uint16_t(i);
    if (length > Code::kFast) continue;
    std::uint32_t reversed = 0;  // codes are packed from their highest bit on
    for (int bit = 0; bit < length; ++bit) reversed |= ((code >> bit) & 1) << (length - 1 - bit);
    for (std::uint32_t text = reversed; text < out.table.size(); text += std::uint32_t{1} << length)
      out.table[text] = {std::uint16_t(i), length};
  }
  return out;
}

std::uint16_t Inflater::symbol(const Code& code) {
  while (num_held_ < Code::kFast) {  // the last code may end with the file
    const int next = packed_.sgetc();
    if (next == std::char_traits<char>::eof()) break;
    packed_.sbumpc();
    held_ |= std::uint64_t(next) << num_held_;
    num_held_ += 8;
  }
  const Code::Entry entry = code.table[held_ & (code.table.size() - 1)];
  if (entry.length > 0 && entry.length <= num_held_) {
    bits(entry.length);
    return entry.symbol;
  }
  std::uint32_t text = 0, first = 0, place = 0;
  for (std::size_t length = 1; length <= Code::kLongest; ++length) {
    text |= bits(1);
    const std::uint32_t count = code.count[length];
    if (text < first + count) return code.symbols[place + (text - first)];
    place += count;
    first = (first + count) << 1;
    text <<= 1;
  }
  refuse("is packed, and damaged");
}

void Inflater::copy_stored() {
  for (; stored_left_ > 0 && !is_full(); --stored_left_) put(char(num_held_ >= 8 ? bits(8) : std::uint32_t(byte())));
  if (stored_left_ == 0) at_ = is_last_ ? At::Trailer : At::Block;
}

void Inflater::decode() {
  while (!is_full()) {
    const std::uint16_t next = symbol(literals_);
    if (next < 256) {
      put(char(next));
      continue;
    }
    if (next == 256) {
      at_ = is_last_ ? At::Trailer : At::Block;
      return;
    }
    if (next > 285) refuse("is packed, and damaged");
    const std::size_t length = kLengthBase[next - 257U] + bits(kLengthBits[next - 257U]);
    const std::uint16_t code = symbol(distances_);
    if (code > 29) refuse("is packed, and damaged");
    const std::size_t distance = kDistanceBase[code] + bits(kDistanceBits[code]);
    if (distance > end_) refuse("is packed, and damaged");
    for (std::size_t i = 0; i < length; ++i) put(window_[end_ - distance]);
  }
}

void Inflater::read_trailer() {
  bits(num_held_ % 8);
  const std::uint32_t low = bits(16), high = bits(16), size_low = bits(16), size_high = bits(16);
  if ((low | high << 16) != checksum_ || (size_low | size_high << 16) != size_)
    refuse("is packed, and does not have its checksum");
  at_ = At::Member;
}

}  // namespace gpuplan
