#include "cli/generate.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "cli/arguments.h"
#include "cluster/profile/profile_store.h"
#include "models/cut_answers.h"
#include "models/weights.h"
#include "planner/changes.h"
#include "planner/job.h"

namespace gpuplan {
namespace {

/// The first of the table that is a program of its own.
const GenerationEngine& usual_engine() {
  const std::span<const GenerationEngine> engines = generation_engines();
  return *std::ranges::find(engines, false, &GenerationEngine::in_trainer);
}

constexpr std::int64_t kUsualSequences = 256;

/// Flags that say something of an engine that trains nothing, or of how the answer is shown.
constexpr std::array<std::string_view, 20> kTaken{
    "--generate",       "--sequences", "--model",      "plan",      "--from",           "--offline",
    "--rollout-engine", "--color",     "--prompt-len", "--profile", "--completion-len", "--generations",
    "--gpus",           "--gpu-spec",  "--cluster",    "--gpu",     "--num-gpus",       "--price-per-gpu-hour",
    "--json",           "--format"};

void refuse_others(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0 && std::ranges::find(kTaken, option->get_name()) == kTaken.end())
      throw InputError(option->get_name(), "says nothing to --generate, which trains nothing", "leave it out");
}

GenerationBatch batch_of(const CLI::App& app, const Rollout& asked, std::int64_t of_files) {
  GenerationBatch b;
  b.generations = std::max<std::int64_t>(1, asked.generations);
  b.prompt_len = asked.prompt_len > 0 ? asked.prompt_len : usual_lengths().prompt;
  b.max_completion = asked.max_completion > 0 ? asked.max_completion : usual_lengths().completion;
  b.mean_prompt = asked.mean_prompt;
  b.mean_completion = asked.mean_completion;
  const auto sequences = given(app, "--sequences");
  b.sequences = sequences      ? parse_integer(*sequences, "--sequences", 1)
                : of_files > 0 ? of_files
                               : std::max(kUsualSequences, b.generations);
  return b;
}

EngineSetup setup_of(const EstimateRequest& r) {
  const EngineChoice& choice = r.rollout.engine;
  EngineSetup s;
  s.engine = choice.engine ? &**choice.engine : &usual_engine();
  s.version = choice.version;
  s.utilisation = choice.utilisation.value_or(s.engine->utilisation);
  s.num_gpus = std::int64_t(r.cluster.gpus.size());
  s.max_sequences = choice.max_sequences;
  s.tp = std::max<std::int64_t>(1, choice.tp);
  s.context = choice.context;
  return s;
}

/// As many GPUs share the layers as answer fastest, where nobody said how many.
void choose_tp(EngineSetup& s, const EstimateRequest& r, const ModelWeights& weights, const GenerationBatch& batch,
               const Profile& profile) {
  constexpr std::int64_t kMost = 8;
  EngineSetup best = s;
  double most = 0;
  for (; s.tp <= std::min(s.num_gpus, kMost) && s.num_gpus % s.tp == 0; s.tp *= 2) {
    const Generation g = generate(r.model, weights, s, batch, r.cluster, profile);
    if (!g.refusal.empty() || g.tokens_per_second <= most) continue;
    most = g.tokens_per_second, best = s;
  }
  s = best;
}

/// Says what an engine takes of a card, its process included, and what that offers.
void weigh(GenerationAnswer& a, const EstimateRequest& r, const ModelWeights& weights, const Profile& profile) {
  a.figures = generate(r.model, weights, a.setup, a.batch, a.cluster, profile);
  const bool is_own = !a.setup.engine->in_trainer;
  if (!is_own) a.figures.weights = bytes_of(weights.total_elements(), Dtype::BF16);
  a.of_card = is_own ? a.figures.awake
                     : a.figures.weights + a.figures.graphs + a.figures.working + a.figures.cache + profile.context;
  const Bytes capacity = a.cluster.gpus.front().framework_memory;
  a.usable = Bytes{std::int64_t(double(capacity.count) * (1 - (is_own ? 0 : profile.margin)))};
}

/// "--gpus 2xh100-sxm --rollout-engine vllm:tp=2 would do: 1,234 answered tokens/s": the fewest GPUs of this kind that
/// share the layers of a model that does not fit; empty where eight do not.
std::string more_gpus_that_share(const GenerationAnswer& asked, const EstimateRequest& r, const ModelWeights& weights,
                                 const Profile& profile) {
  constexpr std::int64_t kMost = 8;
  if (asked.setup.engine->in_trainer || r.cluster.is_mixed()) return {};
  const std::int64_t have = std::int64_t(r.cluster.gpus.size());
  for (std::int64_t tp = 2 * asked.setup.tp; tp <= kMost; tp *= 2) {
    GenerationAnswer tried = asked;
    tried.setup.tp = tp, tried.setup.num_gpus = std::max(have, tp);
    if (tried.setup.num_gpus % tp != 0 || !why_no_engine(tried.model, tried.setup).empty()) continue;
    if (tp > have) {
      const Setting more = set_to("num-gpus", std::to_string(tp));
      const auto grown = changed_if_possible({r, profile}, {&more, 1});
      if (!grown) return {};
      tried.cluster = grown->request.cluster;
    }
    weigh(tried, r, weights, profile);
    if (!tried.fits()) continue;
    const std::string gpus = tp > have ? fmt::format("--gpus {}x{} ", tp, r.cluster.gpus.front().id) : "";
    return fmt::format("{}--rollout-engine {}:tp={} would do: {} GPUs share the layers, {} answered tokens/s", gpus,
                       tried.setup.engine->name, tp, tp, format_grouped(std::int64_t(tried.figures.tokens_per_second)));
  }
  return {};
}

}  // namespace

GenerationAnswer answer_generation(const CLI::App& app, const EstimateRequest& r, std::int64_t of_files) {
  refuse_others(app);
  GenerationAnswer a;
  a.model = r.model, a.cluster = r.cluster;
  a.batch = batch_of(app, r.rollout, of_files);
  a.setup = setup_of(r);
  const std::int64_t longest = a.batch.max_completion;
  if (!a.setup.engine->in_trainer)
    cut_answers(a.setup.context, a.batch.prompt_len, a.batch.mean_completion, a.batch.max_completion);
  const ModelWeights weights = list_weights(r.model);
  if (a.setup.context == 0 && !a.setup.engine->in_trainer) a.setup.context = a.batch.longest();
  if (const std::string why = why_no_engine(a.model, a.setup); !why.empty())
    throw InputError("--rollout-engine", why,
                     "another tp or --gpus, shorter --prompt-len and --completion-len, or a model that reads more");
  const bool chooses = r.rollout.engine.tp == 0 && !a.setup.engine->in_trainer;
  const Profile profile = profile_of(r);
  if (chooses) choose_tp(a.setup, r, weights, a.batch, profile);
  weigh(a, r, weights, profile);
  const bool is_own = !a.setup.engine->in_trainer;
  if (!a.fits()) a.remedy = more_gpus_that_share(a, r, weights, profile);
  const auto price = r.price_per_gpu_hour ? r.price_per_gpu_hour : r.cluster.price_per_gpu_hour;
  if (price && a.figures.tokens_per_second > 0)
    a.cost_usd_per_million = *price * double(a.setup.num_gpus) / 3600 * 1e6 / a.figures.tokens_per_second;
  a.assumptions = r.cluster.assumptions;
  if (std::string own = read_instead_of_shipped(profile); !own.empty()) a.assumptions.push_back(std::move(own));
  a.assumptions.push_back("weights in 16 bit; the figures of the engine: data/engines.yaml");
  if (is_own)
    a.assumptions.push_back(fmt::format("{:.0f} % of the card{}", 100 * a.setup.utilisation,
                                        r.rollout.engine.utilisation
                                            ? std::string(" (--rollout-engine)")
                                            : fmt::format(", as is usual for {} (--rollout-engine {}:util=SHARE)",
                                                          a.setup.engine->title, a.setup.engine->name)));
  if (a.batch.max_completion < longest)
    a.assumptions.push_back(fmt::format("answers end at {} tokens: sequences of the engine have {} (context)",
                                        format_grouped(a.batch.max_completion), format_grouped(a.setup.context)));
  if (of_files > 0 && !given(app, "--sequences"))
    a.assumptions.push_back(
        fmt::format("{} answers, as the files generate at once; --sequences says others", format_grouped(of_files)));
  if (chooses && a.setup.tp > 1)
    a.assumptions.push_back(fmt::format("{} GPUs share the layers, which answers fastest", a.setup.tp));
  if (a.batch.mean_completion > 0)
    a.assumptions.emplace_back("each token ends an answer with the same probability, and the longest are cut");
  return a;
}

}  // namespace gpuplan
