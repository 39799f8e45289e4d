// Conditions of a shell script whose outcome is known before it runs: tests of texts and numbers, patterns of `case`.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ecosystem/shell_text.h"

namespace gpuplan {

/// Nothing where only a run would show it.
using Truth = std::optional<bool>;

inline Truth negated(Truth t) { return t ? Truth(!*t) : t; }
/// `a && b`, where one that is false decides.
Truth both(Truth a, Truth b);
/// `a || b`, where one that is true decides.
Truth either(Truth a, Truth b);

/// Says whether these words are a test: [ ... ], [[ ... ]], test ...
bool is_test(std::span<const ShellWord> words);

/// The result of a command of a condition: a test, true, false, a module of Python that is never there.
Truth truth_of(std::span<const ShellWord> words);

/// Says whether a word of `case` is of a pattern.
Truth matches_pattern(const ShellWord& word, const ShellWord& pattern);

/// The module of `python -c "import torch_npu"` is of another accelerator, which no machine that is planned has.
bool imports_absent_module(const std::string& command);

}  // namespace gpuplan
