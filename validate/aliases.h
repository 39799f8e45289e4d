// data/validation/aliases.json: what the names that sources use mean in our catalogues. The only place where a text of
// a point is interpreted; a name that it does not list is tried as it stands.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpuplan {

struct GpuAlias {
  std::string gpu;                   // id in data/gpus
  std::optional<double> memory_gib;  // what a framework sees, where it is not the catalogue's figure
};

struct QuantAlias {
  std::string kind;  // spelling of a BaseQuant
  bool is_double = false;
};

/// A point's framework: our record, and what its users do not state because the framework always does it.
struct FrameworkAlias {
  std::string norm, software;  // enumerations of the point; no software: whatever it says where there is a text
  std::string text;            // a part of the point's own text, empty for any; a speed point's is its source
  std::string record;
  std::string loss;  // where a point does not say: row of the losses of a point
  int fsdp_version = 1;
  bool is_kbit_prepared = false;                  // the row is for points that say so
  bool double_quant = false;                      // whatever the point says
  std::string sharded_heading;                    // what the peaks of its sharded runs are, where not of training
  std::optional<std::int64_t> loss_chunk_tokens;  // of a chunked loss
  double lora_dropout = 0;
  std::int64_t grad_accum = 1;  // where a point does not say
};

/// Adapters between machines: one of the two.
struct NetworkAlias {
  double gbit_per_node{}, gbit_per_gpu{};
};

/// PCIe slots that a source calls slower than the card's without a figure.
struct SlotAlias {
  std::int64_t generations_back{};
  double share_of_lanes = 1;
};

struct AliasTable {
  std::map<std::string, std::string> dates;  // of sources that begin so; "": of others
  std::map<std::string, std::string> models, optimizers;
  std::map<std::string, std::string> checkpointings;  // of points whose norm says `partial`
  std::map<std::string, std::string> losses;          // of speed points, whose norm says nothing
  std::map<std::string, std::string> lengths;         // beginnings of `seq_len_kind` whose batches differ in length
  std::map<std::string, std::string> flops_kinds;     // "model", or "executed" with recompute
  std::map<std::string, NetworkAlias> networks;       // others: what such GPUs usually have
  std::map<std::string, SlotAlias> slots;             // by a part of the text; others: the card's own
  std::map<std::string, double> attention_rates;      // of kernels that no plan names, over flash attention 2's
  /// Beginnings of sources whose tensor parallel ranks hold all tokens between products, where a point does not say:
  /// older than sequence parallelism (arXiv 2205.05198, May 2022), or without it.
  std::vector<std::string> whole_sequences;
  std::map<std::string, double> dropouts;  // beginnings of sources whose layers drop as much, attention and branches
  std::vector<std::string> optimizers_in_backward;  // texts that say so
  std::map<std::string, GpuAlias> gpus;
  std::map<std::string, QuantAlias> quants;
  /// Modules of the model; of alternatives "a|b" the first that it has.
  std::map<std::string, std::vector<std::string>> lora_targets, trained_modules;
  std::vector<FrameworkAlias> frameworks;  // the first that matches

  /// Day of a source's figures, "2024-11-15": the versions of that day are taken for them.
  std::string date_of(std::string_view source) const;

  /// Throws InputError listing every problem.
  static AliasTable read(const std::filesystem::path& file);
  static AliasTable read();  // the shipped one
};

/// `names.at(text)`, or the text itself.
const std::string& alias_or_self(const std::map<std::string, std::string>& names, const std::string& text);

}  // namespace gpuplan
