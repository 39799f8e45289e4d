// Every number of a profile under one name, so that two profiles can be compared number by number.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/profile/profile.h"

namespace gpuplan {

FitUnit unit_of(const ScalarFit& scalar);

struct ProfileNumber {
  std::string name;  // "bf16 forward GEMM: rate", "gemm_efficiency"
  std::optional<FitUnit> unit;
  std::string own_unit;  // where there is none: the value's own
  Fitted number;
  bool has_interval = true;
};

/// In the order of the file: values, loads, collectives, scalars.
std::vector<ProfileNumber> numbers_of(const Profile& profile);

/// "FLOP/s", "B/s", "s", "B", "" of a plain number, or the value's own.
std::string unit_name(const ProfileNumber& number);

/// One number in two profiles.
struct ComparedNumber {
  ProfileNumber first, second;
  std::optional<double> ratio;               // second over first; nothing when the first is 0
  std::optional<bool> do_intervals_overlap;  // nothing without both intervals
};

struct ProfileComparison {
  std::vector<ComparedNumber> both;  // in the order of the first
  std::vector<std::string> only_in_first, only_in_second;
  std::int64_t num_with_intervals = 0, num_agreeing = 0;
  double agreement() const { return num_with_intervals == 0 ? 0 : double(num_agreeing) / double(num_with_intervals); }
};

/// Numbers that neither profile measured and that are equal are left out: they are the shipped ones.
ProfileComparison compare_profiles(const Profile& first, const Profile& second);

}  // namespace gpuplan
