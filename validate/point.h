// One published measurement as its line states it: what ran, where, and what came out. Nothing is interpreted here;
// names are those of the source, and the enumerations are the point's own `norm` block. Fields:
// data/validation/README.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/recipe.h"

namespace gpuplan {

enum class PointKind : std::uint8_t { Memory, Speed };

/// The shape that a point prints for a model of its own.
struct PointShape {
  std::int64_t num_layers{}, hidden{}, num_heads{}, num_kv_heads{}, ffn{}, vocab{};
};

struct PointLora {
  std::string kind;  // a row of data/adapters.yaml; empty: lora
  std::int64_t rotation_block = 0, factor = 0;
  std::optional<std::int64_t> rank;
  std::optional<double> alpha;
  std::vector<std::string> targets;  // empty: not stated
  bool trains_embeddings = false;
};

/// Figures of a memory point, GiB per GPU; of an out-of-memory run, nothing.
struct MemoryFigures {
  std::string metric;         // max_allocated, max_active, max_reserved, nvidia-smi, unspecified
  std::optional<double> gib;  // under `metric`
  std::vector<std::pair<std::string, double>> others_gib;  // other metrics of the same run
  std::optional<double> capacity_gib;                      // of the GPU, as the framework sees it
  bool ran_out = false;
  std::string boundary;  // "max_micro_batch", "max_seq_len": this value fits and the next larger is claimed not to
};

struct SpeedFigures {
  std::string
      metric;  // step_time_s, tokens_per_s, tokens_per_s_per_gpu, samples_per_s, total_time_s, tflops_per_gpu, mfu
  double value{};
  std::string flops_kind;                 // which FLOPs the source counted, in its words
  std::optional<double> tokens_per_step;  // of the whole job; printed, or by arithmetic from what is
  std::optional<double> step_seconds;     // of one optimizer step; the same
  std::optional<double> tflops_per_gpu;   // printed beside another metric, of `flops_kind`
};

struct PointLink {
  std::string kind;  // nvswitch, nvlink, nvlink_bridge, pcie
  std::optional<std::int64_t> generation;
  std::optional<bool> has_p2p;
};

struct Point {
  PointKind kind = PointKind::Memory;
  std::string id, where;  // where: "points.jsonl:17"
  std::string source, group;
  std::string skipped;  // why it does not count, empty when it does

  std::string model;
  std::optional<double> parameters_b;  // 10^9
  std::optional<PointShape> shape;
  std::string framework, framework_text, software;
  std::string trained_for, reference;  // a row of data/methods.yaml, and where its reference comes from; empty: usual
  std::string method, quant, precision, weight_dtype, optimizer, loss, attention, checkpointing, length;
  std::string checkpointing_text, length_text, loss_text;  // in the source's words
  std::optional<double> recomputed_share;                  // of the layers, where checkpointing is partial
  bool has_fp8_products = false;
  std::optional<std::int64_t> reduce_bucket;  // of ZeRO, in elements, where the source prints its configuration
  bool is_kbit_prepared = false;              // the source says that PEFT's prepare_model_for_kbit_training ran
  PointLora lora;
  bool optimizer_in_backward = false, is_compiled = false;
  std::optional<std::int64_t> micro_batch, seq_len, grad_accum, global_batch;
  std::vector<std::string> offload;  // optimizer, master, params, activations, quant_weights, or "cpu": whatever can be
  std::string strategy;
  std::vector<std::pair<std::string, std::int64_t>> degrees;  // tp, pp, cp, ep, etp
  std::optional<std::int64_t> chunks;                         // of layers, that each stage of a pipeline has
  std::string stage_layers;                                   // of each stage, as --stage-layers; empty: as many
  std::optional<bool> splits_sequence;                        // over the ranks of tp; unset: not stated
  std::optional<bool> overlaps_tensor_parallel;               // likewise
  std::optional<std::int64_t> shard_size;                     // ranks that share one copy of what is sharded

  std::string gpu;  // empty: not stated
  std::int64_t num_gpus = 1;
  std::optional<std::int64_t> gpus_per_node;
  std::optional<PointLink> link;
  std::string network, slots;  // between nodes; within one: in the source's words

  MemoryFigures memory;
  SpeedFigures speed;
};

/// The methods of points, in their words.
struct PointMethod {
  std::string_view name;
  Method method;
  bool is_dora;
};
inline constexpr std::array kPointMethods{
    PointMethod{"full", Method::Full, false}, PointMethod{"pretrain", Method::Full, false},
    PointMethod{"lora", Method::Lora, false}, PointMethod{"qlora", Method::Qlora, false},
    PointMethod{"dora", Method::Lora, true},  PointMethod{"qdora", Method::Qlora, true}};

}  // namespace gpuplan
