// What every fuzz target shares: the input as text or as a file, and the rule that a parser's answer is a value or an
// InputError (the world's failures are EnvErrors). Any other exception, and any report of a sanitizer, is a find.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "scratch_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace gpuplan::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return size == 0 ? std::string_view() : std::string_view(reinterpret_cast<const char*>(data), size);
}

/// Runs `read`; false when it refused.
template <class Read>
bool try_to(Read read) {
  try {
    read();
    return true;
  } catch (const InputError&) { return false; } catch (const EnvError&) {
    return false;
  }
}

/// The input as `name` in a folder of this process, for parsers that open their file themselves.
inline std::filesystem::path as_file(const char* name, std::string_view content) {
  static const test::ScratchFolder folder;
  return folder.write(name, std::string(content));
}

}  // namespace gpuplan::fuzz
