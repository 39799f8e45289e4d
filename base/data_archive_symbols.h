// The archive that a program of gpuplan_carries_data (cmake/DataArchive.cmake) carries. ld names the symbols.
#pragma once

#include <string_view>

extern "C" {
extern const char _binary_data_archive_start[];  // NOLINT(bugprone-reserved-identifier)
extern const char _binary_data_archive_end[];    // NOLINT(bugprone-reserved-identifier)
}

namespace gpuplan {

inline std::string_view carried_data() {
  return {_binary_data_archive_start, std::size_t(_binary_data_archive_end - _binary_data_archive_start)};
}

}  // namespace gpuplan
