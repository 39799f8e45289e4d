#include "models/model_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/names.h"
#include "models/checkpoint_quant.h"
#include "models/families.h"

namespace gpuplan {
namespace {

constexpr std::array<std::string_view, 8> kVariantWords{"hf", "instruct", "chat", "base", "it", "pt", "text", "meta"};
constexpr std::string_view kSeparators = " -_";

bool is_variant_word(const std::string& part) {
  return std::count(kVariantWords.begin(), kVariantWords.end(), part) > 0;
}

/// "v0.1", "v1.0", or a date as in "Mistral-Nemo-Base-2407".
bool is_version(const std::string& part) {
  const auto digits = std::count_if(part.begin(), part.end(), is_digit);
  const auto dots = std::count(part.begin(), part.end(), '.');
  if (part.starts_with("v")) return digits > 0 && digits + dots + 1 == std::ssize(part);
  return digits == 4 && part.size() == 4;
}

using Parts = std::vector<std::string>;

/// Words that stand beside those of copies (is_copy_word) at the end of a name, with what belongs to them:
/// "-GPTQ-4b-128g", "-FP8-dynamic", "-unsloth-bnb-4bit", "-quantized.w4a16", "-Q4_K_M-GGUF".
constexpr std::array<std::string_view, 7> kFormatWords{"ggml", "nf4", "qat", "i1", "unsloth", "quantized", "bitnet"};

bool is_digits(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_digit); }

bool is_format_word(const std::string& part) {
  const std::string_view word(part);
  if (is_copy_word(word) || std::ranges::find(kFormatWords, word) != kFormatWords.end()) return true;
  if (word.starts_with("quantized.")) return true;
  if (word.ends_with("bit")) return is_digits(word.substr(0, word.size() - 3));  // "4bit"
  const std::size_t a = word.find('a');                                          // "w8a8"
  if (word.starts_with('w') && a != std::string_view::npos && is_digits(word.substr(1, a - 1))) return true;
  return word.size() == 2 && word[0] == 'q' && is_digit(word[1]);  // "q4" of "Q4_K_M"
}

/// Publishers of copies under the original names. Their Phi models are rewritten as Llama's or Mistral's.
constexpr std::array<std::string_view, 2> kCopyists{"unsloth", "nousresearch"};
bool is_copyist(std::string_view organisation) { return std::ranges::find(kCopyists, organisation) != kCopyists.end(); }

struct SplitName {
  std::string organisation;
  Parts parts;
  std::string version;
  bool is_packed{};  // ended in a number format, which is not among the parts
};

SplitName split_name(std::string_view text) {
  SplitName name;
  const std::string lower = to_lower(trim(text));
  const auto slash = lower.rfind('/');
  if (slash != std::string::npos) name.organisation = squash(lower.substr(0, slash));
  std::string part;
  for (const char c : lower.substr(slash == std::string::npos ? 0 : slash + 1) + " ") {
    if (kSeparators.find(c) == std::string_view::npos)
      part += c;
    else if (!part.empty())
      name.parts.push_back(std::exchange(part, {}));
  }
  const auto format = std::ranges::find_if(name.parts, is_format_word);
  if (format != name.parts.begin() && format != name.parts.end()) {
    name.is_packed = true;
    name.parts.erase(format, name.parts.end());
  }
  for (const std::string& one : name.parts)
    if (is_version(one)) name.version += one;
  return name;
}

/// Letters and digits alone, and where digits that meet were apart: at a dot, or at a gap (any other separator).
/// "qwen2.5-7b" and "qwen2-57b" have the same letters; only these tell them apart.
struct NameForm {
  std::string squashed;
  std::set<std::size_t> dots, gaps;

  bool meets_digit(std::size_t at) const {
    return at > 0 && at < squashed.size() && is_digit(squashed[at - 1]) && is_digit(squashed[at]);
  }
  std::set<std::size_t> breaks() const {
    std::set<std::size_t> all = dots;
    all.insert(gaps.begin(), gaps.end());
    return all;
  }
  /// Dots of a size, "2.7b": leaving one out makes another size.
  std::set<std::size_t> size_dots() const {
    std::set<std::size_t> found;
    for (const std::size_t dot : dots) {
      std::size_t end = dot;
      while (end < squashed.size() && is_digit(squashed[end]) && (end == dot || !gaps.contains(end))) ++end;
      if (end < squashed.size() && (squashed[end] == 'b' || squashed[end] == 'm')) found.insert(dot);
    }
    return found;
  }
};

NameForm form_of(const Parts& parts) {
  NameForm form;
  for (const std::string& part : parts) {
    form.gaps.insert(form.squashed.size());
    for (const char c : part) {
      if (c == '.')
        form.dots.insert(form.squashed.size());
      else
        form.squashed += c;
    }
  }
  std::erase_if(form.dots, [&](std::size_t at) { return !form.meets_digit(at); });
  std::erase_if(form.gaps, [&](std::size_t at) { return !form.meets_digit(at); });
  return form;
}

/// Equal letters, and breaks only where `entry` has them, a dot at a dot. A text that breaks its digits at all must do
/// so at every gap; the dot of a size is never left out.
bool is_same(const NameForm& text, const NameForm& entry) {
  if (text.squashed.empty() || text.squashed != entry.squashed) return false;
  const auto written = text.breaks();
  return std::ranges::includes(entry.dots, text.dots) && std::ranges::includes(entry.breaks(), text.gaps) &&
         std::ranges::includes(written, entry.size_dots()) &&
         (written.empty() || std::ranges::includes(written, entry.gaps));
}

/// Without versions and without variant words, except those that `keep` has.
NameForm core_of(const SplitName& name, const Parts& keep) {
  Parts parts;
  for (const std::string& part : name.parts) {
    const bool is_kept = part != "text" && std::count(keep.begin(), keep.end(), part) > 0;
    const bool is_dropped = is_version(part) || (is_variant_word(part) && !is_kept);
    if (!is_dropped) parts.push_back(part);
  }
  return form_of(parts);
}

enum class Nearness { ShortName, HubName, SameModel };

/// Says whether who published `text` may mean a model of `organisation`: its own, or a copy of it.
bool may_publish(const SplitName& text, std::string_view organisation, const CatalogueEntry& entry) {
  if (text.organisation.empty() || text.organisation == organisation) return true;
  const bool is_rewritten = is_copyist(text.organisation) && entry.model_type.starts_with("phi");
  return (text.is_packed || is_copyist(text.organisation)) && !is_rewritten;
}

/// A name of the catalogue, taken apart once.
struct KnownName {
  SplitName name;
  NameForm form;
};

const KnownName& known_name(const std::string& text) {
  static thread_local std::unordered_map<std::string, KnownName> known;
  const auto [at, is_new] = known.try_emplace(text);
  if (is_new) {
    at->second.name = split_name(text);
    at->second.form = form_of(at->second.name.parts);
  }
  return at->second;
}

/// Says whether the letters of a name, which may end in a number format, begin with those: a look before it is taken
/// apart.
bool may_be(std::string_view name, std::string_view squashed) {
  for (const char c : name.substr(name.rfind('/') + 1)) {
    if (squashed.empty()) return true;
    if (c == '.' || kSeparators.find(c) != std::string_view::npos) continue;
    if (std::tolower(static_cast<unsigned char>(c)) != squashed.front()) return false;
    squashed.remove_prefix(1);
  }
  return squashed.empty();
}

bool matches_id(const SplitName& text, const NameForm& form, const CatalogueEntry& entry, const std::string& short_name,
                const std::string& id, Nearness nearness) {
  if (nearness == Nearness::ShortName && !may_be(short_name, form.squashed)) return false;
  if (nearness == Nearness::HubName && !may_be(id, form.squashed)) return false;
  const auto& [hub, hub_form] = known_name(id);
  const auto& [name, name_form] = known_name(short_name);
  if (!may_publish(text, hub.organisation, entry)) return false;
  if (nearness == Nearness::ShortName) return is_same(form, name_form);
  if (nearness == Nearness::HubName) return is_same(form, hub_form);
  const std::string& version = name.version.empty() ? hub.version : name.version;
  if (!text.version.empty() && !version.empty() && text.version != version) return false;
  const NameForm core = core_of(text, name.parts);
  return is_same(core, core_of(name, name.parts)) || is_same(core, core_of(hub, name.parts));
}

/// These have no short names, in which a variant word would count.
bool has_same_shape(const SplitName& text, const NameForm& form, const CatalogueEntry& entry, Nearness nearness) {
  return nearness != Nearness::ShortName && std::ranges::any_of(entry.same_shape, [&](const std::string& id) {
           return matches_id(text, form, entry, "", id, nearness);
         });
}

bool is_named(const SplitName& text, const NameForm& form, const CatalogueEntry& entry, Nearness nearness) {
  return matches_id(text, form, entry, entry.name, entry.id, nearness);
}

}  // namespace

std::vector<const CatalogueEntry*> match_model_name(std::string_view text, const std::vector<CatalogueEntry>& entries) {
  const SplitName wanted = split_name(text);
  const NameForm form = form_of(wanted.parts);
  std::vector<const CatalogueEntry*> found;
  for (const Nearness nearness : {Nearness::ShortName, Nearness::HubName, Nearness::SameModel}) {
    // "deberta-base" without its version is no deberta-v3-base
    if (nearness == Nearness::SameModel && !why_name_is_not_modelled(text).empty()) break;
    for (const CatalogueEntry& entry : entries)
      if (is_named(wanted, form, entry, nearness) || has_same_shape(wanted, form, entry, nearness))
        found.push_back(&entry);
    if (!found.empty()) break;
  }
  return found;
}

std::string explain_match(std::string_view text, const CatalogueEntry& entry) {
  if (text == entry.id || entry.name == entry.id) return {};
  const SplitName wanted = split_name(text);
  const NameForm form = form_of(wanted.parts);
  constexpr std::array kAll{Nearness::ShortName, Nearness::HubName, Nearness::SameModel};
  const bool is_own = std::ranges::any_of(kAll, [&](Nearness n) { return is_named(wanted, form, entry, n); });
  const bool is_short = wanted.organisation.empty();  // not a model of its own on the Hub
  if (!wanted.is_packed) return fmt::format("{} {} {}", text, is_own && is_short ? "is" : "has the shape of", entry.id);
  const std::string copy = fmt::format("{} is taken for a copy in another number format of", text);
  if (!is_own) return fmt::format("{} a model with the shape of {}", copy, entry.id);
  return fmt::format("{} {}", copy, entry.id);
}

}  // namespace gpuplan
