// Profiles that somebody damaged: whatever number stands in one, `estimate --profile` refuses it or answers within what
// docs/limits.md says of profiles.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <regex>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "cluster/profile/profile_ranges.h"
#include "measured_machine.h"
#include "questions/laws.h"
#include "sanitized.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// As docs/limits.md states them.
constexpr double kMostTimesAsLong = 1e12;
constexpr double kMostOutside = 3e11;  // context, communicators and workspaces

const char* const kQuestions[] = {
    "gpuplan estimate --model smollm2-135m --gpus 2xH100 --profile p.yaml --json",
    "gpuplan estimate --model smollm2-135m --gpus 2xH100 --lora r=8 --framework native --profile p.yaml --json",
    "gpuplan estimate --model smollm2-135m --gpus 2xH100 --strategy fsdp --framework native --profile p.yaml --json",
    "gpuplan estimate --model smollm2-135m --gpus 1xH100 --qlora r=8 --profile p.yaml --json",
};

/// Every part that a calibration has, each with every field.
std::string calibrated() {
  ProfileDraft d{
      .id = "mine", .title = "box", .based_on = "default-hopper", .measured = two_devices("h100-sxm", "nvswitch")};
  d.measured.loads[0].gemm[0].correction =
      LocalCorrection({.reach = 4, .alignment = 0.5}, {{{256, 1024, 64, 1}, -0.125}});
  d.measured.collectives[1].correction = LocalCorrection({.reach = 2}, {{correction_sizes(Bytes{65536}), 0.25}});
  d.measured.loads[0].kernels[1].curve = {{Bytes{65536}, Seconds{2e-6}}, {Bytes{1 << 20}, Seconds{40e-6}}};
  d.measured.scalars.push_back({.name = "dispatch meeting", .unit = "s", .num_ranks = 2, .value = exactly(1e-4)});
  d.measured.scalars.push_back({.name = "overlap bf16", .value = exactly(1.2)});
  d.measured.samples.clear();
  d.values.emplace_back("kernel_overhead",
                        ProfileValue{.value = 4.5, .unit = "us", .kind = "measured", .source = "me"});
  return profile_text(d);
}

std::string shipped() { return profile_text(default_profile(std::string("h100-sxm"))); }

std::string damaged(std::string text, std::mt19937_64& random) {
  static const std::vector<std::string> kWrong = [] {
    std::vector<std::string> out{"0",
                                 "-1",
                                 "1e18",
                                 "-1e18",
                                 "1e-18",
                                 "1e308",
                                 "1e-308",
                                 "5e-324",
                                 "1e400",
                                 "nan",
                                 ".nan",
                                 "-.inf",
                                 "0.5",
                                 "2.5",
                                 "2147483648",
                                 "9223372036854775807",
                                 "18446744073709551616",
                                 "99999999999999999999999",
                                 "\"12\"",
                                 "many",
                                 "null",
                                 "[1, 2]",
                                 "{a: 1}"};
    for (const ProfileRange& row : profile_ranges())
      for (const double end : {row.range.least, row.range.most}) out.push_back(fmt::format("{:.16g}", end));
    return out;
  }();
  static const std::regex kNumber(R"(([:\[,] ?)(-?[0-9][0-9.e+-]*)(?=[,\]}\n]))");
  static const std::regex kField(R"([a-z0-9_]+: [^,\[{\n"]+, )");
  const auto below = [&](std::size_t n) { return std::size_t(random() % n); };
  for (std::size_t round = 1 + below(3); round > 0; --round) {
    const bool is_removed = below(10) == 0;
    const std::regex& kind = is_removed ? kField : kNumber;
    const std::vector<std::smatch> places(std::sregex_iterator(text.begin(), text.end(), kind), {});
    if (places.empty()) continue;
    const std::smatch& place = places[below(places.size())];
    const auto group = std::size_t(is_removed ? 0 : 2);
    text.replace(std::size_t(place.position(group)), std::size_t(place.length(group)),
                 is_removed ? "" : kWrong[below(kWrong.size())]);
  }
  return text;
}

struct Figures {
  double step_seconds = 0, outside_bytes = 0;
};

/// The slowest strategy, and the most memory outside of tensors.
Figures figures_of(const Answered& a) {
  Figures most;
  const nlohmann::json answer = nlohmann::json::parse(a.out);
  for (const auto& s : answer.at("strategies")) {
    if (!s.at("not_applicable").is_null()) continue;
    most.step_seconds = std::max(most.step_seconds, s.at("step_seconds").get<double>());
    most.outside_bytes =
        std::max(most.outside_bytes, s.at("process_bytes").get<double>() - s.at("reserved_bytes").get<double>());
  }
  return most;
}

void write_profile(const std::string& text) { std::ofstream("p.yaml", std::ios::binary) << text; }

/// The kind of answer when this profile is used: refused, or so many times slower than with the shipped profile.
struct Verdict {
  std::string law;  // that it breaks
  bool is_refused = false;
  double times_as_long = 0;
};

Verdict verdict(const Question& question, const std::string& text) {
  write_profile(shipped());
  const Figures usual = figures_of(ask(question));
  write_profile(text);
  const Answered a = ask(question);
  if (std::string law = broken_law(question, a); !law.empty()) return {law};
  if (a.code == 3) return {"refused as if the machine had failed: " + a.err};
  if (a.code == 2) return {a.err.find("p.yaml") == std::string::npos ? "the file is not named: " + a.err : "", true};
  const Figures now = figures_of(a);
  if (!(now.step_seconds <= kMostTimesAsLong * usual.step_seconds))
    return {fmt::format("a step of {} s, {} s with the shipped profile", now.step_seconds, usual.step_seconds)};
  if (!(now.outside_bytes <= usual.outside_bytes + kMostOutside))
    return {fmt::format("{} B outside of tensors", now.outside_bytes)};
  return {.times_as_long = now.step_seconds / usual.step_seconds};
}

/// Every number that is computed with at an end of its range, all at the slow one or all at the fast one.
std::string at_ends(const std::string& profile, bool is_slowest) {
  std::string part, text;
  std::istringstream lines(profile);
  for (std::string line; std::getline(lines, line); text += line + "\n") {
    const std::size_t word = line.find_first_not_of(" -");
    for (const std::string name : {"values", "measured_on", "gemm", "kernels", "attention", "collectives", "scalars"})
      if (word != std::string::npos && line.substr(word).starts_with(name + ":")) part = name;
    for (const ProfileRange& row : profile_ranges()) {
      const bool is_rate = row.unit == FitUnit::FlopRate || row.unit == FitUnit::ByteRate ||
                           row.name.ends_with("_efficiency") || row.name.ends_with("_attention") ||
                           row.name.ends_with("_fallback");
      const double end = is_rate == is_slowest ? row.range.least : row.range.most;
      const bool has_unit = part == "values" && row.unit != FitUnit::Plain;  // of its own
      if (row.part != part || row.is_whole || part == "scalars" || has_unit) continue;
      line = std::regex_replace(line, std::regex(fmt::format(R"(\b({}: (?:\[|\{{value: ))[^,]*,)", row.name)),
                                fmt::format("$01{:.16g},", end));
    }
  }
  return text;
}

/// The calibration with one number as it stands there replaced.
std::string with(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("profiles: a number out of its range is refused with file, field, value and range") {
  struct Row {
    const char *from, *to, *message;
  };
  for (const Row& row : {
           Row{"tile_m: 128", "tile_m: 0", "loads[0].gemm[0].tile_m: 0 is out of range: 1 to 4096"},
           Row{"tile_n: 128", "tile_n: 0", "loads[0].gemm[0].tile_n: 0 is out of range: 1 to 4096"},
           Row{"tile_m: 128", "tile_m: 2.5", "loads[0].gemm[0].tile_m: 2.5 is no whole number: 1 to 4096"},
           Row{"num_units: 1,", "num_units: 0,", "loads[0].gemm[0].num_units: 0 is out of range: 1 to 10000"},
           Row{"bandwidth: [1e+11", "bandwidth: [1e-18",
               "loads[0].gemm[0].bandwidth: 1e-18 is out of range: 1000000 to 1e+16 B/s"},
           Row{"k_half: [0", "k_half: [1e18", "loads[0].gemm[0].k_half: 1e+18 is out of range: 0 to 10000"},
           Row{"m_half: [0", "m_half: [1e18", "loads[0].gemm[0].m_half: 1e+18 is out of range: 0 to 10000"},
           Row{"memory_loss: [0", "memory_loss: [1e18",
               "loads[0].gemm[0].memory_loss: 1e+18 is out of range: 0 to 100"},
           Row{"num_cores: 100", "num_cores: 0", "measured_on.num_cores: 0 is out of range: 1 to 1000000"},
           Row{"value: 4.5, unit: \"us\"", "value: 1e9, unit: \"us\"",
               "values.kernel_overhead.value: 1000000000 us is out of range: 0 to 1 s"},
           Row{"correction: [4,", "correction: [0,", "loads[0].gemm[0].correction: 0 is out of range: 0.01 to 100"},
           Row{"from_bytes: 1048576", "from_bytes: 0", "collectives[0].segments: must rise in from_bytes"},
       }) {
    const std::string text = with(calibrated(), row.from, row.to);
    CAPTURE(std::string(row.to));
    const std::string found = check_all({question_of(kQuestions[0])}, [&](const Question& q) -> std::string {
                                write_profile(text);
                                const Answered a = ask(q);
                                return fmt::format("{} {}{}", a.code, a.out, a.err);
                              }).front();
    CHECK(found.starts_with("2 gpuplan: p.yaml:"));
    CHECK_MESSAGE(found.find(row.message) != std::string::npos, found);
  }
}

TEST_CASE(
    "profiles: all numbers at the slow ends of their ranges, or at the fast ones, are answered within the limits") {
  for (const bool is_slowest : {true, false})
    for (const char* const line : kQuestions)
      for (const std::string& text : {at_ends(calibrated(), is_slowest), at_ends(shipped(), is_slowest)}) {
        CAPTURE(std::string(line));
        CAPTURE(is_slowest);
        const std::string found = check_all({question_of(line)}, [&](const Question& q) {
                                    const Verdict v = verdict(q, text);
                                    if (!v.law.empty()) return v.law;
                                    return v.is_refused ? ask(q).err : fmt::format("{} times as long", v.times_as_long);
                                  }).front();
        CAPTURE(found);
        CHECK(found.ends_with(" times as long"));
        std::cout << fmt::format("{} ends: {}\n", is_slowest ? "slow" : "fast", found);
        const double times = std::strtod(found.c_str(), nullptr);
        CHECK((!is_slowest || times > 100));
      }
}

TEST_CASE("profiles: a damaged one is refused with a message or answered within the stated limits") {
  const int rounds = num_rounds(60, 100, 10'000);
  const std::string texts[] = {calibrated(), shipped()};
  int num_refused = 0;
  std::vector<Question> questions;
  for (int i = 0; i < rounds; ++i) {
    questions.push_back(question_of(kQuestions[std::size_t(i) % std::size(kQuestions)]));
    questions.back().number = std::uint64_t(i);
  }
  const auto text_of = [&](const Question& q) {
    std::mt19937_64 random(q.number);
    return damaged(texts[random() % 3 == 0], random);
  };
  const std::vector<std::string> verdicts = check_all(questions, [&](const Question& q) {
    const Verdict v = verdict(q, text_of(q));
    return v.is_refused && v.law.empty() ? "refused" : v.law;
  });
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (verdicts[i] == "refused") {
      ++num_refused;
      continue;
    }
    CAPTURE(i);
    CAPTURE(verdicts[i] == "" ? "" : text_of(questions[i]));
    CHECK(verdicts[i] == "");
  }
  std::cout << fmt::format("{} damaged profiles, {} refused\n", rounds, num_refused);
  CHECK(num_refused > rounds / 4);
  CHECK(num_refused < rounds);
}

TEST_CASE("profiles: docs/limits.md states the range of every number, as the reader has it") {
  std::vector<std::vector<std::string>> rows;  // part, numbers, range
  for (const ProfileRange& row : profile_ranges()) {
    const bool is_unit = row.part == "scalars" && !row.is_whole;
    const std::string name = !is_unit           ? fmt::format("`{}`", row.name)
                             : row.name.empty() ? std::string("without a unit")
                                                : fmt::format("in {}", row.name);
    if (!rows.empty() && rows.back()[0] == row.part && rows.back()[2] == to_string(row))
      rows.back()[1] += ", " + name;
    else
      rows.push_back({std::string(row.part), name, to_string(row)});
  }
  std::string table = "| part | numbers | range |\n| --- | --- | --- |\n";
  for (const auto& row : rows) table += fmt::format("| `{}` | {} | {} |\n", row[0], row[1], row[2]);
  const std::string page = read_file(std::filesystem::path(GPUPLAN_TEST_DIR).parent_path() / "docs" / "limits.md");
  CHECK_MESSAGE(page.find(table) != std::string::npos, table);
}
