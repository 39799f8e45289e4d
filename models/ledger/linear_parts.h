// Parts of a linear that stand in files of their own, and what they share. Internal to the ledger.
#pragma once

#include "models/ledger/tape.h"

namespace gpuplan {

/// A weight in compute dtype for one matmul: a scratch buffer where the stored weight is quantised or of another dtype.
/// Of experts one after the other.
LocalId usable_weight(Tape& t, const LinearRef& l, std::int64_t rows);

/// The output of a linear [rows, l.out] under DoRA, from its base output and the adapter's, which is not scaled yet. x:
/// the linear's input, which is owed a gradient; `input`: what the adapter made of it (cast, dropped out).
LocalId dora_output(Tape& t, const LinearRef& l, LocalId x, LocalId input, LocalId base, LocalId low);

}  // namespace gpuplan
