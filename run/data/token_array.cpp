#include "run/data/token_array.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "base/narrow.h"
#include "base/unit_text.h"

namespace gpuplan {
namespace {

template <class T>
std::int64_t read_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return std::int64_t(value);
}

// A uint64 beyond int64 reads as negative, and is outside any vocabulary as well; as_text() shows what it is.
constexpr std::array kTokenFormats{
    TokenFormat{"u1", "uint8", 1, read_as<std::uint8_t>},   TokenFormat{"i1", "int8", 1, read_as<std::int8_t>},
    TokenFormat{"u2", "uint16", 2, read_as<std::uint16_t>}, TokenFormat{"i2", "int16", 2, read_as<std::int16_t>},
    TokenFormat{"u4", "uint32", 4, read_as<std::uint32_t>}, TokenFormat{"i4", "int32", 4, read_as<std::int32_t>},
    TokenFormat{"u8", "uint64", 8, read_as<std::uint64_t>}, TokenFormat{"i8", "int64", 8, read_as<std::int64_t>}};

// The header of llm.c: 256 int32, of which the first are magic, version and number of tokens.
// Source: karpathy/llm.c, dev/data/data_common.py, write_datafile.
struct LlmcHeader {
  std::int32_t magic, version, num_tokens;
};
constexpr std::int64_t kLlmcHeaderBytes = 256 * 4;
struct LlmcKind {
  std::int32_t magic, version;
  std::string_view format;
};
constexpr std::array kLlmcKinds{LlmcKind{20240520, 1, "u2"}, LlmcKind{20240801, 7, "u4"}};

constexpr std::int64_t kLargestOfUint16 = 65'536;  // vocabulary whose ids fit 16 bits

const TokenFormat* headerless_format(const DataOptions& options) {
  if (!options.token_dtype) return find_token_format(options.vocab_size <= kLargestOfUint16 ? "u2" : "u4");
  if (*options.token_dtype == Dtype::I16) return find_token_format("u2");
  if (*options.token_dtype == Dtype::I32) return find_token_format("u4");
  throw InputError("--token-dtype", fmt::format("tokens of {} are not read", to_string(*options.token_dtype)),
                   "uint16 or uint32");
}

/// Kind of llm.c's header in `tokens`; null when it has none.
const LlmcKind* llmc_kind(const TokenArray& tokens, LlmcHeader& header) {
  if (std::ssize(tokens.mapping.bytes()) < kLlmcHeaderBytes) return nullptr;
  std::memcpy(&header, tokens.mapping.bytes().data(), sizeof header);
  const auto kind = std::ranges::find(kLlmcKinds, header.magic, &LlmcKind::magic);
  return kind == kLlmcKinds.end() ? nullptr : kind;
}

void read_llmc_header(TokenArray& tokens, const LlmcKind& kind, const LlmcHeader& header) {
  if (header.version != kind.version)
    throw InputError(tokens.file, fmt::format("is a token file of llm.c in version {}", header.version),
                     fmt::format("version {} is read", kind.version));
  tokens.format = find_token_format(kind.format);
  tokens.start = kLlmcHeaderBytes;
  tokens.num_tokens = header.num_tokens;
  const std::int64_t bytes = std::ssize(tokens.mapping.bytes()) - kLlmcHeaderBytes;
  if (bytes != tokens.num_tokens * tokens.format->bytes)
    throw InputError(tokens.file,
                     fmt::format("its header says {} tokens of {}, but {} bytes follow it",
                                 format_grouped(header.num_tokens), tokens.format->name, format_grouped(bytes)),
                     "the file is cut off or damaged: make it again");
}

std::string as_text(std::int64_t token, const TokenFormat& format) {
  return format.npy == "u8" ? fmt::format("{}", std::uint64_t(token)) : fmt::format("{}", token);
}

constexpr std::int64_t kLooked = std::int64_t(1) << 16;  // bytes at the beginning that tell how a file is stored
constexpr std::int64_t kLeastTelling = 64;               // tokens

/// Says whether every token at the beginning is in the vocabulary if the bytes are of this format.
bool is_within(const TokenArray& tokens, const TokenFormat& format, std::int64_t vocab_size) {
  const std::int64_t bytes = std::ssize(tokens.mapping.bytes());
  if (bytes % format.bytes != 0) return false;
  for (std::int64_t at = 0; at < std::min(bytes, kLooked); at += format.bytes)
    if (const std::int64_t token = format.read(tokens.mapping.bytes().data() + at); token < 0 || token >= vocab_size)
      return false;
  return true;
}

/// Tokens of 32 bits that are read as of 16: every second one is 0, the upper half of a token.
bool has_upper_halves(const TokenArray& tokens) {
  const std::int64_t count = std::min(tokens.num_tokens, kLooked / 2);
  bool has_lower = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_zero = tokens.format->read(tokens.mapping.bytes().data() + 2 * i) == 0;
    if (i % 2 == 1 && !is_zero) return false;
    has_lower |= !is_zero;
  }
  return count >= kLeastTelling && has_lower;
}

/// A headerless file that its width makes nonsense of, and the other one does not.
void require_right_width(const TokenArray& tokens, const DataOptions& options) {
  const bool is_narrow = tokens.format->bytes == 2;
  const TokenFormat& other = *find_token_format(is_narrow ? "u4" : "u2");
  const bool is_outside = !is_within(tokens, *tokens.format, options.vocab_size);
  const bool is_halved = is_narrow && !options.token_dtype && has_upper_halves(tokens);  // who says uint16 means it
  if (!(is_outside || is_halved) || !is_within(tokens, other, options.vocab_size)) return;
  throw InputError(
      tokens.file,
      is_outside
          ? fmt::format("read as {} its tokens are outside the vocabulary of {}, read as {} they are inside",
                        tokens.format->name, format_grouped(options.vocab_size), other.name)
          : fmt::format("read as {} every second token is 0, as in a file of {}", tokens.format->name, other.name),
      is_outside ? fmt::format("give --token-dtype {}", other.name)
                 : fmt::format("give --token-dtype {}, or --token-dtype {} if the tokens are such", other.name,
                               tokens.format->name));
}

}  // namespace

const TokenFormat* find_token_format(std::string_view npy) {
  const auto row = std::ranges::find(kTokenFormats, npy, &TokenFormat::npy);
  return row == kTokenFormats.end() ? nullptr : row;
}

void TokenArray::read(std::int64_t first, std::span<std::int32_t> to, std::int64_t vocab_size) const {
  const auto part =
      mapping.bytes().subspan(std::size_t(start + first * format->bytes), to.size() * std::size_t(format->bytes));
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::int64_t token = format->read(part.data() + i * std::size_t(format->bytes));
    if (token < 0 || token >= vocab_size)
      throw InputError(fmt::format("{}: token {}", file, format_grouped(first + std::int64_t(i))),
                       fmt::format("{} is outside the vocabulary of {} (the file is read as {})",
                                   as_text(token, *format), format_grouped(vocab_size), format->name),
                       "was it made with this model's tokenizer? for a .bin without a header, set --token-dtype");
    to[i] = narrow<std::int32_t>(token);
  }
  mapping.forget(part);
}

TokenArray open_bin(const DataOptions& options) {
  TokenArray tokens{.file = options.file.string(), .mapping = FileMapping(options.file)};
  LlmcHeader header{};
  if (const LlmcKind* kind = llmc_kind(tokens, header)) {
    read_llmc_header(tokens, *kind, header);
    return tokens;
  }
  tokens.format = headerless_format(options);
  const std::int64_t bytes = std::ssize(tokens.mapping.bytes());
  if (bytes % tokens.format->bytes != 0)
    throw InputError(
        tokens.file,
        fmt::format("{} bytes are no whole number of {} tokens", format_grouped(bytes), tokens.format->name),
        "give --token-dtype if they are stored otherwise");
  tokens.num_tokens = bytes / tokens.format->bytes;
  require_right_width(tokens, options);
  return tokens;
}

}  // namespace gpuplan
