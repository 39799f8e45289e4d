// Generation of answers, by itself and as a phase of reinforcement learning: the engine that runs it
// (data/engines.yaml), what is generated, and what a trainer does around it (data/rl_trainers.yaml). Bytes and seconds:
// planner/generation.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/name_table.h"
#include "base/table_row.h"
#include "base/units.h"
#include "models/recipe.h"
#include "models/version.h"

namespace gpuplan {

/// Host time of one token of all running sequences, from a version on.
struct EnginePace {
  std::string since;  // "0.9"; "0": all before
  Seconds host_per_token;
  Seconds host_per_sequence;  // and for each of them: scheduling, sampling, text
  double of_group = 1;        // times as long where several GPUs share the layers
};

/// A program that generates. Empirical figures have their source in the row.
struct GenerationEngine {
  std::string name, title, source;
  std::vector<std::string> aliases;
  bool in_trainer = false;  // the trainer's own module generates: its weights, eager kernels, one batch until all end
  double utilisation = 0;   // share of the card that it takes; 0: what it needs
  bool of_free = false;     // … of what weights, a forward pass and graphs leave free, for its cache alone
  std::int64_t max_sequences = 256, max_sequences_large = 256;  // large: on cards of at least `large_card`
  Bytes large_card;
  std::int64_t max_batched_tokens = 8192;  // of a prefill
  Bytes graphs;                            // CUDA graphs and workspaces, which survive sleep
  bool can_sleep = false;
  bool divides_heads = false;  // GPUs that share the layers must divide the attention heads
  // scaled positions whose scale is in the model's maximum already, by rope type and by model type; and rope types
  // whose scale is of the original maximum
  std::vector<std::string> ropes_in_maximum, models_in_maximum, ropes_of_original;
  bool shares_prompts = false;         // the answers to one prompt share its keys and values, and its prefill
  std::int64_t kernels_per_layer = 0;  // launched for each token, of an engine without graphs
  Seconds all_reduce;                  // of a token's activations among GPUs that share the layers, inside a machine
  double latencies_between = 0;        // of the network, that one takes where they are on several machines
  // host time of a parameter that it takes: whole, and gathered from the ranks first
  Seconds parameter_call, gathered_call;
  std::vector<EnginePace> versions;  // the newest first

  /// The row of `version`; empty: the newest. nullptr: the engine has none.
  const EnginePace* pace(std::string_view version) const;
};
std::span<const GenerationEngine> generation_engines();
const GenerationEngine& row_named(std::string_view name, std::type_identity<GenerationEngine>);

/// Says where an engine runs: on the GPUs that train, in turn with training, or on GPUs of its own.
enum class EnginePlace : std::uint8_t { Colocate, Server };
NameTable<EnginePlace> names_of(EnginePlace);

/// Names what of the trained model waits on the host while an engine generates: weights, optimizer states, or both.
enum class TrainerOffload : std::uint8_t { No, Weights, States, Yes };
NameTable<TrainerOffload> names_of(TrainerOffload);
constexpr bool moves_weights(TrainerOffload o) { return o == TrainerOffload::Weights || o == TrainerOffload::Yes; }
constexpr bool moves_states(TrainerOffload o) { return o == TrainerOffload::States || o == TrainerOffload::Yes; }
constexpr TrainerOffload trainer_offload(bool weights, bool states) {
  return weights && states ? TrainerOffload::Yes
         : weights         ? TrainerOffload::Weights
         : states          ? TrainerOffload::States
                           : TrainerOffload::No;
}

/// The engine as it is asked for; what is not given is the trainer's, then the engine's own.
struct EngineChoice {
  std::optional<RowOf<GenerationEngine>> engine;
  std::string version;
  std::optional<EnginePlace> place;
  std::optional<double> utilisation;
  std::optional<bool> sleeps;
  std::int64_t tp = 0;             // GPUs that share the layers; 0: the trainer's
  std::int64_t gpus = 0;           // of a server; 0: as many as train
  std::int64_t max_sequences = 0;  // at once, per engine
  bool is_async = false;           // it generates the next batch while this one trains
  bool syncs_adapter = false;      // only adapters are sent to it
  Bytes sync_bucket;               // of weights that are sent in buckets; 0: the trainer's
  std::int64_t context = 0;        // tokens of the longest sequence that it is started for; 0: the trainer's
  std::int64_t sync_batches = 1;   // in so many parts weights are gathered where adapters are merged into them
  std::optional<TrainerOffload> offloads;
  bool operator==(const EngineChoice&) const = default;
};
/// "vllm:colocate,util=0.3,tp=2,sleep=yes". Throws InputError naming --rollout-engine.
EngineChoice parse_engine(std::string_view text);
std::string to_text(const EngineChoice& choice);

/// Says what is generated, and how often it is trained on.
struct Rollout {
  EngineChoice engine;
  std::int64_t generations = 0;                          // answers to one prompt; 0: the trainer's
  std::int64_t mean_prompt = 0, prompt_len = 0;          // tokens, of the longest 0: 512; mean 0: all are as long
  std::int64_t mean_completion = 0, max_completion = 0;  // tokens; mean 0: all are as long as the longest
  std::int64_t updates = 1;     // optimizer steps on what is generated at once, each on a part of it
  std::int64_t iterations = 1;  // passes over it
  std::int64_t sequences = 0;   // of a question about generation alone
  // sequences at once of the passes for log-probs, of the policy that generated and of the reference; 0: a micro batch
  std::int64_t old_batch = 0, reference_batch = 0;
  // tokens up to which rows fill a micro batch, so that shorter ones are more at once; 0: it is of rows
  std::int64_t step_tokens = 0;
  double share = 1;                 // of the steps that generate; the others are on answers of the data
  bool judged_by_function = false;  // a method with a reward model has none on the GPUs
  Seconds reward;                   // of one generation: what judges the answers takes
  bool operator==(const Rollout&) const = default;
};

/// Says when a trainer computes the log-probs of the policy that generated, in a pass of their own.
enum class OldLogProbs : std::uint8_t { Never, WithEngine, Always };
/// Says how new weights come to an engine: one parameter after the other, or in buckets.
enum class WeightSync : std::uint8_t { Parameters, Buckets };

/// Holds what a trainer makes of reinforcement learning; one row per record of data/frameworks that has it.
struct RolloutConvention {
  std::string framework, source;
  RowOf<GenerationEngine> engine;
  std::vector<EnginePlace> places{EnginePlace::Colocate, EnginePlace::Server};  // that it has, the usual one first
  double utilisation = 0;
  bool sleeps = false;
  bool lags = false;  // an engine with GPUs of its own always writes the next answers while these train
  std::int64_t tp = 1, generations = 8;
  std::int64_t max_sequences = 0;       // 0: of a generation, per engine
  std::int64_t max_batched_tokens = 0;  // 0: the engine's
  OldLogProbs old_log_probs = OldLogProbs::Always;
  std::vector<std::string> references;  // methods that have a reference unless it is switched off
  bool reference_on_host = false;       // a copy of the policy as reference waits on the host between its passes
  bool unpads = false;                  // rows of a micro batch are laid end to end, without padding
  bool offloads_states = false;         // optimizer states are on the host while an engine generates
  bool offloads_weights = false;        // and what is trained too
  bool starts_before_states = false;    // an engine starts before the optimizer has states
  WeightSync sync = WeightSync::Parameters;
  Bytes bucket;                            // of WeightSync::Buckets
  bool gathers_all_with_adapters = false;  // adapters are merged into all weights at once, gathered whole
  std::optional<LossKernel> loss;
  double overhead = 0;                     // of a step: rewards, moving data, waiting; over the sum of its phases
  bool shares_weights = false;             // a colocated engine computes with the trainer's own weights
  bool reward_by_function = false;         // a method with a reward model has one only where it is asked for
  bool critic_in_graph = false;            // policy and critic run forward together, then backward
  std::vector<std::string> engines;        // that it can start; empty: any
  std::vector<std::string> writes_itself;  // methods whose answers its own module writes, whatever engines it has
  std::vector<std::string> groups;         // methods that compare the answers to a prompt
  std::string one_answer;                  // of these, with one answer to a prompt: refused, or what becomes of them
  bool keeps_scores = false;  // the trainer's own generate() keeps the logits of every token, where there is a critic
};

/// Lengths of a question that states none, in tokens.
struct UsualLengths {
  std::int64_t prompt = 0, completion = 0;
};
const UsualLengths& usual_lengths();

/// Answers to a prompt where none are asked for.
std::int64_t usual_generations(const Recipe& recipe);

/// nullptr: nothing is known of it with this trainer.
const RolloutConvention* rollout_convention(std::string_view framework);
std::span<const RolloutConvention> rollout_conventions();

/// Rows of a micro batch are laid end to end, so that they take their own tokens.
bool unpads_rows(const Recipe& recipe);

/// Lengths of answers: each token ends the answer with the same probability, and the longest are cut. Mean m of lengths
/// with scale s cut at M:  m = s (1 - exp(-M / s)).
class AnswerLengths {
 public:
  AnswerLengths(std::int64_t mean, std::int64_t most);
  /// Length of which a share `p` of the answers is shorter.
  double quantile(double p) const;
  /// The share that is still written after `tokens`.
  double share_longer(double tokens) const;
  double mean() const { return mean_; }
  double mean_square() const;
  /// The longest of `count` on average.
  double longest_of(std::int64_t count) const;

 private:
  double mean_, most_, scale_ = 0;  // scale 0: all are as long as the longest
};

}  // namespace gpuplan
