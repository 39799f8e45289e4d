#include "models/checkpoint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/unit_text.h"
#include "base/yaml_file.h"
#include "models/weights.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kShardIndex = "model.safetensors.index.json";

/// Says which tensors each shard holds.
using ShardMap = std::map<std::string, std::vector<std::string>>;

bool is_file_name(const std::string& name) {
  return !name.empty() && name.find("..") == std::string::npos && !fs::path(name).is_absolute();
}

/// A name that no file can have (too long, a NUL in it) is one that is not there.
ShardMap read_weight_map(const json& index, const std::string& where) {
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object() || map->empty())
    throw InputError(where, "weight_map: must be an object that gives the file of each tensor");
  ShardMap shards;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !is_file_name(file.get<std::string>()))
      throw InputError(where, fmt::format("weight_map.{}: must be a file name, found {}", tensor, file.dump()));
    for (const std::string& name : {tensor, file.get<std::string>()})
      require_plain_name(name, where, "tensors and shards have names that can be shown: is this the model's index?");
    shards[file.get<std::string>()].push_back(tensor);
  }
  return shards;
}

/// metadata.total_size is a whole number as a rule, but a float or a text in some files.
std::optional<double> read_total_size(const json& index) {
  const auto metadata = index.find("metadata");
  if (metadata == index.end() || !metadata->is_object()) return std::nullopt;
  const json size = metadata->value("total_size", json());
  if (size.is_number()) return size.get<double>();
  if (size.is_string()) return std::strtod(size.get<std::string>().c_str(), nullptr);
  return std::nullopt;
}

Checkpoint names_only(const ShardMap& shards) {
  Checkpoint checkpoint{.has_shapes = false};
  for (const auto& [file, tensors] : shards)
    for (const std::string& name : tensors) checkpoint.tensors.push_back({.name = name});
  return checkpoint;
}

void check_shard(const fs::path& shard, const std::vector<SafetensorsTensor>& found,
                 const std::vector<std::string>& listed) {
  std::set<std::string_view> names;
  for (const SafetensorsTensor& tensor : found) names.insert(tensor.name);
  for (const std::string& name : listed)
    if (!names.contains(name))
      throw InputError(shard.string(), fmt::format("lacks the tensor '{}' that {} lists here", name, kShardIndex));
}

void append(Checkpoint& checkpoint, const fs::path& file, std::vector<SafetensorsTensor> tensors) {
  checkpoint.files.insert(checkpoint.files.end(), tensors.size(), file);
  checkpoint.tensors.insert(checkpoint.tensors.end(), std::make_move_iterator(tensors.begin()),
                            std::make_move_iterator(tensors.end()));
}

Checkpoint read_shards(const fs::path& folder, MissingShards allowed) {
  const fs::path file = folder / kShardIndex;
  const json index = read_json_file(file, kIndexLimit);
  const ShardMap shards = read_weight_map(index, file.string());
  std::vector<std::string> missing;
  for (const auto& [shard, tensors] : shards)
    if (!is_there(folder / shard)) missing.push_back(shard);
  Checkpoint checkpoint;
  if (missing.size() == shards.size() || (!missing.empty() && allowed == MissingShards::NamesOnly))
    checkpoint = names_only(shards);
  else if (!missing.empty())
    throw InputError(
        file.string(),
        fmt::format("{} of {} shards are missing: {}", missing.size(), shards.size(), fmt::join(missing, ", ")),
        "download them, or plan from config.json alone");
  else
    for (const auto& [shard, listed] : shards) {
      auto tensors = read_safetensors_header(folder / shard);
      check_shard(folder / shard, tensors, listed);
      append(checkpoint, folder / shard, std::move(tensors));
    }
  checkpoint.total_bytes = read_total_size(index);
  return checkpoint;
}

/// Files without an index; adapters and Mistral's second copy ("consolidated") are not the model.
std::vector<fs::path> loose_files(const fs::path& folder) {
  std::vector<fs::path> files = files_in(folder, ".safetensors");
  std::erase_if(files, [](const fs::path& file) {
    const std::string name = file.filename().string();
    return name.starts_with("adapter_") || name.starts_with("consolidated");
  });
  return files;
}

void check_unique(const Checkpoint& checkpoint, const fs::path& folder) {
  std::set<std::string_view> names;
  for (const SafetensorsTensor& tensor : checkpoint.tensors)
    if (!names.insert(tensor.name).second)
      throw InputError(folder.string(), fmt::format("the tensor '{}' is in two safetensors files", tensor.name));
}

}  // namespace

std::optional<Checkpoint> read_checkpoint(const fs::path& folder, MissingShards missing) {
  Checkpoint checkpoint;
  if (is_there(folder / kSingleFile))
    append(checkpoint, folder / kSingleFile, read_safetensors_header(folder / kSingleFile));
  else if (is_there(folder / kShardIndex))
    checkpoint = read_shards(folder, missing);
  else if (missing == MissingShards::Refuse)
    for (const fs::path& file : loose_files(folder)) append(checkpoint, file, read_safetensors_header(file));
  check_unique(checkpoint, folder);
  if (!checkpoint.tensors.empty()) return checkpoint;
  if (is_there(folder / kSingleFile) || is_there(folder / kShardIndex) || !loose_files(folder).empty())
    throw InputError(folder.string(), "its safetensors files hold no tensors", "download them again");
  return std::nullopt;
}

namespace {

using TensorShape = std::vector<std::int64_t>;
using Expected = std::map<std::string, TensorShape>;

// Shares of the model's parameters, chosen by us: a plan 2 % off is wrong, 0.1 % is less than any estimate can see.
constexpr double kReportedShare = 0.001;
constexpr double kRefusedShare = 0.02;
constexpr std::size_t kMostLines = 100;  // of a report
constexpr std::size_t kMostInError = 5;

Expected expand(const ModelWeights& weights) {
  Expected expected;
  for (const WeightTensor& tensor : weights.before) expected[tensor.name] = tensor.shape;
  for (const WeightTensor& tensor : weights.after) expected[tensor.name] = tensor.shape;
  std::vector<std::int64_t> seen(weights.kinds.size());
  for (std::int64_t i = 0; i < weights.num_layers(); ++i) {
    const LayerKind& kind = weights.layer(i);
    const std::string prefix = fmt::format(fmt::runtime(kind.prefix), i - kind.offset);
    const std::int64_t number = seen[weights.order[std::size_t(i)]]++;
    for (const WeightTensor& tensor : kind.tensors)
      if (tensor.name.starts_with('/'))  // not relative to its layer; {} counts the layers of its kind
        expected[fmt::format(fmt::runtime(tensor.name.substr(1)), number)] = tensor.shape;
      else
        for (std::int64_t copy = 0; copy < tensor.copies; ++copy)
          expected[prefix + fmt::format(fmt::runtime(tensor.name), copy)] = tensor.shape;
  }
  return expected;
}

struct PrefixRule {
  std::string_view from, to;
};
// How checkpoints spell the same tensor: without the outer module (gpt2), wrapped (torch, multimodal).
constexpr std::array kPrefixRules{PrefixRule{"", ""},
                                  PrefixRule{"", "model."},
                                  PrefixRule{"", "transformer."},
                                  PrefixRule{"module.", ""},
                                  PrefixRule{"model.", "backbone."},
                                  PrefixRule{"bert.", ""},
                                  PrefixRule{"roberta.", ""},
                                  PrefixRule{"deberta.", ""},
                                  PrefixRule{"model.", ""},
                                  PrefixRule{"language_model.", ""},
                                  PrefixRule{"model.language_model.", "model."},
                                  PrefixRule{"model.language_model.", "language_model.model."},
                                  PrefixRule{"model.visual.", "visual."},
                                  PrefixRule{"model.vision_tower.", "vision_tower."},
                                  PrefixRule{"model.multi_modal_projector.", "multi_modal_projector."},
                                  PrefixRule{"model.image_newline", "image_newline"},
                                  PrefixRule{"model.vision_model.", "vision_model."},
                                  PrefixRule{"lm_head.", "language_model.lm_head."}};

/// The computed tensor that `name` is, or nullptr.
const Expected::value_type* find_expected(const Expected& expected, std::string_view name) {
  for (const PrefixRule& rule : kPrefixRules) {
    if (!name.starts_with(rule.from)) continue;
    const auto found = expected.find(std::string(rule.to) + std::string(name.substr(rule.from.size())));
    if (found != expected.end()) return &*found;
  }
  return nullptr;
}

struct KnownExtra {
  std::string_view prefix, suffix, meaning;
};
constexpr std::string_view kTiedHead = "a copy of the tied head";
constexpr std::string_view kScoreHead = "a head of scores in the place of the vocabulary's";
constexpr std::array kKnownExtras{
    KnownExtra{"", "rotary_emb.inv_freq", "rotary buffers"},
    KnownExtra{"", "rotary_pos_emb.inv_freq", "rotary buffers"},
    KnownExtra{"", ".attn.bias", "causal-mask buffers"},
    KnownExtra{"", ".attn.masked_bias", "causal-mask buffers"},
    KnownExtra{"", ".attention.bias", "causal-mask buffers"},
    KnownExtra{"", ".attention.masked_bias", "causal-mask buffers"},
    KnownExtra{"", "embeddings.position_ids", "position buffers"},
    KnownExtra{"cls.", "", "pre-training heads"},
    KnownExtra{"encoder.", "embed_tokens.weight", "copies of the shared embedding"},
    KnownExtra{"decoder.", "embed_tokens.weight", "copies of the shared embedding"},
    KnownExtra{"decoder.", "EncDecAttention.relative_attention_bias.weight", "unused biases"},
    KnownExtra{"vision_model.", "", "vision parts"},
    KnownExtra{"vision_tower.", "", "vision parts"},
    KnownExtra{"multi_modal_projector.", "", "vision parts"},
    KnownExtra{"model.vision_tower.", "", "vision parts"},
    KnownExtra{"model.visual.", "", "vision parts"},
    KnownExtra{"model.audio_tower.", "", "audio parts"},
    KnownExtra{"model.embed_audio.", "", "audio parts"},
    KnownExtra{"model.multi_modal_projector.", "", "vision parts"}};

/// A row of data/further_layers.yaml.
struct FurtherLayers {
  std::string family, prefix;  // no prefix: numbered after the last layer
};

std::vector<FurtherLayers> read_further_layers() {
  std::vector<FurtherLayers> out;
  YamlFile file = YamlFile::read(data_dir() / "further_layers.yaml");
  for (Fields& row : file.top().list("further_layers")) {
    out.push_back({row.text("family"), row.optional_text("prefix").value_or("")});
    static_cast<void>(row.text("source"));
    row.refuse_unknown();
  }
  file.finish();
  return out;
}

bool is_beyond_last_layer(std::string_view name, const ModelSpec& model) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return false;
  const std::string number(name.substr(kLayers.size(), name.find('.', kLayers.size()) - kLayers.size()));
  return !number.empty() && number.size() < 5 && number.find_first_not_of("0123456789") == std::string::npos &&
         std::stoll(number) >= model.num_layers();
}

bool predicts_further_tokens(std::string_view name, const ModelSpec& model) {
  return std::ranges::any_of(read_once<read_further_layers>(), [&](const FurtherLayers& row) {
    return row.family == model.family &&
           (row.prefix.empty() ? is_beyond_last_layer(name, model) : name.starts_with(row.prefix));
  });
}

}  // namespace

std::string_view extra_meaning(std::string_view name, const ModelSpec& model) {
  if (predicts_further_tokens(name, model)) return "layers that predict further tokens";
  if (model.tie_word_embeddings && name.ends_with("lm_head.weight")) return kTiedHead;
  if (name == "score.weight") return kScoreHead;  // transformers' GenericForSequenceClassification
  for (const KnownExtra& extra : kKnownExtras)
    if (name.starts_with(extra.prefix) && name.ends_with(extra.suffix)) return extra.meaning;
  return {};
}

namespace {

/// Packed or scaled weights: their elements are not parameters.
bool is_quantised(const SafetensorsTensor& tensor) {
  for (const std::string_view mark :
       {".absmax", ".quant_map", ".quant_state", ".qweight", ".qzeros", ".weight_scale", "_scale_inv", ".SCB"})
    if (tensor.name.find(mark) != std::string::npos) return true;
  return !tensor.dtype.empty() && tensor.dtype != "F32" && tensor.dtype != "F64" && tensor.dtype != "F16" &&
         tensor.dtype != "BF16";
}

struct Difference {
  std::string text;
  std::int64_t elements;
};

struct Comparison {
  std::vector<Difference> differences;
  std::map<std::string_view, std::int64_t> extras;  // elements by meaning
  std::int64_t num_matched{}, elements_differing{};

  void differ(std::string text, std::int64_t elements) {
    differences.push_back({std::move(text), elements});
    elements_differing += elements;
  }
};

std::int64_t product(const TensorShape& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  return elements;
}

std::string text_of(const TensorShape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

[[noreturn]] void refuse_quantised(const SafetensorsTensor& tensor, const std::filesystem::path& folder) {
  throw InputError(folder.string(),
                   fmt::format("the checkpoint is quantised: '{}' is stored as {}", tensor.name,
                               tensor.dtype.empty() ? "scales" : tensor.dtype),
                   "give the original 16-bit model; QLoRA quantises it while loading");
}

void compare_one(const SafetensorsTensor& tensor, const Expected::value_type& computed, bool has_shape,
                 Comparison& result) {
  ++result.num_matched;
  if (!has_shape || tensor.shape == computed.second) return;
  result.differ(fmt::format("{} is {} in the checkpoint, {} computed", tensor.name, text_of(tensor.shape),
                            text_of(computed.second)),
                std::abs(tensor.elements - product(computed.second)));
}

Comparison compare(const Checkpoint& checkpoint, const ModelSpec& model, const ModelWeights& weights,
                   const std::filesystem::path& folder) {
  Comparison result;
  Expected expected = expand(weights);  // what was not found yet
  const std::string& embedding = weights.before.front().name;
  for (const SafetensorsTensor& tensor : checkpoint.tensors) {
    const auto* computed = find_expected(expected, tensor.name);
    const std::string_view extra = computed ? "" : extra_meaning(tensor.name, model);
    if (extra.empty() && is_quantised(tensor)) refuse_quantised(tensor, folder);
    if (!extra.empty())
      result.extras[extra] += tensor.elements;
    else if (!computed)
      result.differ(fmt::format("{} {} is in the checkpoint only", tensor.name, text_of(tensor.shape)),
                    tensor.elements);
    else {
      compare_one(tensor, *computed, checkpoint.has_shapes, result);
      expected.erase(computed->first);
    }
  }
  if (result.extras.contains(kTiedHead) && expected.erase(embedding) > 0) {  // the only copy goes by the head's name
    result.extras.erase(kTiedHead);
    ++result.num_matched;
  }
  if (result.extras.contains(kScoreHead)) expected.erase("lm_head.weight");
  for (const auto& [name, shape] : expected)
    result.differ(fmt::format("{} {} is not in the checkpoint", name, text_of(shape)), product(shape));
  return result;
}

void refuse_different(const Comparison& result, double share, const std::filesystem::path& folder) {
  std::string problem =
      fmt::format("the checkpoint differs from config.json by {:.1f} % of the parameters:", 100 * share);
  for (std::size_t i = 0; i < std::min(kMostInError, result.differences.size()); ++i)
    problem += "\n  " + result.differences[i].text;
  if (result.differences.size() > kMostInError)
    problem += fmt::format("\n  and {} more", result.differences.size() - kMostInError);
  throw InputError(folder.string(), problem, "config.json and the safetensors files must be of the same model");
}

void note_differences(const Comparison& result, double share, std::vector<std::string>& notes) {
  notes.push_back(fmt::format("checkpoint: {} elements ({:.2f} %) differ from the computed tensors",
                              format_grouped(result.elements_differing), 100 * share));
  if (share <= kReportedShare) return;
  for (std::size_t i = 0; i < std::min(kMostLines, result.differences.size()); ++i)
    notes.push_back("checkpoint: " + result.differences[i].text);
  if (result.differences.size() > kMostLines)
    notes.push_back(fmt::format("checkpoint: and {} more", result.differences.size() - kMostLines));
}

/// Without shapes, the stored bytes are the only evidence of size: whole bytes per parameter, or other widths.
void check_total_size(const Checkpoint& checkpoint, const Comparison& result, std::int64_t parameters,
                      const std::filesystem::path& folder, std::vector<std::string>& notes) {
  notes.push_back(
      fmt::format("checkpoint: {} names of the index were compared; its shards are not all here, so no shapes were",
                  result.num_matched));
  if (!checkpoint.total_bytes || !result.extras.empty()) return;
  const double bytes_each = *checkpoint.total_bytes / double(parameters);
  const double nearest = bytes_each < 3 ? 2 : 4;
  if (std::abs(bytes_each / nearest - 1) > kRefusedShare)
    throw InputError(folder.string(),
                     fmt::format("the index says {:.0f} bytes, which is {:.2f} per computed parameter, neither 2 nor 4",
                                 *checkpoint.total_bytes, bytes_each),
                     "config.json and the index must be of the same 16- or 32-bit model");
  notes.push_back(
      fmt::format("checkpoint: total_size of the index is {:.3f} bytes per computed parameter", bytes_each));
}

}  // namespace

std::vector<std::string> check_checkpoint(const ModelSpec& model, const std::filesystem::path& folder,
                                          MissingShards missing) {
  const auto checkpoint = read_checkpoint(folder, missing);
  if (!checkpoint) return {};
  const ModelWeights weights = list_weights(model);
  const std::int64_t parameters = weights.total_elements();
  const Comparison result = compare(*checkpoint, model, weights, folder);
  const double share = double(result.elements_differing) / double(parameters);
  if (share > kRefusedShare) refuse_different(result, share, folder);

  std::vector<std::string> notes;
  if (!checkpoint->has_shapes) check_total_size(*checkpoint, result, parameters, folder, notes);
  if (!result.differences.empty())
    note_differences(result, share, notes);
  else if (checkpoint->has_shapes)
    notes.push_back(fmt::format("checkpoint: {} tensors with {} parameters, as computed", result.num_matched,
                                format_grouped(parameters)));
  for (const auto& [meaning, elements] : result.extras)
    notes.push_back(fmt::format("checkpoint: also stores {} ({} elements), which are not counted", meaning,
                                format_grouped(elements)));
  return notes;
}

}  // namespace gpuplan
