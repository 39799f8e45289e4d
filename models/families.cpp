#include "models/families.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"

namespace gpuplan {
namespace {

// clang-format off
constexpr std::array kFamilies{
    &kLlama, &kMistral, &kQwen, &kQwen2, &kQwen3, &kSmolLm3, &kGemma, &kGemma2, &kGemma3Text, &kPhi, &kPhi3,
    &kOlmo, &kOlmo2, &kOlmo3, &kExaone4, &kGranite, &kGranite4, &kSeedOss, &kHunyuan, &kHunyuanMoe, &kGlm, &kGlm4, &kErnie, &kNemotron, &kArcee, &kStableLm, &kStarCoder2, &kGpt2, &kGptBigCode, &kGptNeoX, &kGptJ, &kFalcon, &kBloom, &kOpt, &kMpt,
    &kChatGlm, &kBaichuan, &kInternLm, &kInternLm2,
    &kMixtral, &kQwen2Moe, &kQwen3Moe, &kOlmoe, &kDeepSeek, &kDeepSeekV2, &kDeepSeekV3, &kKimiK2, &kKimiLinear, &kDbrx, &kGlm4Moe, &kGlm4MoeLite, &kDots1, &kMiniMaxM2, &kErnieMoe, &kGraniteMoe,
    &kGptOss, &kLlama4,
    &kQwen3Next, &kQwen35Text, &kQwen35MoeText, &kFalconH1, &kNemotronH, &kLfm2, &kLfm2Moe, &kBamba, &kJamba, &kMamba, &kFalconMamba, &kMamba2, &kGptNeo, &kApertus, &kPhiMoe,
    &kQwen2Vl, &kQwen25Vl, &kQwen3Vl, &kQwen3VlMoe, &kQwen35, &kQwen35Moe, &kGemma3, &kGemma4, &kGemma4Unified, &kGemma3n, &kPaliGemma, &kIdefics3, &kSmolVlm, &kLlava, &kLlavaNext, &kOneVision, &kInternVl, &kMllama, &kQwen25Omni, &kQwen3Omni, &kLfm2Vl, &kDeepSeekVl2,
    &kT5, &kMt5, &kBert, &kRoberta, &kXlmRoberta, &kModernBert, &kDebertaV2};
// clang-format on

/// Says whether `architecture` is one of the family's classes for tasks: "BertForMaskedLM" of "BertModel".
bool is_task_of(const Family& family, std::string_view type, std::string_view architecture) {
  constexpr std::string_view kModel = "Model", kFor = "For";
  const std::string_view stem = family.architecture.substr(0, family.architecture.size() - kModel.size());
  return family.is_encoder && type == family.model_type && architecture.starts_with(stem) &&
         architecture.substr(stem.size()).starts_with(kFor);
}

bool matches(std::string_view type, std::string_view architecture, std::string_view row_type,
             std::string_view row_architecture) {
  if (type.empty() && architecture.empty()) return false;
  return (type.empty() || type == row_type) && (architecture.empty() || architecture == row_architecture);
}

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

namespace {

const Family* find_exactly(std::string_view model_type, std::string_view architecture) {
  for (const Family* family : kFamilies)
    if (matches(model_type, architecture, family->model_type, family->architecture) ||
        is_task_of(*family, model_type, architecture) ||
        (!family->other_architecture.empty() &&
         matches(model_type, architecture, family->model_type, family->other_architecture)) ||
        (!family->wrapper_type.empty() &&
         matches(model_type, architecture, family->wrapper_type, family->wrapper_architecture)))
      return family;
  return nullptr;
}

}  // namespace

const Family* find_family(std::string_view model_type, std::string_view architecture) {
  if (const Family* family = find_exactly(model_type, architecture)) return family;
  std::string joined(model_type);  // "lfm2-vl", as some configs spell it
  std::ranges::replace(joined, '-', '_');
  return joined == model_type ? nullptr : find_exactly(joined, architecture);
}

const Family& family_of(const ModelSpec& spec) {
  for (const Family* family : kFamilies)
    if (family->name == spec.family) return *family;
  throw InputError(spec.source, fmt::format("model '{}' ({}) is not modelled yet", spec.name, spec.model_type),
                   "modelled: " + modelled_families());
}

std::string modelled_families() {
  std::string names;
  for (const Family* family : kFamilies) names += (names.empty() ? "" : ", ") + std::string(family->name);
  return names;
}

ModelWeights list_weights(const ModelSpec& model) { return family_of(model).list(model); }

}  // namespace gpuplan
