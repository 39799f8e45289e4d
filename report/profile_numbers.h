// Names and numbers of a profile: what its fits are called and how good they are, every number under one name so that
// two profiles can be compared, and the samples behind them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/profile/measured.h"
#include "cluster/profile/probe.h"
#include "cluster/profile/profile.h"

namespace gpuplan {

std::string gemm_name(const GemmSurface& surface);          // "bf16 weight-gradient GEMM, thin-k"
std::string kernel_name(const KernelRate& rate);            // "rms-norm bf16"
std::string attention_name(const AttentionRate& rate);      // "flash attention bf16, head size 128"
std::string collective_name(const CollectiveCurve& curve);  // "all-reduce of 4 ranks", "send of 2 ranks, in pairs"
std::string ranks_suffix(std::int64_t num_ranks);           // ", 4 ranks at once"; empty for one

/// "off by 1.2 % (p90 4.0 %), held out 2.1 % (p90 6.3 %); 40 samples, 1 outlier", medians first; empty without samples.
std::string quality_text(const FitQuality& quality);

/// 0.0234 is "2.3 %".
std::string error_percent(double share);

FitUnit unit_of(const ScalarFit& scalar);

struct ProfileNumber {
  std::string name;  // "bf16 forward GEMM: rate", "gemm_efficiency"
  std::optional<FitUnit> unit;
  std::string own_unit;  // where there is none: the value's own
  Fitted number;
  bool has_interval = true;
};

/// Lists them in the order of the file: values, loads, collectives, scalars.
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

/// Lists them in the order of the file; none of a shipped profile. Throws InputError naming the file and the line of a
/// bad sample.
std::vector<Sample> samples_of(const Profile& profile);

/// Such a table begins with these names of columns.
inline constexpr std::string_view kSamplesBegin = "probe,family,num_ranks,unit,median,low,high,num_runs,num_outliers,";

/// The samples as a table for other programs: comma-separated, one line each under a line of names, base units.
std::string samples_csv(const std::vector<Sample>& samples);

}  // namespace gpuplan
