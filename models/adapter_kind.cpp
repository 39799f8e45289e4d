#include "models/adapter_kind.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/name_table.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"

namespace gpuplan {

static NameTable<AdapterPath> names_of(AdapterPath) {
  using Row = NameRow<AdapterPath>;
  static constexpr std::array kNames{
      Row{"low-rank", AdapterPath::LowRank},
      Row{"shared-factors", AdapterPath::SharedFactors},
      Row{"factors", AdapterPath::Factors},
      Row{"rotation", AdapterPath::Rotation},
      Row{"butterfly", AdapterPath::Butterfly},
      Row{"delta", AdapterPath::Delta},
      Row{"own-weight", AdapterPath::OwnWeight},
      Row{"scale", AdapterPath::Scale},
      Row{"shift", AdapterPath::Shift},
      Row{"turn", AdapterPath::Turn},
      Row{"circulant", AdapterPath::Circulant},
      Row{"block-sum", AdapterPath::BlockSum},
      Row{"prompt", AdapterPath::Prompt},
      Row{"scaled-rank", AdapterPath::ScaledRank},
      Row{"block-diagonal", AdapterPath::BlockDiagonal},
      Row{"projection", AdapterPath::Projection},
      Row{"bottleneck", AdapterPath::Bottleneck},
      Row{"intervention", AdapterPath::Intervention},
  };
  return {"path", kNames};
}

static NameTable<AdapterLength> names_of(AdapterLength) {
  using Row = NameRow<AdapterLength>;
  static constexpr std::array kNames{
      Row{"one", AdapterLength::One},
      Row{"in", AdapterLength::In},
      Row{"out", AdapterLength::Out},
      Row{"narrow", AdapterLength::Narrow},
      Row{"wide", AdapterLength::Wide},
      Row{"rank", AdapterLength::Rank},
      Row{"rank-pairs", AdapterLength::RankPairs},
      Row{"bases", AdapterLength::Bases},
      Row{"block", AdapterLength::Block},
      Row{"blocks", AdapterLength::Blocks},
      Row{"out-blocks", AdapterLength::OutBlocks},
      Row{"block-pairs", AdapterLength::BlockPairs},
      Row{"factor", AdapterLength::Factor},
      Row{"scaled", AdapterLength::Scaled},
      Row{"small-in", AdapterLength::SmallIn},
      Row{"large-in", AdapterLength::LargeIn},
      Row{"small-out", AdapterLength::SmallOut},
      Row{"large-out", AdapterLength::LargeOut},
      Row{"inner", AdapterLength::Inner},
      Row{"inner-rank", AdapterLength::InnerRank},
      Row{"encoder", AdapterLength::Encoder},
      Row{"cut-in", AdapterLength::CutIn},
      Row{"cut-out", AdapterLength::CutOut},
  };
  return {"side", kNames};
}

static NameTable<FactorSource> names_of(FactorSource) {
  using Row = NameRow<FactorSource>;
  static constexpr std::array kNames{
      Row{"trained", FactorSource::Trained},
      Row{"frozen", FactorSource::Frozen},
      Row{"made", FactorSource::Made},
      Row{"row-made", FactorSource::RowMade},
      Row{"made-if-narrow", FactorSource::MadeIfNarrow},
  };
  return {"factor", kNames};
}

namespace {

/// "3*factor*rank": the product of these.
AdapterSide read_side(const std::string& text, const char* key) {
  AdapterSide side;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('*', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!word.empty() && word.find_first_not_of("0123456789") == std::string::npos)
      side.times *= parse_integer(word, key, 1, 64);
    else
      side.lengths.push_back(parse_name<AdapterLength>(word, key));
    begin = end + 1;
  }
  return side;
}

void read_shapes(Fields& f, const char* key, std::vector<AdapterShape>& shapes) {
  std::vector<std::string> texts;
  f.optional(key, texts);
  for (const std::string& text : texts) {
    const std::size_t by = text.find(" x ");
    if (by == std::string::npos) throw InputError(key, fmt::format("'{}' is no shape", text), "write rank x in");
    shapes.push_back({read_side(text.substr(0, by), key), read_side(text.substr(by + 3), key)});
  }
}

void read_factors(Fields& f, AdapterKind& kind) {
  std::vector<std::string> factors;
  f.optional("factors", factors);
  if (factors.size() != (kind.path == AdapterPath::Factors ? kind.factors.size() : 0))
    throw InputError("factors", fmt::format("{} stand there", factors.size()), "name A and B of path factors alone");
  for (std::size_t i = 0; i < factors.size(); ++i) kind.factors[i] = parse_name<FactorSource>(factors[i], "factors");
  std::string middle;
  f.optional("middle", middle);
  if (!middle.empty()) kind.middle = read_side(middle, "middle");
}

std::vector<AdapterKind> read_kinds() {
  YamlFile file = YamlFile::read(data_dir() / "adapters.yaml");
  std::vector<AdapterKind> kinds;
  for (Fields& f : file.top().list("adapters")) {
    AdapterKind& kind = kinds.emplace_back();
    f("name", kind.name);
    f("title", kind.title);
    f.optional("aliases", kind.aliases);
    f.optional("input_blocks", kind.input_blocks);
    f("path", kind.path);
    read_shapes(f, "trained", kind.trained);
    read_shapes(f, "buffers", kind.buffers);
    read_shapes(f, "shared", kind.shared);
    read_shapes(f, "trained_once", kind.trained_once);
    read_shapes(f, "trained_by_module", kind.trained_by_module);
    read_shapes(f, "kept", kind.kept);
    read_factors(f, kind);
    f.optional("rank", kind.rank, IntRange{.least = 1});
    f.optional("block", kind.block, IntRange{.least = 2});
    f.optional("factor", kind.factor, IntRange{.least = 1});
    f.optional("products", kind.products, IntRange{.least = 0});
    f.optional("parts", kind.parts, IntRange{.least = 0});
    f.optional("turns_middle", kind.turns_middle);
    f.optional("of_base", kind.is_of_base);
    f.optional("in_base_dtype", kind.is_in_base_dtype);
    f.optional("biases", kind.takes_biases);
    f.optional("values", kind.has_values);
    f.optional("nearest_block", kind.takes_nearest_block);
    f.optional("quantised", kind.takes_quantised);
    f.optional("dropout", kind.takes_dropout);
    f("source", kind.source);
    f.refuse_unknown();
  }
  file.top().refuse_unknown();
  file.finish();
  return kinds;
}

/// Says whether LoKr's second factor is itself of low rank.
bool has_inner_rank(const AdaptedLinear& l) {
  const std::int64_t larger = std::max(near_factors(l.in, l.factor)[1], near_factors(l.out, l.factor)[1]);
  return 2 * l.rank < larger;
}

}  // namespace

template <class Test>
static bool has_side(const AdapterKind& kind, Test test) {
  for (const auto* shapes : {&kind.trained, &kind.buffers, &kind.shared, &kind.trained_by_module})
    for (const AdapterShape& shape : *shapes)
      if (std::ranges::any_of(shape, test)) return true;
  return false;
}

/// On a linear that is wide enough for every length to follow the rank.
bool AdapterKind::has_rank() const {
  AdaptedLinear thin{.in = 4096, .out = 4096, .rank = 4, .block = 32, .factor = 8}, thick = thin;
  thick.rank = 8;
  return has_side(*this, [&](const AdapterSide& side) { return side_length(side, thin) != side_length(side, thick); });
}

bool AdapterKind::divides_outputs() const {
  return has_side(*this, [](const AdapterSide& side) {
    return std::ranges::find(side.lengths, AdapterLength::OutBlocks) != side.lengths.end();
  });
}

bool AdapterKind::is_lora() const { return name == adapter_kinds().front().name; }

std::span<const AdapterKind> adapter_kinds() { return read_once<read_kinds>(); }

const AdapterKind& find_adapter_kind(std::string_view name) {
  const std::string wanted = squash(name);
  std::vector<std::string> names;
  for (const AdapterKind& kind : adapter_kinds()) {
    const auto is_wanted = [&](const std::string& spelling) { return squash(spelling) == wanted; };
    if (is_wanted(kind.name) || std::ranges::any_of(kind.aliases, is_wanted)) return kind;
    names.push_back(kind.name);
  }
  throw InputError("--lora kind", fmt::format("unknown kind of adapters '{}'", name),
                   did_you_mean(name, names, fmt::format("known: {}", fmt::join(names, ", "))));
}

const AdapterKind& row_named(std::string_view name, std::type_identity<AdapterKind>) {
  return name.empty() ? adapter_kinds().front() : find_adapter_kind(name);
}

std::array<std::int64_t, 2> near_factors(std::int64_t number, std::int64_t wanted) {
  if (wanted > 0 && number % wanted == 0) return {wanted, number / wanted};
  const std::int64_t most = wanted > 0 ? wanted : number;
  std::int64_t m = 1, n = number;
  while (m < n) {
    std::int64_t next = m + 1;
    while (number % next != 0) ++next;
    if (next + number / next > m + n || next > most) break;
    m = next, n = number / next;
  }
  return {std::min(m, n), std::max(m, n)};
}

namespace {

std::int64_t length_of(AdapterLength length, const AdaptedLinear& l) {
  const std::int64_t narrow = std::min(l.in, l.out);
  switch (length) {
    case AdapterLength::One: return 1;
    case AdapterLength::In: return l.in;
    case AdapterLength::Out: return l.out;
    case AdapterLength::Narrow: return narrow;
    case AdapterLength::Wide: return std::max(l.in, l.out);
    case AdapterLength::Rank: return l.rank;
    case AdapterLength::RankPairs: return l.rank * (l.rank - 1) / 2;
    case AdapterLength::Bases: return (narrow + l.rank - 1) / l.rank;
    case AdapterLength::Block: return l.block;
    case AdapterLength::Blocks: return l.in / l.block;
    case AdapterLength::OutBlocks: return l.out / l.block;
    case AdapterLength::BlockPairs: return l.block * (l.block - 1) / 2;
    case AdapterLength::Factor: return l.factor;
    case AdapterLength::Scaled: return l.scales_input ? l.in : l.out;
    case AdapterLength::SmallIn: return near_factors(l.in, l.factor)[0];
    case AdapterLength::LargeIn: return near_factors(l.in, l.factor)[1];
    case AdapterLength::SmallOut: return near_factors(l.out, l.factor)[0];
    case AdapterLength::LargeOut: return near_factors(l.out, l.factor)[1];
    case AdapterLength::Inner: return has_inner_rank(l) ? l.rank : near_factors(l.in, l.factor)[1];
    case AdapterLength::InnerRank: return has_inner_rank(l) ? l.rank : 0;
    case AdapterLength::Encoder: return l.factor > 0 ? l.factor : l.in;
    case AdapterLength::CutIn: return l.divides_input ? l.in / l.factor : l.in;
    case AdapterLength::CutOut: return l.divides_input ? l.out : l.out / l.factor;
  }
  return 0;
}

}  // namespace

std::int64_t side_length(const AdapterSide& side, const AdaptedLinear& linear) {
  std::int64_t product = side.times;
  for (const AdapterLength length : side.lengths) product *= length_of(length, linear);
  return product;
}

/// PEFT takes the divisor of the width that is nearest to OFT's block, the smaller of two. Source: huggingface/peft
/// src/peft/tuners/oft/layer.py @v0.20.0 (adjust_oft_parameters).
std::int64_t block_of(const LoraSpec& lora, std::int64_t in) {
  const std::int64_t wanted = lora.rotation_block > 0 ? lora.rotation_block : lora.kind->block;
  if (wanted == 0) return 0;
  if (!lora.kind->takes_nearest_block) return in % wanted == 0 ? wanted : 0;
  if (wanted >= in) return in;
  std::int64_t lower = wanted, higher = wanted;
  while (lower > 1 && in % lower != 0) --lower;
  while (higher < in && in % higher != 0) ++higher;
  return wanted - lower <= higher - wanted ? lower : higher;
}

}  // namespace gpuplan
