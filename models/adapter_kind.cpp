#include "models/adapter_kind.h"

#include <algorithm>

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
      Row{"rotation", AdapterPath::Rotation},
      Row{"butterfly", AdapterPath::Butterfly},
      Row{"delta", AdapterPath::Delta},
      Row{"scale", AdapterPath::Scale},
      Row{"block-sum", AdapterPath::BlockSum},
      Row{"prompt", AdapterPath::Prompt},
      Row{"scaled-rank", AdapterPath::ScaledRank},
      Row{"block-diagonal", AdapterPath::BlockDiagonal},
      Row{"bottleneck", AdapterPath::Bottleneck},
      Row{"intervention", AdapterPath::Intervention},
  };
  return {"path", kNames};
}

static NameTable<AdapterSide> names_of(AdapterSide) {
  using Row = NameRow<AdapterSide>;
  static constexpr std::array kNames{
      Row{"one", AdapterSide::One},
      Row{"in", AdapterSide::In},
      Row{"out", AdapterSide::Out},
      Row{"rank", AdapterSide::Rank},
      Row{"blocks", AdapterSide::Blocks},
      Row{"block-pairs", AdapterSide::BlockPairs},
      Row{"block-squares", AdapterSide::BlockSquares},
      Row{"factor-blocks", AdapterSide::FactorBlocks},
      Row{"factor-in", AdapterSide::FactorIn},
      Row{"scaled", AdapterSide::Scaled},
      Row{"small-in", AdapterSide::SmallIn},
      Row{"large-in", AdapterSide::LargeIn},
      Row{"small-out", AdapterSide::SmallOut},
      Row{"large-out", AdapterSide::LargeOut},
      Row{"inner", AdapterSide::Inner},
      Row{"inner-rank", AdapterSide::InnerRank},
      Row{"encoder", AdapterSide::Encoder},
      Row{"cut-in", AdapterSide::CutIn},
      Row{"cut-out", AdapterSide::CutOut},
  };
  return {"side", kNames};
}

namespace {

void read_shapes(Fields& f, const char* key, std::vector<AdapterShape>& shapes) {
  std::vector<std::string> texts;
  f.optional(key, texts);
  for (const std::string& text : texts) {
    const std::size_t by = text.find(" x ");
    if (by == std::string::npos) throw InputError(key, fmt::format("'{}' is no shape", text), "write rank x in");
    shapes.push_back(
        {parse_name<AdapterSide>(text.substr(0, by), key), parse_name<AdapterSide>(text.substr(by + 3), key)});
  }
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
    f.optional("rank", kind.rank, IntRange{.least = 1});
    f.optional("block", kind.block, IntRange{.least = 2});
    f.optional("factor", kind.factor, IntRange{.least = 1});
    f.optional("products", kind.products, IntRange{.least = 0});
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

std::int64_t side_length(AdapterSide side, const AdaptedLinear& l) {
  switch (side) {
    case AdapterSide::One: return 1;
    case AdapterSide::In: return l.in;
    case AdapterSide::Out: return l.out;
    case AdapterSide::Rank: return l.rank;
    case AdapterSide::Blocks: return l.in / l.block;
    case AdapterSide::BlockPairs: return l.block * (l.block - 1) / 2;
    case AdapterSide::BlockSquares: return l.block * l.block;
    case AdapterSide::FactorBlocks: return l.factor * (l.in / l.block);
    case AdapterSide::FactorIn: return l.factor * l.in;
    case AdapterSide::Scaled: return l.scales_input ? l.in : l.out;
    case AdapterSide::SmallIn: return near_factors(l.in, l.factor)[0];
    case AdapterSide::LargeIn: return near_factors(l.in, l.factor)[1];
    case AdapterSide::SmallOut: return near_factors(l.out, l.factor)[0];
    case AdapterSide::LargeOut: return near_factors(l.out, l.factor)[1];
    case AdapterSide::Inner: return has_inner_rank(l) ? l.rank : near_factors(l.in, l.factor)[1];
    case AdapterSide::InnerRank: return has_inner_rank(l) ? l.rank : 0;
    case AdapterSide::Encoder: return l.factor > 0 ? l.factor : l.in;
    case AdapterSide::CutIn: return l.divides_input ? l.in / l.factor : l.in;
    case AdapterSide::CutOut: return l.divides_input ? l.out : l.out / l.factor;
  }
  return 0;
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
