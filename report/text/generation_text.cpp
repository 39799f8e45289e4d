#include <fmt/format.h>

#include "base/unit_text.h"
#include "report/generation_answer.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

std::string engine_text(const GenerationAnswer& a) {
  const EngineSetup& s = a.setup;
  const std::string version = s.version.empty() ? "" : " " + s.version;
  const std::string count = s.num_engines() == 1 ? "1 engine" : fmt::format("{} engines", s.num_engines());
  return fmt::format("{}{}: {} on {} × {}{}", s.engine->title, version, count, s.num_gpus, a.cluster.gpus.front().name,
                     s.tp > 1 ? fmt::format(", {} GPUs share the layers", s.tp) : "");
}

std::string batch_text(const GenerationBatch& b) {
  const bool is_spread = b.mean_completion > 0 && b.mean_completion < b.max_completion;
  return fmt::format("{} sequences: prompts of {} tokens{}, answers of {}", format_grouped(b.sequences),
                     format_grouped(b.prompt_len),
                     b.generations > 1 ? fmt::format(" with {} answers each", b.generations) : "",
                     is_spread ? fmt::format("{} on average, at most {}", format_grouped(b.mean_completion),
                                             format_grouped(b.max_completion))
                               : format_grouped(b.max_completion));
}

std::string memory_text(const GenerationAnswer& a) {
  const Generation& g = a.figures;
  std::string parts;
  if (g.weights.count > 0) parts += fmt::format("weights {}, ", format_bytes(g.weights));
  if (g.graphs.count > 0) parts += fmt::format("graphs {}, ", format_bytes(g.graphs));
  return fmt::format("{} of {} per GPU: {}a forward pass {}, cache {}", format_bytes(a.of_card), format_bytes(a.usable),
                     parts, format_bytes(g.working), format_bytes(g.cache));
}

std::string cache_text(const Generation& g, const EngineSetup& s) {
  if (s.engine->in_trainer)
    return fmt::format("{} a token, {} tokens", format_bytes(g.cache_per_token), format_grouped(g.cache_tokens));
  return fmt::format("{} a token and GPU, {} tokens: {:.0f} of the {:.0f} sequences of an engine at once",
                     format_bytes(g.cache_per_token), format_grouped(g.cache_tokens),
                     std::min(g.sequences_at_once, g.sequences), g.sequences);
}

std::string time_text(const Generation& g) {
  return fmt::format("{}: prompts {}, answers {} (of which {} with less than a quarter of the sequences); bound by {}",
                     format_duration(g.total), format_duration(g.prefill), format_duration(g.decode),
                     format_duration(g.tail), to_string(g.bound));
}

}  // namespace

std::string generation_text(const GenerationAnswer& a, const Screen& screen) {
  const Generation& g = a.figures;
  std::vector<Fact> facts{{"model", fmt::format("{}", a.model.name)},
                          {"engine", engine_text(a)},
                          {"batch", batch_text(a.batch)},
                          {"memory", memory_text(a)}};
  if (a.fits()) facts.push_back({"cache", cache_text(g, a.setup)});
  std::string verdict;
  if (a.fits()) {
    facts.push_back({"time", time_text(g)});
    facts.push_back({"token", fmt::format("{} with all sequences, {} for the last one", format_duration(g.first_token),
                                          format_duration(g.last_token))});
    verdict =
        fmt::format("fits: {} answered tokens/s{}", format_grouped(std::int64_t(g.tokens_per_second)),
                    a.cost_usd_per_million ? fmt::format(", {} per million", format_usd(*a.cost_usd_per_million)) : "");
  } else {
    verdict = "does not fit: " +
              (g.refusal.empty() ? fmt::format("it needs {} of {}", format_bytes(a.of_card), format_bytes(a.usable))
                                 : g.refusal);
  }
  std::string out = wrap(verdict, prose_width(screen), "", "  ");
  if (!a.remedy.empty()) out += wrap(a.remedy, prose_width(screen), "- ", "  ");
  out += "\n" + render(facts, 2, screen);
  std::vector<Fact> assumed;
  for (const std::string& text : a.assumptions) assumed.push_back({"", text});
  return out + heading("Assumed", screen) + render(assumed, 2, screen);
}

}  // namespace gpuplan
