// Parts of a linear that stand in files of their own, and what they share. Internal to the ledger.
#pragma once

#include "models/adapter_kind.h"
#include "models/ledger/tape.h"

namespace gpuplan {

/// A linear as its adapter sees it.
AdaptedLinear adapted(const Tape& t, const LinearRef& l);

/// A weight in compute dtype for one use: a scratch buffer where the stored weight is quantised or of another dtype.
/// Of experts one after the other.
LocalId usable_weight(Tape& t, const LinearRef& l, std::int64_t rows);

/// The output of a linear [rows, l.out] under DoRA, from its base output and the adapter's, which is not scaled yet. x:
/// the linear's input, which is owed a gradient; `input`: what the adapter made of it (cast, dropped out).
LocalId dora_output(Tape& t, const LinearRef& l, LocalId x, LocalId input, LocalId base, LocalId adapter);

/// Gives what an adapter multiplies of the input x: cast to its dtype, dropped out. `cast_input`: x as the linear has
/// it.
LocalId adapter_input(Tape& t, LocalId x, LocalId cast_input);

/// Marks a product of an adapter that runs in fp32 beside 16-bit ones.
void in_adapter_dtype(const Tape& t, LayerOp& op);

/// Gives what adapters of other kinds than low-rank ones make of a linear's input and of its output. Where they change
/// nothing, both return what they are given.
bool changes_input(const Tape& t, const LinearRef& l);
LocalId adapted_input(Tape& t, LocalId x, const LinearRef& l);
bool changes_output(const Tape& t, const LinearRef& l);
LocalId adapted_output(Tape& t, LocalId x, LocalId base, const LinearRef& l);

/// x times a trained vector of an adapter.
LocalId scaled(Tape& t, const LinearRef& l, LocalId x, const char* name);

/// Gives what adapters on an MLP's output add to it, and what a product of two trained factors adds to a linear's.
LocalId output_change(Tape& t, const LinearRef& l, LocalId base);
LocalId product_of_factors(Tape& t, const LinearRef& l, LocalId x, LocalId own);

/// Gives the output of adapters whose factors are made or frozen, and of circulant blocks, which is added to the
/// linear's.
LocalId factors_output(Tape& t, const LinearRef& l, LocalId x, LocalId own);
LocalId circulant_output(Tape& t, const LinearRef& l, LocalId x);

/// Gives the base output less what two factors make of it, and what they make of the input besides.
LocalId projected_output(Tape& t, const LinearRef& l, LocalId x, LocalId own, LocalId base);

/// A frozen factor of adapters in their compute dtype, where it is stored in another.
LocalId usable_factor(Tape& t, const char* name, std::int64_t elements);

}  // namespace gpuplan
