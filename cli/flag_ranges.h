// The numbers of the command line and the ranges that they may have: the one table from which the help, the refusal of
// what lies outside and the tests at both ends of every range come. Numbers inside of SPECs (--lora, --gpu-spec,
// --gpus) belong to the readers of these.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/units.h"

namespace CLI {
class App;
}

namespace gpuplan {

inline constexpr double kMostRows = 1e10;  // of a data set

enum class NumberKind : std::uint8_t { Whole, Real, Time };

struct FlagRange {
  std::string_view flag;
  NumberKind kind{};
  NumberRange range;           // of a time in seconds
  std::string_view example{};  // of the value
  std::string_view part{};     // as the help calls the number inside of the value: "K" of every=K; "" the whole value
  std::vector<std::string> (*numbers)(const std::string& value) = nullptr;  // of a value; nullptr: the value is one
  std::string_view command{};  // where flags of this name differ; "" every command
};

std::span<const FlagRange> flag_ranges();

/// The rows of a flag of a command: several where its value has several numbers.
std::vector<const FlagRange*> ranges_of(std::string_view command, std::string_view flag);

/// "1 to 10000", "0 s to 100 d".
std::string to_string(const FlagRange& row);
/// "; "-joined, each with its part in front; "" for a flag without numbers.
std::string ranges_text(std::string_view command, std::string_view flag);

/// Throws InputError naming the flag, with the range, for a value whose numbers are none or lie outside.
void check_ranges(std::string_view command, std::string_view flag, const std::string& value);

/// The number of a flag that was given. check_ranges() has seen it when the arguments were read.
std::optional<std::int64_t> given_integer(const CLI::App& app, const std::string& flag);
std::optional<double> given_number(const CLI::App& app, const std::string& flag);
std::optional<Seconds> given_time(const CLI::App& app, const std::string& flag);
/// The same for a value at hand.
std::int64_t to_integer(const std::string& value);

}  // namespace gpuplan
