// SHA-256 (FIPS 180-4), to say exactly which file a number came from. Not for secrets.
#pragma once

#include <string>
#include <string_view>

namespace gpuplan {

/// The digest of `content` as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view content);

}  // namespace gpuplan
