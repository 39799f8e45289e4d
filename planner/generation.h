// An engine that writes answers: what it holds on a GPU, and how long a batch of answers takes. A question by itself
// (`estimate --generate`), and the phase of a training step that reinforcement learning adds (planner/rollout_phases).
// Derivations: docs/rl.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cluster/cluster_spec.h"
#include "cluster/profile/profile.h"
#include "models/model_spec.h"
#include "models/rollout.h"
#include "models/weights.h"

namespace gpuplan {

/// Everything an engine is given, with nothing left to defaults.
struct EngineSetup {
  const GenerationEngine* engine = nullptr;
  std::string version;
  EnginePlace place{};
  double utilisation = 0;
  bool sleeps = false;
  std::int64_t tp = 1;
  std::int64_t num_gpus = 1;  // of all engines
  std::int64_t max_sequences = 0, max_batched_tokens = 0;
  std::int64_t context = 0;     // tokens of the longest sequence that it is started for; 0: what the model reads
  double bytes_per_weight = 2;  // read for a token; of the trainer's own quantised base
  Bytes trained_weights;        // those of the trainer, with which it computes; 0 bytes: it has its own, in 16 bit
  std::int64_t num_engines() const { return std::max<std::int64_t>(1, num_gpus / tp); }
};

/// A batch of answers, of all engines together.
struct GenerationBatch {
  std::int64_t sequences = 1, generations = 1;   // generations: answers to one prompt
  std::int64_t mean_prompt = 0, prompt_len = 1;  // mean 0: all are as long
  std::int64_t mean_completion = 0, max_completion = 1;
  std::int64_t longest() const { return prompt_len + max_completion; }
  std::int64_t usual_prompt() const { return mean_prompt > 0 ? mean_prompt : prompt_len; }
};

/// Names what keeps a token from coming sooner, for most of the time.
enum class GenerationBound : std::uint8_t { Weights, Cache, Arithmetic, Host, Links };
NameTable<GenerationBound> names_of(GenerationBound);

/// The figures of one GPU and one batch.
struct Generation {
  Bytes weights, graphs, working, cache;  // cache: of an engine with a pool, all of it
  Bytes awake;                            // what it takes while it generates
  Bytes asleep;                           // and what stays while it sleeps
  Bytes cache_per_token;
  std::int64_t cache_tokens{};    // that the pool of one engine holds
  double sequences_at_once{};     // of one engine, by pool and settings
  double sequences{};             // of one engine
  Seconds prefill, decode, tail;  // tail: of decode, with less than a quarter of the sequences at once
  Seconds total;
  double tokens_per_second{};       // answers of all engines
  Seconds first_token, last_token;  // time of a token with the most and with the fewest sequences
  GenerationBound bound{};
  std::string refusal;  // why the engine would not start; empty: it does
};

/// Tokens that a model reads with an engine, as its positions reach and are scaled. 0: not known.
std::int64_t context_of(const ModelSpec& model, const GenerationEngine& engine);

/// Says why an engine would not start in such groups of GPUs or with so long sequences, whatever memory it has; empty:
/// it does.
std::string why_no_engine(const ModelSpec& model, const EngineSetup& setup);
/// Says why the trainer cannot have answers of this method written by the engine; empty: it can.
std::string why_not_started(const RolloutConvention& trainer, const GenerationEngine& engine, std::string_view method);

/// Fills the bytes alone; `cluster` has the card of all engines.
Generation generation_memory(const ModelSpec& model, const ModelWeights& weights, const EngineSetup& setup,
                             const GenerationBatch& batch, const ClusterSpec& cluster);

/// Fills bytes and seconds; the links of a group of tp are the cluster's. `beside_token`: what each token waits for
/// besides.
Generation generate(const ModelSpec& model, const ModelWeights& weights, const EngineSetup& setup,
                    const GenerationBatch& batch, const ClusterSpec& cluster, const Profile& profile,
                    Seconds beside_token = {});

}  // namespace gpuplan
