#include "models/checkpoint_quant.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fields.h"
#include "base/names.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr IntRange kBits{.least = 1, .most = 16}, kGroup{.least = -1, .most = 1 << 20};

QuantSpec packed(BaseQuant kind, std::int64_t bits, std::int64_t group) {
  return {.kind = kind, .packed = PackedBase{.bits = bits, .group = std::max<std::int64_t>(group, 0)}};
}

/// Bits and group of a format that keeps them under these keys.
QuantSpec read_groups(Fields& f, BaseQuant kind, std::string_view bits, std::string_view group) {
  const QuantFormat& usual = format_of(kind);
  return packed(kind, f.optional_integer(bits, kBits).value_or(usual.bits),
                f.optional_integer(group, kGroup).value_or(usual.group));
}

std::optional<QuantSpec> read_bitsandbytes(Fields& f) {
  if (f.optional_flag("load_in_8bit").value_or(false)) return QuantSpec{.kind = BaseQuant::Int8};
  QuantSpec quant{.kind = BaseQuant::Nf4};  // FP4, the default of bitsandbytes, takes as many bytes
  quant.double_quant = f.optional_flag("bnb_4bit_use_double_quant").value_or(false);
  quant.storage_dtype = parse_dtype(f.optional_text("bnb_4bit_quant_storage").value_or("uint8"), f.file());
  return quant;
}

/// `dynamic` gives modules whose names match other bits; the most decide. Those that it leaves alone ("-:…") are in
/// unquantised_of().
std::optional<QuantSpec> read_gptq(Fields& f) {
  QuantSpec widest = read_groups(f, BaseQuant::Gptq4, "bits", "group_size");
  if (auto dynamic = f.optional_fields("dynamic"))
    for (const std::string& pattern : dynamic->keys())
      if (auto of_some = pattern.starts_with("-:") ? std::nullopt : dynamic->optional_fields(pattern))
        if (const auto bits = of_some->optional_integer("bits", kBits); bits && *bits > widest.bits())
          widest.packed->bits = *bits;
  return widest;
}
std::optional<QuantSpec> read_awq(Fields& f) { return read_groups(f, BaseQuant::Awq, "bits", "group_size"); }

/// Codes of `nbits_per_codebook` for `in_group_size` inputs, in as many codebooks.
std::optional<QuantSpec> read_aqlm(Fields& f) {
  constexpr IntRange kSmall{.least = 1, .most = 64};
  const std::int64_t inputs = f.optional_integer("in_group_size", kSmall).value_or(8),
                     books = f.optional_integer("num_codebooks", kSmall).value_or(1),
                     bits = f.optional_integer("nbits_per_codebook", kBits).value_or(16);
  QuantSpec quant = packed(BaseQuant::Aqlm, std::max<std::int64_t>(1, books * bits / inputs), 0);
  quant.packed->codebook_bytes = books * (std::int64_t(1) << bits) * inputs * 2;
  return quant;
}

std::optional<QuantSpec> read_hqq(Fields& f) {
  auto config = f.optional_fields("quant_config");
  auto weights = config ? config->optional_fields("weight_quant_params") : std::nullopt;
  return weights ? read_groups(*weights, BaseQuant::Hqq, "nbits", "group_size") : packed(BaseQuant::Hqq, 4, 64);
}

/// The group of modules with the most bits decides, so that memory is not understated.
std::optional<QuantSpec> read_compressed(Fields& f) {
  std::optional<QuantSpec> widest;
  auto groups = f.optional_fields("config_groups");
  if (groups)
    for (const std::string& name : groups->keys())
      if (auto group = groups->optional_fields(name))
        if (auto weights = group->optional_fields("weights")) {
          QuantSpec quant = read_groups(*weights, BaseQuant::Compressed, "num_bits", "group_size");
          if (!weights->optional_integer("group_size", kGroup)) quant.packed->group = 0;  // a scale per channel
          if (!widest || quant.bits() > widest->bits()) widest = quant;
        }
  return widest ? widest : packed(BaseQuant::Compressed, 4, 128);
}

/// Model Optimizer writes NVFP4, FP8 or a mixture as `quant_algo`; the first alone is packed.
std::optional<QuantSpec> read_modelopt(Fields& f) {
  const std::string algorithm = to_lower(f.optional_text("quant_algo").value_or("nvfp4"));
  if (!algorithm.starts_with("nvfp4")) return std::nullopt;
  return packed(BaseQuant::Nvfp4, 4, f.optional_integer("group_size", kGroup).value_or(16));
}

/// A method of transformers, with the key of the modules that it leaves as they are.
struct MethodRow {
  std::string_view name;
  std::optional<QuantSpec> (*read)(Fields& f);  // nullptr: no adapters are trained on it
  std::string_view skips;
};
constexpr std::array kMethods{MethodRow{"bitsandbytes", read_bitsandbytes, "llm_int8_skip_modules"},
                              MethodRow{"gptq", read_gptq, "modules_to_not_convert"},
                              MethodRow{"awq", read_awq, "modules_to_not_convert"},
                              MethodRow{"aqlm", read_aqlm, "linear_weights_not_to_quantize"},
                              MethodRow{"hqq", read_hqq, "skip_modules"},
                              MethodRow{"compressed-tensors", read_compressed, "ignore"},
                              MethodRow{"modelopt", read_modelopt, "ignore"}};

/// Configs of bitsandbytes from before 2023-12 name no method.
std::string method_of(Fields& f) {
  std::string name = to_lower(f.optional_text("quant_method").value_or("bitsandbytes"));
  std::ranges::replace(name, '_', '-');
  return name;
}

/// Plain names of modules: "re:.*lm_head" of compressed-tensors is "lm_head".
std::string plain_name(std::string pattern) {
  if (pattern.starts_with("re:")) pattern.erase(0, 3);
  if (pattern.starts_with(".*")) pattern.erase(0, 2);
  if (pattern.ends_with("$") || pattern.ends_with("*")) pattern.pop_back();
  if (pattern.ends_with(".")) pattern.pop_back();
  std::erase(pattern, '\\');
  return pattern;
}

/// Names of modules that a method's config leaves as they are.
std::vector<std::string> unquantised_of(Fields& f, std::string_view key) {
  std::vector<std::string> names = f.texts(key);
  if (auto dynamic = f.optional_fields("dynamic"))
    for (const std::string& pattern : dynamic->keys())
      if (pattern.starts_with("-:")) names.push_back("re:" + pattern.substr(2));
  return names;
}

/// A word of a name, and the config that it stands for.
struct CopyRow {
  std::string_view word, config;
};
// clang-format off
constexpr std::array kCopies{
    CopyRow{"bnb 8bit", R"({"quant_method": "bitsandbytes", "load_in_8bit": true})"},
    // hugging-quants and axolotl-quants name what the 4-bit values are stored in, so that FSDP can shard them
    CopyRow{"bnb nf4 bf16",
            R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_use_double_quant": true, )"
            R"("bnb_4bit_quant_storage": "bfloat16"})"},
    CopyRow{"bnb", R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_use_double_quant": true})"},
    CopyRow{"gptq int8", R"({"quant_method": "gptq", "bits": 8})"},
    CopyRow{"gptq 8bit", R"({"quant_method": "gptq", "bits": 8})"},
    CopyRow{"gptq int3", R"({"quant_method": "gptq", "bits": 3})"},
    CopyRow{"gptq 3bit", R"({"quant_method": "gptq", "bits": 3})"},
    CopyRow{"gptq", R"({"quant_method": "gptq", "bits": 4})"},
    CopyRow{"awq", R"({"quant_method": "awq", "bits": 4})"},
    CopyRow{"aqlm 2x8", R"({"quant_method": "aqlm", "num_codebooks": 2, "nbits_per_codebook": 8})"},
    CopyRow{"aqlm", R"({"quant_method": "aqlm"})"},
    CopyRow{"hqq", R"({"quant_method": "hqq"})"},
    CopyRow{"w4a16", R"({"quant_method": "compressed-tensors"})"},
    CopyRow{"w8a16", R"({"quant_method": "compressed-tensors", "config_groups": {"0": {"weights": {"num_bits": 8}}}})"},
    CopyRow{"w8a8", R"({"quant_method": "compressed-tensors", "config_groups": {"0": {"weights": {"num_bits": 8}}}})"},
    CopyRow{"fp8 dynamic",
            R"({"quant_method": "compressed-tensors", "config_groups": {"0": {"weights": {"num_bits": 8}}}})"},
    CopyRow{"fp8", R"({"quant_method": "fp8"})"},
    CopyRow{"mxfp4", R"({"quant_method": "mxfp4"})"},
    CopyRow{"autoround", R"({"quant_method": "auto-round"})"},
    CopyRow{"auto round", R"({"quant_method": "auto-round"})"},
    CopyRow{"nvfp4", R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]})"},
    CopyRow{"fp4", R"({"quant_method": "fp4"})"},
    CopyRow{"gguf", R"({"quant_method": "gguf"})"},
    CopyRow{"exl2", R"({"quant_method": "exl2"})"},
    CopyRow{"exl3", R"({"quant_method": "exl3"})"},
    CopyRow{"mlx", R"({"quant_method": "mlx"})"},
    CopyRow{"int4", R"({"quant_method": "int4"})"},
    CopyRow{"int8", R"({"quant_method": "int8"})"},
    CopyRow{"4bit", R"({"quant_method": "4bit"})"},
    CopyRow{"8bit", R"({"quant_method": "8bit"})"},
    CopyRow{"bf16", "{}"},
    CopyRow{"fp16", "{}"}};
// clang-format on

std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : to_lower(name))
    if (std::string_view("-_. /").find(c) == std::string_view::npos)
      words.back() += c;
    else
      words.emplace_back();
  return words;
}

}  // namespace

Bytes Unpacking::bytes_of(std::int64_t values) const {
  const std::int64_t at_once = values_at_once > 0 ? std::min(values, values_at_once) : values;
  return {std::llround(bytes_per_value * double(values) + bytes_at_once * double(at_once))};
}

std::string to_string(const CheckpointQuant& checkpoint) {
  if (!checkpoint.base) return checkpoint.method;
  return fmt::format("{} in {} bits", checkpoint.method, checkpoint.base->bits());
}

CheckpointQuant read_checkpoint_quant(Fields& config) {
  auto f = config.optional_fields("quantization_config");
  if (!f || f->keys().empty()) return {};
  CheckpointQuant out{.method = method_of(*f), .base = {}, .skips = {}};
  const auto row = std::ranges::find(kMethods, out.method, &MethodRow::name);
  if (row == kMethods.end()) return out;
  out.base = row->read(*f);
  for (const std::string& name : unquantised_of(*f, row->skips)) out.skips.push_back(plain_name(name));
  std::erase(out.skips, "");
  return out;
}

json quantization_config_of_name(std::string_view name) {
  const std::vector<std::string> words = words_of(name);
  const auto has = [&](const std::string& word) { return std::ranges::find(words, word) != words.end(); };
  for (const CopyRow& row : kCopies)
    if (std::ranges::all_of(split(row.word, ' '), has)) return json::parse(row.config);
  return nullptr;
}

bool is_copy_word(std::string_view word) { return std::ranges::find(kCopies, word, &CopyRow::word) != kCopies.end(); }

bool keeps_dtype(const CheckpointQuant& checkpoint, std::string_view module) {
  return std::ranges::any_of(checkpoint.skips, [&](const std::string& skip) {
    const std::size_t at = module.find(skip);
    if (at == std::string_view::npos) return false;
    const std::size_t end = at + skip.size();
    return (at == 0 || module[at - 1] == '.') && (end == module.size() || module[end] == '.');
  });
}

}  // namespace gpuplan
