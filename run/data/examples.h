// Training data as examples of S tokens: what a step's micro-batches are made of, the same on every rank.
//
//   tokens   .bin (llm.c header, else headerless: uint16 where the vocabulary is <= 65,536, else uint32), .npy (1-D
//   unsigned or
//            signed integers)                   -> consecutive blocks of S tokens; block i begins at token i S
//   JSONL    {"input_ids": [...], "labels": [...]?} per line; or {"text": "..."} through SentencePiece
//   (tokenizer.model)
//            -> packed: all examples joined, cut in blocks of S; padded: one example a row, cut at S, padded with label
//            -100
//   answers  {"prompt": ..., "chosen": ..., "rejected": ...} per line, each token ids or a text
//            -> an example is its answers, one after the other, each behind the prompt, cut at S and padded; or
//            {"prompt": ..., "completion": ..., "advantage": A}; and ref_<answer>_logps, old_<answer>_logps
//
// Labels are already shifted: labels[i] is what position i predicts, so a block of S tokens gives S - 1 predictions and
// its last label is kIgnoredLabel (device/device.h). With JSONL labels (not shifted, as Hugging Face has them)
// labels[i] = line.labels[i + 1].
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rows/data_options.h"

namespace gpuplan {

/// Asks for the answers that the recipe's method compares, which are padded. No change of one that compares none.
void ask_for_answers(DataOptions& options, const Recipe& recipe);

/// Figures that data give of the answers of an example, or of several, beside their tokens. Empty: none.
struct GivenFigures {
  std::vector<float> old, reference;  // losses of the labels, of the policy that wrote them and of the reference
  std::vector<float> advantages;      // of each answer
};

/// Random access to examples. Files are memory-mapped or indexed, never held as a whole.
class Examples {
 public:
  virtual ~Examples() = default;
  virtual std::int64_t size() const = 0;  // blocks or rows, at least 1
  /// Fills seq_len ids and labels of one example, or of each of its answers.
  virtual void read(std::int64_t index, std::span<std::int32_t> ids, std::span<std::int32_t> labels) const = 0;
  /// Adds what is said of one example.
  virtual void add_given(std::int64_t, GivenFigures&) const {}
  /// Says whether the model's tokenizer makes the ids.
  virtual bool is_text() const { return false; }
  virtual std::string describe() const = 0;  // "train.bin: 12,345 tokens of uint16, 48 blocks of 256"
};

/// Throws InputError (file, line or token position, what would be right) for what cannot be read, has tokens outside
/// the vocabulary, is shorter than one block, or needs a tokenizer that is not there.
std::unique_ptr<Examples> open_examples(const DataOptions& options);

/// labels[i] = unshifted[i + 1], and the last has none. In place.
void shift_labels(std::span<std::int32_t> labels);

/// Order of examples in training: position p of the whole run, over epochs.
struct SampleOrder {
  std::int64_t num_examples{};
  std::uint64_t seed = 0;
  bool shuffles = true;
  /// Shuffled anew each epoch, by a permutation that needs no memory of its own (a Feistel network over the index).
  std::int64_t example_at(std::int64_t position) const;
};

}  // namespace gpuplan
