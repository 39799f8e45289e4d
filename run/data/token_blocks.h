// Consecutive blocks of a token file: block i begins at token i S.
#pragma once

#include "run/data/examples.h"
#include "run/data/token_array.h"

namespace gpuplan {

/// Throws InputError when there is not one whole block, or rows of another length than seq_len.
std::unique_ptr<Examples> make_token_blocks(TokenArray tokens, const DataOptions& options);

/// labels[i] = unshifted[i + 1], and the last has none. In place.
void shift_labels(std::span<std::int32_t> labels);

/// "holds 100 tokens, less than one block of 256".
[[noreturn]] void refuse_short(const std::string& file, std::int64_t num_tokens, std::int64_t seq_len);

}  // namespace gpuplan
