#include <array>
#include "cluster/collective_curve.h"
namespace gpuplan {
std::string_view to_string(RankScope scope) { constexpr std::array<std::string_view, 3> kNames{"all", "node", "pair"}; return kNames[std::size_t(scope)]; }
}
