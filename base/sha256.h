// SHA-256 (FIPS 180-4), to say exactly which file a number came from, and HMAC with it (RFC 2104), by which ranks show
// each other that they know a secret.
#pragma once

#include <string>
#include <string_view>

namespace gpuplan {

/// The digest of `content` as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view content);

/// The code of `message` under `key`, as 64 lower-case hexadecimal digits.
std::string hmac_sha256_hex(std::string_view key, std::string_view message);

/// Compares two digests in a time that does not tell where they differ.
bool is_same_digest(std::string_view a, std::string_view b);

}  // namespace gpuplan
