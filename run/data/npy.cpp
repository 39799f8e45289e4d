// The header of .npy files. Source: numpy/lib/format.py (versions 1, 2 and 3 differ in the length of the header's
// length, and in the encoding of field names, of which tokens have none).
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "run/data/token_array.h"

namespace gpuplan {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr const char* kHint = "save it with numpy.save as a 1-D array of uint16, uint32 or int64";

[[noreturn]] void refuse(const TokenArray& tokens, const std::string& problem) {
  throw InputError(tokens.file, problem, kHint);
}

/// The header's text; sets where the data begins.
std::string header_text(TokenArray& tokens) {
  const auto bytes = tokens.mapping.bytes();
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (all.size() < 12 || !all.starts_with(kMagic)) refuse(tokens, "is not a .npy file");
  const auto version = static_cast<unsigned char>(all[6]);
  if (version < 1 || version > 3) refuse(tokens, fmt::format("is a .npy file of version {}; 1 to 3 are read", version));
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i)
    length |= std::size_t(static_cast<unsigned char>(all[8 + i])) << (8 * i);
  tokens.start = std::int64_t(8 + length_bytes + length);
  if (std::size_t(tokens.start) > all.size() || length > (1U << 20)) refuse(tokens, "ends inside its header");
  return std::string(all.substr(8 + length_bytes, length));
}

/// Text behind a key of the Python dictionary, which numpy writes with repr.
std::string_view after_key(const TokenArray& tokens, std::string_view header, std::string_view key) {
  const std::string quoted = fmt::format("'{}':", key);
  const std::size_t at = header.find(quoted);
  if (at == std::string_view::npos) refuse(tokens, fmt::format("its header has no {}", quoted));
  return trim(header.substr(at + quoted.size()));
}

/// Behind a key, between `open` and `close`.
std::string_view within(const TokenArray& tokens, std::string_view header, std::string_view key, char open,
                        char close) {
  const std::string_view text = after_key(tokens, header, key);
  const std::size_t end = text.find(close, 1);
  if (!text.starts_with(open) || end == std::string_view::npos)
    refuse(tokens, fmt::format("'{}' in its header is not read", key));
  return text.substr(1, end - 1);
}

const TokenFormat* format_of(const TokenArray& tokens, std::string_view header) {
  const std::string_view descr = within(tokens, header, "descr", '\'', '\'');
  const bool has_order = descr.size() == 3 && (descr[0] == '<' || (descr[0] == '|' && descr.ends_with('1')));
  const TokenFormat* format = has_order ? find_token_format(descr.substr(1)) : nullptr;
  if (!format)
    refuse(tokens, fmt::format("holds '{}', not little-endian integers of 8 to 64 bits", descr.substr(0, 100)));
  return format;
}

std::vector<std::int64_t> shape_of(const TokenArray& tokens, std::string_view header) {
  std::vector<std::int64_t> shape;
  for (const std::string& extent : split(within(tokens, header, "shape", '(', ')'), ','))
    if (!trim(extent).empty()) shape.push_back(parse_integer(trim(extent), tokens.file + ": shape", 0));
  return shape;
}

}  // namespace

TokenArray open_npy(const DataOptions& options) {
  TokenArray tokens{.file = options.file.string(), .mapping = FileMapping(options.file)};
  const std::string header = header_text(tokens);
  tokens.format = format_of(tokens, header);
  const auto shape = shape_of(tokens, header);
  if (shape.empty() || shape.size() > 2) refuse(tokens, fmt::format("has {} dimensions, not 1 or 2", shape.size()));
  if (shape.size() == 2 && after_key(tokens, header, "fortran_order").starts_with("True"))
    refuse(tokens, "is in Fortran order");
  if (shape.size() == 2) tokens.row_tokens = shape[1];
  std::int64_t bytes = tokens.format->bytes;
  for (const std::int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes)) refuse(tokens, "is larger than any file");
  tokens.num_tokens = bytes / tokens.format->bytes;
  const std::int64_t there = std::ssize(tokens.mapping.bytes()) - tokens.start;
  if (bytes != there)
    refuse(tokens, fmt::format("its header says {} tokens of {}, but {} bytes follow it",
                               format_grouped(tokens.num_tokens), tokens.format->name, format_grouped(there)));
  return tokens;
}

}  // namespace gpuplan
