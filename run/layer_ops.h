// The ops of a layer graph as calls of the device: one row per kind of op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/device.h"
#include "models/trained_model.h"
#include "run/unit_view.h"

namespace gpuplan {

/// One micro-batch in device memory.
struct BatchView {
  const std::int32_t *ids{}, *labels{};
  float* losses{};
};

/// Position tables and scalars of the step, in device memory.
struct ConstantsView {
  double *loss_sum{}, *square_sum{};
  float* loss_scale{};  // 1 / label tokens of the global batch
  const float *cosine{}, *sine{};
};

/// Operands of the ops of one call. The device's calls go to `stream`.
struct LayerCall {
  Device& device;
  Stream& stream;
  const TrainedModel& model;
  const Recipe& recipe;
  const LayerGraph& graph;
  std::span<std::byte* const> locals;     // by LocalId
  const LayerLinears* linears = nullptr;  // of a layer
  UnitView unit, head;                    // head: where the head finds its matrix, its own or the embedding's
  std::uint16_t head_tensor = 0;
  BatchView batch;
  ConstantsView constants;
  std::int64_t vocab_begin = 0, vocab_size = 0;  // of the whole vocabulary: where this rank's part begins
};

void run_layer_op(const LayerCall& call, const LayerOp& op, bool is_backward);

}  // namespace gpuplan
