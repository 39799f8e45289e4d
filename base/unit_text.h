// The only place where amounts become text for people, and text becomes amounts.
// GB is 10^9, GiB is 2^30. A number without a unit is an error.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace gpuplan {

/// "5.31 GiB", "320 MiB", "0 B": three significant digits, binary units.
std::string format_bytes(Bytes amount);
/// "312 ms", "4.20 s", "3 min 20 s", "5 h 12 min", "3 d 4 h".
std::string format_duration(Seconds time);
/// "8.03 B", "1.10 B", "124 M": a count of parameters.
std::string format_count(std::int64_t count);
/// "1,234,567": digits in groups of three.
std::string format_grouped(std::int64_t count);
/// "$3.20", "$0.004", "$1,240", "<$0.0001".
std::string format_usd(double usd);

/// Reads "20ms", "1.5 s", "300us", "2 min", "1 h". Throws InputError naming `where`.
Seconds parse_time(std::string_view text, std::string_view where);

/// Reads "80 GiB", "24GB", "512MiB", "1.5 TB", "100 B". Throws InputError naming `where`.
Bytes parse_bytes(std::string_view text, std::string_view where);
/// The same of a text that may be something else; nothing when it is.
std::optional<Bytes> as_bytes(std::string_view text);

}  // namespace gpuplan
