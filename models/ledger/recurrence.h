// Ops of recurrent mixers: kernels that work on a sequence chunk by chunk.
#pragma once

#include "models/ledger/tape.h"

namespace gpuplan {

/// Kernels that multiply small matrices of a chunk and move states: FLOPs and bytes of all of them.
LayerOp& scan_op(Tape& tape, std::initializer_list<LocalId> reads, std::initializer_list<LocalId> writes, double flops,
                 double traffic, std::uint8_t kernels);

/// A causal convolution with a kernel per channel (causal_conv1d), which keeps its input.
LocalId convolution(Tape& tape, LocalId x);

/// A recurrence reads its tokens in order, so that ranks which share a sequence exchange positions for heads before it
/// and back behind it. Gives a tensor like `x`, or of `elements`; one rank: x.
LocalId all_positions(Tape& tape, LocalId x, const char* name, std::int64_t elements = 0);

/// FLOPs of the scan forward, per token.
double mamba1_flops(const Mamba1Spec& mamba);
double mamba2_flops(const Mamba2Spec& mamba, std::int64_t seq_len);
double delta_net_flops(const DeltaNetSpec& net, std::int64_t seq_len);

}  // namespace gpuplan
