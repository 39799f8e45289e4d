// The ops of one unit of a model (embedding, decoder layer, head), forward and backward, with the tensors between them.
// This is the activation ledger: what is saved for backward is not written anywhere, it is what the backward ops read.
// Memory, cost, simulation and execution all read this graph; planner/block.h turns it into lifetimes and a time.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/operation_kinds.h"
#include "base/units.h"
#include "models/mesh.h"

namespace gpuplan {

/// Named dims of a tensor. `size` of each comes from the recipe and the model.
enum class Dim : std::uint8_t {
  Batch,
  Seq,
  Keys,
  Hidden,
  QHeads,
  KvHeads,
  HeadDim,
  QWidth,
  KvWidth,
  Ffn,
  Vocab,
  Latent,
  Experts,
  Rank,
  Chunk,
  Rows,
  Cols,
  Count
};

/// Names what a local tensor counts as in a report.
enum class LocalKind : std::uint8_t { Activation, Logits, Workspace };
constexpr int kNumLocalKinds = 3;

using LocalId = std::uint16_t;
constexpr LocalId kNoLocal = 0xffff;

/// Slots that the step program binds: the unit's input and output and their gradients; the encoder's output that a
/// decoder attends to, and the gradient that collects there.
enum Slot : LocalId { kSlotX, kSlotY, kSlotDy, kSlotDx, kSlotMemory, kSlotDMemory, kNumSlots };

/// A tensor inside a unit. `name` and `why` are literals, so a graph costs no strings in the search.
struct Local {
  const char* name = "";
  const char* why = "";  // why backward reads it; empty if it does not
  std::int64_t elements{};
  Dtype dtype{};
  LocalKind kind{};
  std::array<Dim, 4> dims{Dim::Count, Dim::Count, Dim::Count, Dim::Count};
  Bytes bytes() const { return bytes_of(elements, dtype); }
};

enum class OpKind : std::uint8_t {
  Embed,
  Norm,
  Linear,
  LowRank,
  Dequantise,
  Cast,
  Rope,
  RepeatKv,
  Attention,
  Softmax,
  BatchedMatmul,
  Activation,
  Multiply,
  SwiGlu,
  Add,
  Scale,
  Dropout,
  Copy,
  CrossEntropy,
  Convolution,
  Scan,
  Exchange,
  LargestLogit,  // of what ranks that share the vocabulary make of each token
  LabelLogit,
  SumOfExponentials,
  Count
};

/// Names what the ranks that share a layer exchange in the middle of it.
enum class Exchange : std::uint8_t { None, AllReduce, AllGather, ReduceScatter, AllToAll };

/// Says which engine of the device an op keeps busy; decides the efficiency it is costed with.
enum class CostClass : std::uint8_t {
  Gemm,
  BatchedGemm,
  FlashAttention,
  CudnnAttention,
  Flash3Attention,
  Scan,  // of a recurrence, chunk by chunk: small products in kernels that also move the states
  Memory,
  Dequantise,
  DequantiseGptq
};

/// Says which form of a weight tensor an op uses: the tensor itself, or one of its adapter's.
enum class WeightUse : std::uint8_t { None, Tensor, LowRankA, LowRankB };

/// One kernel (or a few that a framework launches together).
struct LayerOp {
  OpKind kind{};
  CostClass cost{};
  std::uint8_t num_reads{}, num_writes{};
  std::uint32_t kernels = 1;
  bool is_weight_gradient = false;    // writes into the unit's gradient buffers, not into a local
  bool saves_compute_output = false;  // a matmul result that op-level selective checkpointing keeps
  bool is_fp32 = false;               // a GEMM of fp32 operands where others are narrower
  bool is_in_loop = false;            // one of a Python loop over experts, which no compiler takes in
  Exchange exchange{};                // of an Exchange: reads what this rank has, writes what it gets
  Axis axis{};                        // along which
  bool is_maximum = false;            // an all-reduce of maxima, not of sums
  bool is_beside = false;             // it runs beside the next op that ends_beside
  bool goes_with_columns = false;     // of an Exchange: it can run beside products of the columns that make or read it
  bool ends_beside = false;           // what comes after it waits for the exchanges beside it
  Bytes message;                      // of an Exchange, the whole tensor, all to all a rank's; 0: the larger of what is
                                      // read and written
  bool accumulates = false;           // adds the last local it reads to what it writes, most often in place
  WeightUse use{};                    // of `weight`, for the executor
  std::uint16_t experts = 1;          // a GEMM stands for as many products, each of its share of the rows
  std::uint8_t weight = 0xff;         // index of the weight tensor it uses in its unit's list, 0xff none
  std::array<LocalId, 7> reads{};
  std::array<LocalId, 4> writes{};
  std::int64_t m{}, n{}, k{};  // GEMM [m, k] x [k, n]; attention: queries, keys, head size
  GemmLayout layout{};         // of a GEMM: which operand is transposed
  std::int64_t window{};       // of attention: keys that a query sees at most, 0: all before it
  double flops{};
  double traffic{};  // bytes that the op's kernels read and write, before the software's factor
};

/// Names what runs the memory-bound ops: a framework op by op, its compiler or a kernel library (Liger), or kernels
/// written for it.
enum class Software : std::uint8_t { Eager, Compiled, Handwritten };

/// Ops in execution order and the tensors they name. Locals below kNumSlots are the slots.
struct LayerGraph {
  std::vector<Local> locals;
  std::vector<LayerOp> forward, backward;
  Software software{};  // decides the traffic factor of memory-bound ops

  void clear();
};

/// "[Batch, Seq, Hidden]", for reports.
std::string dims_text(const Local& local);
std::string_view to_string(OpKind kind);

}  // namespace gpuplan
