// Profiles for people: the list, one explained, two compared.
#pragma once

#include <string>
#include <vector>

#include "cluster/profile/profile.h"
#include "report/profile_list.h"
#include "report/profile_numbers.h"
#include "report/text/screen.h"

namespace gpuplan {

/// Gives what a measured profile says about its machine, in sentences: GEMM, memory, attention, copies, collectives,
/// how good the fits are. Empty for a shipped one.
std::vector<std::string> summary_sentences(const Profile& profile);
/// The same as a list of points.
std::string profile_summary(const Profile& profile, const Screen& screen);

enum class ShowPlots : unsigned char { No, Yes };

/// Machine, summary, tables of every fit and value; charts when asked for.
std::string profile_page(const Profile& profile, ShowPlots plots, const Screen& screen);

std::string profiles_text(const ProfileList& list, const Screen& screen);

std::string comparison_text(const Profile& first, const Profile& second, const ProfileComparison& comparison,
                            const Screen& screen);

}  // namespace gpuplan
