#include "ecosystem/trained_parameters.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "ecosystem/inserted_layers.h"
#include "models/trained_names.h"

namespace gpuplan {
namespace {

constexpr std::size_t kMostLetters = 2000;  // of a regular expression

/// 3, 7, 8 and 9 as "3,7-9".
std::string numbers_text(const std::set<std::int64_t>& numbers) {
  std::vector<std::string> parts;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const std::int64_t first = *at;
    std::int64_t last = first;
    for (++at; at != numbers.end() && *at == last + 1; ++at) last = *at;
    parts.push_back(first == last ? std::to_string(first) : fmt::format("{}-{}", first, last));
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

std::string without_end(std::string name, std::string_view end) {
  if (name.ends_with(end)) name.resize(name.size() - end.size());
  return name;
}

/// The part of a name that is meant of layers that share a prefix, "model.layers.{}.".
struct MeantLayers {
  std::set<std::int64_t> all, whole;                     // numbers of layers
  std::map<std::string, std::set<std::int64_t>> single;  // by tensor, of layers that are not meant whole
};

std::string name_in_layers(const std::string& prefix, const std::set<std::int64_t>& numbers,
                           const std::set<std::int64_t>& all, const std::string& below) {
  std::string name = prefix;
  if (const std::size_t at = name.find("{}"); at != std::string::npos)
    name.replace(at, 2, numbers == all ? "*" : numbers_text(numbers));
  return without_end(name + below, ".");
}

void add_names(std::vector<std::string>& out, const std::string& prefix, const MeantLayers& layers) {
  if (!layers.whole.empty()) out.push_back(name_in_layers(prefix, layers.whole, layers.all, ""));
  for (const auto& [tensor, numbers] : layers.single)
    out.push_back(tensor.starts_with('/') ? tensor.substr(1) : name_in_layers(prefix, numbers, layers.all, tensor));
}

/// An expert's name, "mlp.experts.{}.up_proj", means every expert.
std::string name_of_tensor(const std::string& tensor) {
  std::string name = without_end(tensor, ".weight");
  if (const std::size_t at = name.find("{}"); at != std::string::npos) name.replace(at, 2, "*");
  return name;
}

class Chooser {
 public:
  Chooser(const ConfigReading& reading, EstimateRequest& request, std::vector<std::string>& notes)
      : s_(reading.setup),
        file_(reading.file),
        r_(request),
        notes_(notes),
        weights_(list_weights(request.model)) {}

  void choose() {
    if (s_.unfrozen) choose_unfrozen();
    if (s_.freezes_layers.value_or(false)) choose_layers();
    if (s_.drawn_layers.value_or(0) > 0 || s_.badam.value_or(false)) choose_drawn();
    if (s_.adapted_layers && r_.recipe.is_adapter()) choose_adapted();
    if (freezes_by_name() && !r_.recipe.is_adapter()) choose_by_name();
    if (s_.decoder_trained || s_.encoder_trained || s_.fusion_trained) choose_parts();
  }

 private:
  [[noreturn]] void fail(const std::string& problem, const std::string& hint) const {
    throw InputError(file_, problem, hint);
  }

  void train(const MeansParameter& is_meant, const std::string& what) {
    r_.recipe.trained = names_of_meant(weights_, is_meant);
    if (r_.recipe.trained.empty())
      fail(fmt::format("{} name{} no parameter of {}, so nothing would be trained", what,
                       what.ends_with('s') ? "" : "s", r_.model.name),
           "names are those of the model's modules: model.layers.0.mlp.up_proj");
    if (r_.recipe.trained == names_of_meant(weights_, [](const auto&, const auto&) { return true; }))
      r_.recipe.trained.clear();
  }

  /// axolotl matches from the beginning, takes a dot for a dot, and trains the rows of a range of which it sets other
  /// gradients to zero. Source: axolotl src/axolotl/utils/freeze.py @067b021c.
  void choose_unfrozen() {
    std::vector<std::regex> patterns;
    std::vector<bool> is_used(s_.unfrozen->size());
    for (std::string text : *s_.unfrozen) {
      static const std::regex kRange(R"((.+)\[[0-9]*(:[0-9]*)?\])");
      std::smatch range;
      if (std::regex_match(text, range, kRange)) text = range[1].str();
      std::string dotted;
      for (std::size_t i = 0; i < text.size(); ++i)
        dotted += text[i] == '.' && (i + 1 == text.size() || text[i + 1] != '+') ? "\\." : std::string(1, text[i]);
      patterns.push_back(python_regex(dotted, "unfrozen_parameters"));
    }
    const auto is_meant = [&](const std::string& name) {
      bool is_named = false;
      for (std::size_t i = 0; i < patterns.size(); ++i)
        if (std::regex_search(name, patterns[i], std::regex_constants::match_continuous)) is_named = is_used[i] = true;
      return is_named;
    };
    if (r_.recipe.is_adapter()) {
      // the adapters' names begin with PEFT's own; what does not match them is frozen, they too
      if (is_meant("base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight")) return;
      fail("unfrozen_parameters names none of the adapters, so axolotl freezes them too and nothing is trained",
           "leave unfrozen_parameters out: adapters alone are trained anyway");
    }
    train(
        [&](const std::string& name, const WeightTensor& tensor) {
          return std::ranges::any_of(names_of_versions(name, tensor.part), is_meant);
        },
        "unfrozen_parameters");
    for (std::size_t i = 0; i < is_used.size(); ++i)
      if (!is_used[i])
        notes_.push_back(
            fmt::format("unfrozen_parameters: {} names no parameter of {}", (*s_.unfrozen)[i], r_.model.name));
  }

  /// LLaMA-Factory's freeze: the last layers, the first ones (a negative number), or every so many (LLaMA Pro).
  /// Source: hiyouga/LLaMA-Factory src/llamafactory/model/adapter.py (_setup_freeze_tuning) @ff6d4d12.
  void choose_layers() {
    const std::int64_t all = r_.model.num_hidden_layers;
    const auto asked = std::int64_t(s_.freeze_layers.value_or(2));
    const std::int64_t count = std::min(std::abs(asked), all);
    std::set<std::int64_t> layers;
    if (s_.spreads_layers.value_or(false)) {
      if (count == 0 || all % count != 0)
        fail(fmt::format("{} layers are not divisible by freeze_trainable_layers: {}", all, asked),
             "a number of layers that divides them");
      for (std::int64_t i = all / count - 1; i < all; i += all / count) layers.insert(i);
    } else {
      for (std::int64_t i = 0; i < count; ++i) layers.insert(asked > 0 ? all - count + i : i);
    }
    std::vector<std::string> parts;
    for (const std::string& module : s_.freeze_modules.value_or(std::vector<std::string>{"all"}))
      for (const std::int64_t i : layers) parts.push_back(fmt::format(".{}.{}", i, module == "all" ? "" : module));
    if (s_.freeze_extra) parts.insert(parts.end(), s_.freeze_extra->begin(), s_.freeze_extra->end());
    train(
        [&](const std::string& name, const WeightTensor& tensor) {
          const bool is_open = tensor.part == ModelPart::Language;
          return is_open && std::ranges::any_of(
                                parts, [&](const std::string& part) { return name.find(part) != std::string::npos; });
        },
        "freeze_trainable_layers");
  }

  /// Layers that change from time to time. Memory and time are largest where the first ones are trained, as backward
  /// goes down to them; those outside of layers are trained too under LISA, and not under BAdam. Sources: axolotl
  /// src/axolotl/utils/callbacks/lisa.py @067b021c; modelscope/ms-swift swift/callbacks/lisa.py @3602360a; Ledzy/BAdam
  /// src/badam/block_optim.py @bf989dcb (include_embedding, include_lm_head).
  void choose_drawn() {
    const bool is_badam = s_.badam.value_or(false);
    const std::int64_t count = is_badam ? 1 : std::min(*s_.drawn_layers, r_.model.num_hidden_layers);
    if (r_.recipe.is_adapter())
      fail(fmt::format("{} trains weights, and adapters are trained", is_badam ? "BAdam" : "LISA"),
           "train all weights");
    std::set<std::string> drawn;
    std::int64_t position = 0, num_drawn = 0;
    for (; position < weights_.num_layers(); ++position) {
      const LayerKind& kind = weights_.layer(position);
      if (kind.part != ModelPart::Language || kind.is_bridge) continue;
      for (const WeightTensor& t : kind.tensors)
        if (num_drawn < count) drawn.insert(parameter_name(kind, position, t));
      ++num_drawn;
    }
    for (const auto* list : {&weights_.before, &weights_.after})
      for (const WeightTensor& t : *list)
        if (!is_badam && t.part == ModelPart::Language) drawn.insert(t.name);
    train([&](const std::string& name, const WeightTensor&) { return drawn.contains(name); },
          is_badam ? "use_badam" : "the layers of LISA");
    r_.recipe.trained_in_turn = s_.drawn_keep_states.value_or(false);
    notes_.push_back(fmt::format(
        "counted where the first {} of the layers {} trained, down to which backward goes: others take less{}",
        count == 1 ? "one" : std::to_string(count), count == 1 ? "is" : "are",
        r_.recipe.trained_in_turn ? "; optimizer states of layers that were trained before stay, so all have them"
                                  : ""));
  }

  /// PEFT's layers_to_transform: adapters in layers of these numbers alone.
  void choose_adapted() {
    if (s_.adapted_layers->empty()) return;
    std::set<std::string> numbers;
    for (const std::int64_t layer : *s_.adapted_layers) numbers.insert(std::to_string(layer));
    train(
        [&](const std::string& name, const WeightTensor& tensor) {
          if (tensor.part != ModelPart::Language) return false;
          const auto parts = split(name, '.');
          const auto number = std::ranges::find_if(
              parts, [](const std::string& p) { return p.find_first_not_of("0123456789") == std::string::npos; });
          return number != parts.end() && numbers.contains(*number);
        },
        "layers_to_transform");
  }

  bool freezes_by_name() const {
    return s_.frozen_prefixes || s_.frozen_regex || s_.frozen_ratio.value_or(0) > 0 || s_.freezes_language ||
           s_.trained_prefixes || s_.trained_regex;
  }

  /// ms-swift: first a share of the elements is frozen, from the bottom, then names, then others are trained again.
  /// Source: modelscope/ms-swift swift/utils/transformers_utils.py (freeze_parameters, activate_parameters) @3602360a.
  void choose_by_name() {
    using Spellings = std::vector<std::string>;
    const auto begins = [](const Setup::Words& prefixes, const Spellings& names) {
      return prefixes && std::ranges::any_of(names, [&](const std::string& name) {
               return std::ranges::any_of(*prefixes, [&](const std::string& p) { return name.starts_with(p); });
             });
    };
    const auto finds = [](const std::regex& expression, const Spellings& names) {
      return std::ranges::any_of(names, [&](const std::string& name) { return std::regex_search(name, expression); });
    };
    const auto regex_of = [](const Setup::Word& text, const char* key) {
      return python_regex(text.value_or("(?!)"), key);
    };
    const std::regex frozen = regex_of(s_.frozen_regex, "freeze_parameters_regex"),
                     trained = regex_of(s_.trained_regex, "trainable_parameters_regex");
    const double most = s_.frozen_ratio.value_or(0) * double(weights_.total_elements());
    std::set<std::string> bottom;
    double below = 0;
    each_parameter(weights_, [&](const std::string& name, const WeightTensor& tensor) {
      below += double(tensor.elements());
      if (below <= most) bottom.insert(name);
    });
    train(
        [&](const std::string& name, const WeightTensor& tensor) {
          const Spellings names = names_of_versions(name, tensor.part);
          if (begins(s_.trained_prefixes, names) || finds(trained, names)) return true;
          const bool is_language = tensor.part == ModelPart::Language;
          return !(bottom.contains(name) || begins(s_.frozen_prefixes, names) || finds(frozen, names) ||
                   (is_language && s_.freezes_language.value_or(false)));
        },
        "freeze_parameters");
  }

  /// torchtune's decoder, encoder and the layers between them: each frozen, or trained as a whole or by adapters.
  void choose_parts() {
    const auto is_open = [](const Setup::Word& word, bool otherwise) { return word ? *word != "frozen" : otherwise; };
    const bool attends = r_.model.vision.is_attended;  // Llama 3.2 Vision: its own layers between text and tower
    for (const Setup::Word* word : {&s_.decoder_trained, &s_.encoder_trained, &s_.fusion_trained})
      if (r_.recipe.is_adapter() && *word == "full")
        fail("a part that is trained whole beside adapters of others is not modelled", "lora or frozen");
    const bool decoder = is_open(s_.decoder_trained, !attends), encoder = is_open(s_.encoder_trained, attends),
               fusion = is_open(s_.fusion_trained, true);
    if (r_.model.vision.is_present())
      r_.recipe.images.train = encoder ? TrainVision::All : fusion ? TrainVision::Projector : TrainVision::No;
    std::set<std::string> fused;
    for (std::size_t i = 0; i < weights_.order.size(); ++i) {
      const LayerKind& kind = weights_.layer(std::int64_t(i));
      if (!attends_to_images(kind.mixer)) continue;
      for (const WeightTensor& t : kind.tensors) fused.insert(parameter_name(kind, std::int64_t(i), t));
    }
    train(
        [&](const std::string& name, const WeightTensor& tensor) {
          if (tensor.part == ModelPart::Projector) return encoder || fusion;
          if (tensor.part == ModelPart::Tower) return encoder;
          return fused.contains(name) ? fusion : decoder;
        },
        "decoder_trainable, encoder_trainable and fusion_trainable");
  }

  const Setup& s_;
  const std::string& file_;
  EstimateRequest& r_;
  std::vector<std::string>& notes_;
  const ModelWeights weights_;
};

}  // namespace

void each_parameter(const ModelWeights& weights,
                    const std::function<void(const std::string&, const WeightTensor&)>& visit) {
  for (const WeightTensor& t : weights.before) visit(t.name, t);
  for (std::size_t i = 0; i < weights.order.size(); ++i) {
    const LayerKind& kind = weights.layer(std::int64_t(i));
    for (const WeightTensor& t : kind.tensors) visit(parameter_name(kind, std::int64_t(i), t), t);
  }
  for (const WeightTensor& t : weights.after) visit(t.name, t);
}

std::regex python_regex(const std::string& text, const std::string& where) {
  if (text.size() > kMostLetters) throw InputError(where, "a regular expression of more than 2,000 letters");
  try {
#ifdef __GLIBCXX__
    // __polynomial: no backtracking, so no expression takes exponential time
    return std::regex(text, std::regex::ECMAScript | std::regex_constants::__polynomial);
#else
    return std::regex(text);  // libc++ gives up by an exception
#endif
  } catch (const std::regex_error&) {
    throw InputError(where, fmt::format("the regular expression {} is not read", text),
                     "one without look-behind, back-references and named groups");
  }
}

std::vector<std::string> names_of_versions(const std::string& parameter, ModelPart part) {
  std::vector<std::string> names{parameter};
  const std::size_t layers = parameter.find("layers.");
  if (part == ModelPart::Language && layers != std::string::npos)
    for (const char* begin : {"model.language_model.", "language_model.model.", "model.text_model.", "model."})
      names.push_back(begin + parameter.substr(layers));
  if (part != ModelPart::Language) {
    const bool is_below = parameter.starts_with("model.");
    names.push_back(is_below ? parameter.substr(6) : "model." + parameter);
  }
  return names;
}

std::vector<std::string> names_of_meant(const ModelWeights& weights, const MeansParameter& is_meant) {
  std::vector<std::string> names;
  std::map<std::string, MeantLayers> by_prefix;
  for (std::size_t i = 0; i < weights.order.size(); ++i) {
    const auto position = std::int64_t(i);
    const LayerKind& kind = weights.layer(position);
    MeantLayers& layers = by_prefix[kind.prefix];
    const std::int64_t number = position - kind.offset;
    layers.all.insert(number);
    std::vector<std::string> meant;
    for (const WeightTensor& t : kind.tensors)
      if (is_meant(parameter_name(kind, position, t), t)) meant.push_back(name_of_tensor(t.name));
    const auto is_absolute = [](const WeightTensor& t) { return t.name.starts_with('/'); };
    // tensors of a projector, or behind a '/', have whole names of their own
    const bool has_name = !kind.prefix.empty() && std::ranges::none_of(kind.tensors, is_absolute);
    if (has_name && meant.size() == kind.tensors.size() && !meant.empty())
      layers.whole.insert(number);
    else
      for (const std::string& tensor : meant) layers.single[tensor].insert(number);
  }
  for (const WeightTensor& t : weights.before)
    if (is_meant(t.name, t)) names.push_back(without_end(t.name, ".weight"));
  for (const auto& [prefix, layers] : by_prefix) add_names(names, prefix, layers);
  for (const WeightTensor& t : weights.after)
    if (is_meant(t.name, t)) names.push_back(without_end(t.name, ".weight"));
  return names;
}

void settle_trained(const ConfigReading& reading, EstimateRequest& request, std::vector<std::string>& notes) {
  if (reading.setup.inserts_layers.value_or(false)) return insert_layers(reading, request, notes);
  Chooser(reading, request, notes).choose();
}

}  // namespace gpuplan
