#include "run/data/token_array.h"

#include <algorithm>
#include <array>
#include <cstring>

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

// A uint64 beyond int64 reads as negative, and is outside any vocabulary as well.
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

/// Of llm.c's header in `tokens`; null when it has none.
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
                       fmt::format("{} is outside the vocabulary of {} (the file is read as {})", token,
                                   format_grouped(vocab_size), format->name),
                       "is it of this model's tokenizer? --token-dtype says how a headerless .bin is read");
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
  return tokens;
}

}  // namespace gpuplan
