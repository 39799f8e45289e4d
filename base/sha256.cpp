#include "base/sha256.h"

#include <array>
#include <bit>
#include <cstdint>

#include <fmt/format.h>

namespace gpuplan {
namespace {

using Word = std::uint32_t;
using State = std::array<Word, 8>;

constexpr std::size_t kBlockBytes = 64;

// Names, constants and steps follow FIPS 180-4, sections 4.2.2, 5.3.3 and 6.2.2.
constexpr State kInitial{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr std::array<Word, 64> kRound{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// `content` with the bit 1, zeros, and its length in bits, in whole blocks.
std::string padded(std::string_view content) {
  std::string message(content);
  message += char(0x80);
  while (message.size() % kBlockBytes != kBlockBytes - 8) message += '\0';
  const std::uint64_t num_bits = std::uint64_t(content.size()) * 8;
  for (int shift = 56; shift >= 0; shift -= 8) message += char((num_bits >> shift) & 0xff);
  return message;
}

std::array<Word, 64> message_schedule(const char* block) {
  std::array<Word, 64> w{};
  for (std::size_t t = 0; t < 16; ++t)
    for (std::size_t i = 0; i < 4; ++i) w[t] = (w[t] << 8) | static_cast<unsigned char>(block[4 * t + i]);
  for (std::size_t t = 16; t < 64; ++t) {
    const Word s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const Word s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  return w;
}

void compress(State& hash, const char* block) {
  const auto w = message_schedule(block);
  auto [a, b, c, d, e, f, g, h] = hash;
  for (std::size_t t = 0; t < 64; ++t) {
    const Word sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25), choose = (e & f) ^ (~e & g);
    const Word sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22), majority = (a & b) ^ (a & c) ^ (b & c);
    const Word t1 = h + sum1 + choose + kRound[t] + w[t], t2 = sum0 + majority;
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const State worked{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < hash.size(); ++i) hash[i] += worked[i];
}

State digest(std::string_view content) {
  const std::string message = padded(content);
  State hash = kInitial;
  for (std::size_t at = 0; at < message.size(); at += kBlockBytes) compress(hash, message.data() + at);
  return hash;
}

std::string bytes_of(const State& hash) {
  std::string bytes;
  for (const Word word : hash)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += char((word >> shift) & 0xff);
  return bytes;
}

std::string hex_of(const State& hash) {
  std::string text;
  for (const Word word : hash) text += fmt::format("{:08x}", word);
  return text;
}

}  // namespace

std::string sha256_hex(std::string_view content) { return hex_of(digest(content)); }

std::string hmac_sha256_hex(std::string_view key, std::string_view message) {
  std::string inner = key.size() > kBlockBytes ? bytes_of(digest(key)) : std::string(key);
  inner.resize(kBlockBytes, '\0');
  std::string outer = inner;
  for (char& c : inner) c = char(c ^ 0x36);
  for (char& c : outer) c = char(c ^ 0x5c);
  return hex_of(digest(outer + bytes_of(digest(inner + std::string(message)))));
}

bool is_same_digest(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  int difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

}  // namespace gpuplan
