#include "base/unit_text.h"

#include <limits>

#include <doctest/doctest.h>

#include "base/error.h"

namespace gpuplan {
namespace {

using namespace literals;

std::string problem_of(std::string_view text) {
  try {
    parse_bytes(text, "gpu.memory");
  } catch (const InputError& error) {
    CHECK(error.where() == "gpu.memory");
    CHECK(error.hint() == "write for example '80 GiB' or '24 GB'");
    return error.problem();
  }
  return "accepted";
}

TEST_CASE("a time may be in minutes as 'm' and 'min'") {
  CHECK(parse_time("2.47m", "--measured").value == doctest::Approx(148.2));
  CHECK(parse_time("2.47 min", "--measured").value == doctest::Approx(148.2));
  CHECK(parse_time("20ms", "--measured").value == doctest::Approx(0.02));
}

TEST_CASE("format_bytes: three significant digits in binary units") {
  CHECK(format_bytes(0_B) == "0 B");
  CHECK(format_bytes(1023_B) == "1023 B");
  CHECK(format_bytes(1_KiB) == "1.00 KiB");
  CHECK(format_bytes(320_MiB) == "320 MiB");
  CHECK(format_bytes({5'702'000'000}) == "5.31 GiB");  // 5.702e9 / 2^30 = 5.310
  CHECK(format_bytes(80_GiB) == "80.0 GiB");
  CHECK(format_bytes(2048_GiB) == "2.00 TiB");
}

TEST_CASE("format_bytes moves to the next unit before it would print 1024") {
  CHECK(format_bytes({1023 * 1024 + 511}) == "1023 KiB");  // 1023.499 KiB
  CHECK(format_bytes({1023 * 1024 + 512}) == "1.00 MiB");  // 1023.5 KiB
  CHECK(format_bytes(1_MiB - 1_B) == "1.00 MiB");
  CHECK(format_bytes(1_GiB - 1_B) == "1.00 GiB");
}

TEST_CASE("format_bytes never rounds to four digits with a decimal") {
  CHECK(format_bytes({10'732'000'000}) == "9.99 GiB");   // 9.9949 GiB
  CHECK(format_bytes({10'733'000'000}) == "10.0 GiB");   // 9.9959 GiB
  CHECK(format_bytes({107'310'000'000}) == "99.9 GiB");  // 99.940 GiB
  CHECK(format_bytes({107'330'000'000}) == "100 GiB");   // 99.959 GiB
}

TEST_CASE("format_bytes: a negative amount keeps its sign and its unit") {
  CHECK(format_bytes(-1_GiB) == "-1.00 GiB");
  CHECK(format_bytes(-5_B) == "-5 B");
}

TEST_CASE("format_duration: each unit up to its border") {
  const auto shown = [](double seconds) { return format_duration(Seconds{seconds}); };
  CHECK(shown(0) == "0 ns");
  CHECK(shown(250e-9) == "250 ns");
  CHECK(shown(999.4e-9) == "999 ns");
  CHECK(shown(999.9e-9) == "1.00 us");
  CHECK(shown(4.2e-6) == "4.20 us");
  CHECK(shown(999.4e-6) == "999 us");
  CHECK(shown(999.6e-6) == "1.00 ms");
  CHECK(shown(0.312) == "312 ms");
  CHECK(shown(0.9996) == "1.00 s");
  CHECK(shown(4.2) == "4.20 s");
  CHECK(shown(99.4) == "99.4 s");
  CHECK(shown(99.5) == "1 min 40 s");  // 100 s
  CHECK(shown(200) == "3 min 20 s");
  CHECK(shown(119.7) == "2 min 0 s");  // rounds to 120 s, not to 1 min 60 s
  CHECK(shown(5969) == "99 min 29 s");
  CHECK(shown(5970) == "1 h 40 min");  // 99.5 min
  CHECK(shown(5 * 3600 + 12 * 60) == "5 h 12 min");
  CHECK(shown(7199) == "2 h 0 min");              // 119.98 min, not 1 h 60 min
  CHECK(shown(48 * 3600 - 31) == "47 h 59 min");  // 2879.48 min
  CHECK(shown(48 * 3600 - 29) == "2 d 0 h");      // 2879.52 min
  CHECK(shown(76 * 3600) == "3 d 4 h");
  CHECK(shown(30.0 * 365.25 * 86400) == "30 years");
}

TEST_CASE("format_duration: what is not a usual time is still said") {
  CHECK(format_duration(Seconds{-0.312}) == "-312 ms");
  CHECK(format_duration(Seconds{std::numeric_limits<double>::infinity()}) == "inf s");
  CHECK(format_duration(Seconds{std::numeric_limits<double>::quiet_NaN()}) == "nan s");
}

TEST_CASE("format_count: parameters as people say them") {
  CHECK(format_count(0) == "0");
  CHECK(format_count(9'999) == "9999");
  CHECK(format_count(10'000) == "10.0 k");
  CHECK(format_count(999'499) == "999 k");
  CHECK(format_count(999'500) == "1.00 M");
  CHECK(format_count(124'439'808) == "124 M");
  CHECK(format_count(1'100'048'384) == "1.10 B");
  CHECK(format_count(8'030'261'248) == "8.03 B");
  CHECK(format_count(1'600'000'000'000) == "1.60 T");
}

TEST_CASE("format_grouped puts a comma between groups of three digits") {
  CHECK(format_grouped(0) == "0");
  CHECK(format_grouped(999) == "999");
  CHECK(format_grouped(1'000) == "1,000");
  CHECK(format_grouped(1'234'567) == "1,234,567");
  CHECK(format_grouped(-123) == "-123");
  CHECK(format_grouped(-1'234) == "-1,234");
  CHECK(format_grouped(std::numeric_limits<std::int64_t>::min()) == "-9,223,372,036,854,775,808");
}

TEST_CASE("format_usd: cents until a thousand dollars, two digits below one") {
  CHECK(format_usd(0) == "$0");
  CHECK(format_usd(0.004) == "$0.004");
  CHECK(format_usd(0.0001) == "$0.0001");
  CHECK(format_usd(0.00002) == "<$0.0001");
  CHECK(format_usd(3.2) == "$3.20");
  CHECK(format_usd(999.4) == "$999.40");
  CHECK(format_usd(999.5) == "$1,000");
  CHECK(format_usd(1239.6) == "$1,240");
  CHECK(format_usd(-3.2) == "-$3.20");
}

TEST_CASE("parse_bytes: GiB is 2^30 and GB is 10^9, in any case, with or without a space") {
  CHECK(parse_bytes("80 GiB", "x") == 80_GiB);
  CHECK(parse_bytes("80gib", "x") == 80_GiB);
  CHECK(parse_bytes(" 24GB ", "x") == Bytes{24'000'000'000});
  CHECK(parse_bytes("512MiB", "x") == 512_MiB);
  CHECK(parse_bytes("1.5 TB", "x") == Bytes{1'500'000'000'000});
  CHECK(parse_bytes("2 KiB", "x") == 2048_B);
  CHECK(parse_bytes("2 kB", "x") == 2000_B);
  CHECK(parse_bytes("0 GiB", "x") == 0_B);
  CHECK(parse_bytes("100 B", "x") == 100_B);
}

TEST_CASE("parse_bytes: what format_bytes prints can be read again, to three digits") {
  for (const Bytes amount : {1_B, 1000_B, 5_KiB, 320_MiB, 23_GiB, 80_GiB, 3000_GiB})
    CHECK(parse_bytes(format_bytes(amount), "x") / amount == doctest::Approx(1).epsilon(0.005));
}

TEST_CASE("parse_bytes refuses a number without a unit, and says what it would accept") {
  CHECK(problem_of("80") == "'80' has no unit of memory");
  CHECK(problem_of("") == "'' has no unit of memory");
  CHECK(problem_of("80G") == "'80G' has no unit of memory");
  CHECK(problem_of("80 GBit/s") == "'80 GBit/s' has no unit of memory");
}

TEST_CASE("parse_bytes shows the whole text when the number is wrong") {
  CHECK(problem_of("GiB") == "'GiB' is not an amount of memory");
  CHECK(problem_of("eighty GiB") == "'eighty GiB' is not an amount of memory");
  CHECK(problem_of("80 PB") == "'80 PB' is not an amount of memory");
  CHECK(problem_of("8,5 GB") == "'8,5 GB' is not an amount of memory");
  CHECK(problem_of("nan GB") == "'nan GB' is not an amount of memory");
}

TEST_CASE("parse_bytes refuses amounts that no counter holds") {
  CHECK(problem_of("-1 GiB") == "'-1 GiB' is out of range");
  CHECK(problem_of("10000000000 GB") == "'10000000000 GB' is out of range");  // 1e19 > 2^63
  CHECK(problem_of("inf GB") == "'inf GB' is out of range");
  CHECK(problem_of("9000000000 GB") == "accepted");  // 9e18 < 2^63 = 9.22e18
}

}  // namespace
}  // namespace gpuplan
