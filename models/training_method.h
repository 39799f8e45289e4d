// What a model is trained for: supervised fine-tuning, preference tuning, heads, distillation. One row of data per
// method (data/methods.yaml); what a trainer makes of it is in its record (FrameworkPreference of models/framework.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/recipe.h"

namespace gpuplan {

/// Names what stands behind the last layer: the vocabulary, a few numbers per row, or nothing.
enum class MethodHead : std::uint8_t { Vocabulary, Score, Pooled };

/// Says whose forward pass it is.
enum class PassModel : std::uint8_t { Policy, Reference, Teacher, Critic, Reward };

/// A pass that a micro batch has beside the policy's with gradients: forward without gradients, or the critic's
/// training.
struct SidePass {
  PassModel of{};
  std::string name;  // "log-probs of the reference"
  std::int64_t times = 1;
  bool is_old = false;      // of the policy that generated, before it is trained
  bool in_graph = true;     // it runs while what the pass with gradients saved is alive
  bool trains = false;      // with gradients, optimizer states and a step of its own
  bool when_asked = false;  // only where its model is asked for
};

/// Names the losses that gpuplan's own executor has (run/answers_loss.h). Tokens: cross-entropy of the labels. Pairs:
/// -log sigmoid of what the first of two answers is better by. Surrogate: clipped ratios of probabilities, weighted by
/// advantages. None: it has none for the method.
enum class MethodLoss : std::uint8_t { None, Tokens, Pairs, Surrogate };

/// Says over what a loss is averaged: rows of the data, each of which counts alike, or tokens with a label.
enum class MeanOver : std::uint8_t { Rows, Tokens };

struct TrainingMethod {
  std::string name, title, source;
  std::string like;  // the row whose conventions trainers have for it: its own name, or the one it is another loss of
  std::vector<std::string> aliases;
  std::string framework;     // of a question that names none
  std::int64_t answers = 1;  // rows that the model reads per row of the data
  MethodHead head{};
  std::int64_t labels = 1;          // of a score head
  std::int64_t generations = 0;     // answers to a prompt; 0: the trainer's
  std::int64_t baselines = 0;       // more of them, generated apart and only scored
  bool generates = false;           // the model writes the answers that it is trained on
  bool scores_completions = false;  // logits of the answers alone
  bool loss_on_first = false;
  bool distils = false;
  MethodLoss loss{};
  MeanOver mean_over{};
  double beta = 0;                        // strength of the reference, in the loss
  double clip_below = 0, clip_above = 0;  // how far a ratio goes from 1
  std::vector<std::string> other_losses;  // names that plan alike, and train with another loss
  std::vector<SidePass> passes;

  bool has_pass_of(PassModel model) const;
};

/// Every method, the usual one first.
std::span<const TrainingMethod> training_methods();

/// A row by name or alias. Throws InputError naming --method with the nearest names.
const TrainingMethod& find_training_method(std::string_view name);

/// Says what stands behind the last layer: a score of a method that generates is its critic's or reward model's.
MethodHead head_of(const Recipe& recipe);
/// Says whether a head of numbers, or none, stands in the place of the vocabulary.
bool has_own_head(const Recipe& recipe);
/// Says whether the model writes the answers that it is trained on.
bool generates(const Recipe& recipe);

/// Says what a reference is where nothing else is asked for: the adapters switched off where there are some, else a
/// copy, which waits on the host under some trainers.
Reference usual_reference(const Recipe& recipe);

/// Says how the log-probs of the reference come about: what is asked for, else its adapters switched off where there
/// are some, else a copy. None where the method compares with no reference.
Reference reference_of(const Recipe& recipe);

}  // namespace gpuplan
