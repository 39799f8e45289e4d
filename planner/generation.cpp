#include "planner/generation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <vector>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "models/ledger.h"
#include "models/weights.h"
#include "planner/cost.h"
#include "planner/peaks.h"

namespace gpuplan {

NameTable<GenerationBound> names_of(GenerationBound) {
  static constexpr std::array kNames{NameRow<GenerationBound>{"reading weights", GenerationBound::Weights},
                                     NameRow<GenerationBound>{"reading cache", GenerationBound::Cache},
                                     NameRow<GenerationBound>{"compute", GenerationBound::Arithmetic},
                                     NameRow<GenerationBound>{"launching", GenerationBound::Host},
                                     NameRow<GenerationBound>{"communication", GenerationBound::Links}};
  return {"bound", kNames};
}

namespace {

/// Elements of the language model: all, those that a token meets, and the routed ones.
struct Elements {
  double all = 0, active = 0, routed = 0;
};

Elements elements_of(const ModelSpec& model, const ModelWeights& weights) {
  Elements e;
  e.all = double(weights.total_elements() - weights.part_elements(ModelPart::Tower) -
                 weights.part_elements(ModelPart::Idle));
  e.active = e.all - double(weights.total_elements() - weights.active_elements(model.moe));
  for (std::size_t k = 0; k < weights.kinds.size(); ++k)
    for (const WeightTensor& tensor : weights.kinds[k].tensors)
      if (tensor.is_routed) e.routed += double(weights.num_of_kind(k)) * double(tensor.elements());
  if (!model.tie_word_embeddings) e.active -= double(model.vocab_size) * double(model.embedding_width());  // looked up
  return e;
}

/// Keys and values are divided among GPUs by their heads; a latent that all heads share is not.
double cache_ways(const ModelSpec& model, std::int64_t tp) {
  if (model.latent.is_present()) return 1;
  return double(std::clamp<std::int64_t>(tp, 1, std::max<std::int64_t>(1, model.num_key_value_heads)));
}

/// An engine keeps the latent of an attention that has one; the modelling code of transformers keeps what is expanded
/// from it. Source: vllm-project/vllm vllm/v1/kv_cache_interface.py (MLAAttentionSpec).
double cache_of_token(const ModelSpec& model, const EngineSetup& setup) {
  if (model.latent.is_present() && !setup.engine->in_trainer)
    return 2 * double(model.num_layers_with(attends) * (model.latent.kv_rank + model.latent.rope_head_dim));
  return double(kv_bytes_per_token(model).count) / cache_ways(model, setup.tp);
}

/// Time of one token of all running sequences.
class TokenTime {
 public:
  TokenTime(const ModelSpec& model, const ModelWeights& weights, const EngineSetup& setup, const ClusterSpec& cluster,
            const Profile& profile, Seconds beside)
      : model_(model),
        setup_(setup),
        elements_(elements_of(model, weights)),
        links_(beside) {
    ComputeKind kind{.dtype = multiplies_bf16(cluster.gpus.front()) ? Dtype::BF16 : Dtype::F16};
    const CostModel cost = make_cost_model(cluster.gpus.front(), profile, kind);
    arithmetic_ = cost.gemm, memory_ = cost.memory_rate();
    cache_per_token_ = cache_of_token(model, setup);
    const GenerationEngine& engine = *setup.engine;
    if (const EnginePace* const pace = engine.pace(setup.version)) {
      const double longer = setup.tp > 1 ? pace->of_group : 1;
      host_ = longer * pace->host_per_token;
      host_per_sequence_ = longer * pace->host_per_sequence;
    }
    if (engine.kernels_per_layer > 0) host_ += double(engine.kernels_per_layer * model.num_layers()) * cost.dispatch;
    if (setup.tp > 1) {
      const Seconds step =
          setup.tp > cluster.gpus_per_node ? engine.latencies_between * cluster.inter.latency : engine.all_reduce;
      links_ += double(2 * model.num_layers()) * step;
    }
  }

  struct Parts {
    Seconds weights, cache, arithmetic, host, links;
    Seconds total() const { return std::max(weights + cache, arithmetic) + host + links; }
  };

  /// `context`: tokens in the caches of all running sequences.
  Parts parts(double running, double context) const {
    const double read = weights_read(running) * setup_.bytes_per_weight / double(setup_.tp);
    Parts p;
    p.weights = Seconds{read / memory_.value};
    p.cache = Seconds{context * cache_per_token_ / memory_.value};
    p.arithmetic = Seconds{2 * elements_.active * running / (double(setup_.tp) * arithmetic_.value)};
    p.host = host_ + running * host_per_sequence_;
    p.links = links_;
    return p;
  }

  /// A forward pass over the prompts: every weight meets every token, and causal attention.
  Seconds prefill(double prompts, std::int64_t tokens) const {
    const double flops = prompts * (2 * elements_.active * double(tokens) +
                                    double(model_.num_layers_with(attends)) *
                                        attention_flops(model_, 1, tokens, {.is_causal = model_.is_causal}));
    return Seconds{flops / (double(setup_.tp) * arithmetic_.value)};
  }

 private:
  /// A routed expert is read where one of the running sequences is sent to it: with m tokens on k of E experts each, a
  /// share of 1 - (1 - k / E)^m of them.
  double weights_read(double running) const {
    if (elements_.routed <= 0 || model_.moe.num_experts <= 0) return elements_.all;
    const double share = double(model_.moe.experts_per_token) / double(model_.moe.num_experts);
    return elements_.all - elements_.routed * std::pow(1 - share, running);
  }

  const ModelSpec& model_;
  const EngineSetup& setup_;
  Elements elements_;
  FlopsPerSec arithmetic_;
  BytesPerSec memory_;
  double cache_per_token_ = 0;
  Seconds host_, host_per_sequence_, links_;
};

/// Largest activations of a forward over `tokens`: the stream, twice, both inputs of the MLP and its product; and the
/// logits of the sampled positions in 16 bit, in fp32 and as probabilities.
Bytes working_bytes(const ModelSpec& model, std::int64_t tokens, std::int64_t sampled, std::int64_t tp) {
  const std::int64_t widest =
      std::max(model.intermediate_size, model.moe.intermediate_size * model.moe.experts_per_token);
  return bytes_of(tokens * (2 * model.hidden_size + 3 * ceil_div(widest, tp)), Dtype::BF16) +
         bytes_of(sampled * model.vocab_size, Dtype::BF16) + 2 * bytes_of(sampled * model.vocab_size, Dtype::F32);
}

struct Decoded {
  Seconds total, tail;
  std::array<Seconds, 5> by_bound{};
};

GenerationBound bound_of(const TokenTime::Parts& p) {
  const Seconds reading = p.weights + p.cache, device = std::max(reading, p.arithmetic);
  if (p.host > std::max(device, p.links)) return GenerationBound::Host;
  if (p.links > device) return GenerationBound::Links;
  if (p.arithmetic >= reading) return GenerationBound::Arithmetic;
  return p.cache > p.weights ? GenerationBound::Cache : GenerationBound::Weights;
}

/// Answers of these lengths, in the order in which they begin; `slots` at once. All that run write one token in each
/// turn; one that ends makes room for the next.
Decoded decode_continuously(const TokenTime& token, const std::vector<double>& lengths, double prompt,
                            std::size_t slots) {
  using Ending = std::pair<double, double>;  // turn, length
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> running;
  Decoded out;
  double turn = 0, context = 0;
  std::size_t next = 0, most = 0;
  while (next < lengths.size() || !running.empty()) {
    while (next < lengths.size() && running.size() < slots) {
      running.emplace(turn + lengths[next], lengths[next]);
      context += prompt;
      ++next;
    }
    most = std::max(most, running.size());
    const double turns = running.top().first - turn, m = double(running.size());
    const TokenTime::Parts parts = token.parts(m, context + m * turns / 2);
    const Seconds spent = turns * parts.total();
    out.total += spent;
    if (4 * running.size() < most && next == lengths.size()) out.tail += spent;
    out.by_bound[std::size_t(bound_of(parts))] += spent;
    context += m * turns;
    turn = running.top().first;
    while (!running.empty() && running.top().first <= turn) {
      context -= prompt + running.top().second;
      running.pop();
    }
  }
  return out;
}

/// One batch until its longest answer ends; those that have ended go on in it.
Decoded decode_together(const TokenTime& token, const std::vector<double>& lengths, double prompt) {
  const double longest = *std::ranges::max_element(lengths), m = double(lengths.size());
  Decoded out;
  const TokenTime::Parts parts = token.parts(m, m * (prompt + longest / 2));
  out.total = longest * parts.total();
  out.by_bound[std::size_t(bound_of(parts))] = out.total;
  const auto running = [&](double t) { return std::ranges::count_if(lengths, [&](double l) { return l > t; }); };
  double from = longest;
  for (double t = 0; t < longest; t += std::max(1.0, longest / 256))
    if (double(running(t)) < m / 4) {
      from = t;
      break;
    }
  out.tail = (longest - from) * parts.total();
  return out;
}

/// Lengths at equal steps of probability, in the order of a van der Corput sequence: every stretch of the queue holds
/// short and long answers alike, and two runs give the same. The longest of `count` is the longest of all `among`: what
/// follows waits for every engine, so that the one which has it decides.
std::vector<double> lengths_of(const AnswerLengths& lengths, std::int64_t count, std::int64_t among) {
  std::vector<double> out(std::size_t(count), 0.0);
  for (std::int64_t i = 0; i < count; ++i) {
    double place = 0, part = 0.5;
    for (std::uint64_t rest = std::uint64_t(i); rest > 0; rest >>= 1, part /= 2) place += part * double(rest & 1);
    out[std::size_t(i)] = place;
  }
  std::vector<std::size_t> order(out.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return out[i]; });
  std::vector<double> by_place(out.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank)
    by_place[order[rank]] = std::max(1.0, std::round(lengths.quantile((double(rank) + 0.5) / double(count))));
  double& longest = by_place[order.back()];
  longest = std::max(longest, std::round(lengths.quantile(1 - 0.5 / double(std::max(among, count)))));
  return by_place;
}

std::int64_t usual_sequences(const GenerationEngine& engine, const GpuSpec& gpu) {
  const bool is_large = engine.large_card.count > 0 && gpu.device_memory >= engine.large_card;
  return is_large ? engine.max_sequences_large : engine.max_sequences;
}

}  // namespace

std::int64_t context_of(const ModelSpec& model, const GenerationEngine& engine) {
  const RopeSpec& rope = model.rope;
  const auto has = [](const std::vector<std::string>& all, const std::string& one) {
    return std::ranges::find(all, one) != all.end();
  };
  if (model.position != PositionKind::Rope || has(engine.ropes_in_maximum, rope.type) ||
      has(engine.models_in_maximum, model.model_type))
    return model.max_position_embeddings;
  const bool is_of_original = has(engine.ropes_of_original, rope.type) && rope.original_positions > 0;
  return std::int64_t(rope.factor * double(is_of_original ? rope.original_positions : model.max_position_embeddings));
}

std::string why_not_started(const RolloutConvention& trainer, const GenerationEngine& engine, std::string_view method) {
  if (!engine.in_trainer && std::ranges::count(trainer.writes_itself, method) > 0)
    return fmt::format("{} of {} writes answers with the module that it trains, and starts no engine", method,
                       trainer.framework);
  if (trainer.engines.empty() || std::ranges::count(trainer.engines, engine.name) > 0) return {};
  return fmt::format("{} starts no {}", trainer.framework, engine.title);
}

std::string why_no_engine(const ModelSpec& model, const EngineSetup& s) {
  const GenerationEngine& engine = *s.engine;
  if (engine.in_trainer) return {};
  if (s.tp > s.num_gpus)
    return fmt::format("{} GPUs would share the layers of {}, and it has {}", s.tp, engine.title, s.num_gpus);
  if (s.num_gpus % s.tp != 0) return fmt::format("{} GPUs of the engine are no groups of {}", s.num_gpus, s.tp);
  const std::int64_t heads = model.num_attention_heads, shared = model.num_key_value_heads;
  if (engine.divides_heads && heads > 0 && heads % s.tp != 0)
    return fmt::format(
        "{} divides the {} attention heads of {} among the GPUs that share its layers, and {} do not "
        "divide them",
        engine.title, heads, model.name, s.tp);
  if (engine.divides_heads && !model.latent.is_present() && shared > 0 && shared % s.tp != 0 && s.tp % shared != 0)
    return fmt::format("{} divides or repeats the {} key and value heads of {}, and {} GPUs do neither", engine.title,
                       shared, model.name, s.tp);
  const std::int64_t most = context_of(model, engine);
  if (most > 0 && s.context > most)
    return fmt::format("{} would be started for sequences of {} tokens, and {} reads {}", engine.title,
                       format_grouped(s.context), model.name, format_grouped(most));
  return {};
}

Generation generation_memory(const ModelSpec& model, const ModelWeights& all_weights, const EngineSetup& setup,
                             const GenerationBatch& batch, const ClusterSpec& cluster) {
  const GenerationEngine& engine = *setup.engine;
  const GpuSpec& gpu = cluster.gpus.front();
  Generation g;
  const std::int64_t rows = ceil_div(batch.sequences, setup.num_engines());
  g.sequences = double(rows);
  g.cache_per_token = Bytes{std::int64_t(std::ceil(cache_of_token(model, setup)))};
  const Bytes per_sequence = state_bytes_per_sequence(model);
  const std::int64_t chunk = setup.max_batched_tokens > 0 ? setup.max_batched_tokens : engine.max_batched_tokens;
  if (engine
          .in_trainer) {  // the cache of the batch, of which one layer is concatenated at a time, and a token's logits
    g.cache_tokens = rows * batch.longest();
    g.cache = g.cache_tokens * g.cache_per_token + rows * per_sequence;
    g.working = Bytes{2 * g.cache.count / std::max<std::int64_t>(1, model.num_layers())} +
                working_bytes(model, rows * batch.prompt_len, rows, 1);
    g.sequences_at_once = double(rows);
    g.awake = g.cache + g.working;  // beside the trainer's weights
    return g;
  }
  const std::int64_t most = setup.max_sequences > 0 ? setup.max_sequences : usual_sequences(engine, gpu);
  const double elements = elements_of(model, all_weights).all;
  g.weights = setup.trained_weights.count > 0
                  ? setup.trained_weights
                  : Bytes{std::int64_t(std::ceil(elements * setup.bytes_per_weight / double(setup.tp)))};
  g.graphs = engine.graphs;
  g.working = working_bytes(model, chunk, std::min(most, chunk), setup.tp);
  const Bytes apart = g.weights + g.working,
              shared = engine.of_free ? gpu.framework_memory - apart - g.graphs : gpu.framework_memory,
              part{std::int64_t(setup.utilisation * double(shared.count))};
  g.cache = std::max(Bytes{}, engine.of_free ? part : part - apart);
  g.awake = g.weights + g.working + g.cache + g.graphs;  // which are captured when the cache is there
  g.asleep = setup.sleeps ? g.graphs : g.awake;
  const Bytes of_longest = batch.longest() * g.cache_per_token + per_sequence;
  if (g.cache_per_token.count > 0) g.cache_tokens = std::max<std::int64_t>(0, g.cache.count / g.cache_per_token.count);
  g.refusal = why_no_engine(model, setup);
  if (g.refusal.empty() && g.cache < of_longest)
    g.refusal = fmt::format(
        "{} finds no room for one sequence: of its {} ({:.0f} % of {}) weights take {}, a forward pass {}, and {} "
        "tokens need {}",
        engine.title, format_bytes(engine.of_free ? apart + g.cache : part), 100 * setup.utilisation,
        engine.of_free ? "what they leave" : "the card", format_bytes(g.weights), format_bytes(g.working),
        format_grouped(batch.longest()), format_bytes(of_longest));
  // a sequence holds its share of a prompt and, at a moment of its life, E[L^2] / 2 E[L] tokens of its answer
  const AnswerLengths lengths(batch.mean_completion, batch.max_completion);
  const std::int64_t sharing = engine.shares_prompts ? std::max<std::int64_t>(1, batch.generations) : 1;
  const double held = (double(batch.usual_prompt()) / double(sharing) + lengths.mean_square() / (2 * lengths.mean())) *
                          double(g.cache_per_token.count) +
                      double(per_sequence.count);
  g.sequences_at_once = std::clamp(held > 0 ? double(g.cache.count) / held : double(most), 1.0, double(most));
  return g;
}

Generation generate(const ModelSpec& model, const ModelWeights& weights, const EngineSetup& setup,
                    const GenerationBatch& batch, const ClusterSpec& cluster, const Profile& profile,
                    Seconds beside_token) {
  const GenerationEngine& engine = *setup.engine;
  Generation g = generation_memory(model, weights, setup, batch, cluster);
  const TokenTime token(model, weights, setup, cluster, profile, beside_token);
  const AnswerLengths lengths(batch.mean_completion, batch.max_completion);
  const auto rows = std::int64_t(g.sequences);
  const std::vector<double> each = lengths_of(lengths, rows, batch.sequences);
  const std::int64_t sharing = engine.shares_prompts ? std::max<std::int64_t>(1, batch.generations) : 1;
  const auto slots = std::size_t(std::max(1.0, std::floor(g.sequences_at_once)));
  g.prefill = token.prefill(double(ceil_div(rows, sharing)), batch.usual_prompt());
  const Decoded decoded = engine.in_trainer ? decode_together(token, each, double(batch.usual_prompt()))
                                            : decode_continuously(token, each, double(batch.usual_prompt()), slots);
  g.decode = decoded.total, g.tail = decoded.tail;
  g.total = g.prefill + g.decode;
  g.tokens_per_second = double(setup.num_engines()) * double(rows) * lengths.mean() / g.total.value;
  const double full = std::min(g.sequences, double(slots));
  g.first_token = token.parts(full, full * double(batch.usual_prompt())).total();
  g.last_token = token.parts(engine.in_trainer ? full : 1, double(batch.longest())).total();
  g.bound = GenerationBound(std::ranges::max_element(decoded.by_bound) - decoded.by_bound.begin());
  return g;
}

}  // namespace gpuplan
