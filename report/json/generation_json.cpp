#include "report/generation_answer.h"

namespace gpuplan {

nlohmann::ordered_json generation_json(const GenerationAnswer& a) {
  const Generation& g = a.figures;
  nlohmann::ordered_json out;
  out["fits"] = a.fits();
  if (!g.refusal.empty()) out["refusal"] = g.refusal;
  out["model"] = a.model.name;
  out["engine"] = a.setup.engine->name;
  out["num_engines"] = a.setup.num_engines();
  out["tp"] = a.setup.tp;
  out["sequences"] = a.batch.sequences;
  out["memory"] = {{"needed_bytes", a.of_card.count},  {"usable_bytes", a.usable.count},
                   {"weights_bytes", g.weights.count}, {"graphs_bytes", g.graphs.count},
                   {"working_bytes", g.working.count}, {"cache_bytes", g.cache.count},
                   {"cache_tokens", g.cache_tokens},   {"cache_bytes_per_token", g.cache_per_token.count},
                   {"asleep_bytes", g.asleep.count}};
  out["sequences_at_once"] = g.sequences_at_once;
  out["prefill_seconds"] = g.prefill.value;
  out["decode_seconds"] = g.decode.value;
  out["tail_seconds"] = g.tail.value;
  out["seconds"] = g.total.value;
  out["tokens_per_second"] = g.tokens_per_second;
  out["first_token_seconds"] = g.first_token.value;
  out["last_token_seconds"] = g.last_token.value;
  out["bound"] = std::string(to_string(g.bound));
  if (a.cost_usd_per_million) out["cost_usd_per_million_tokens"] = *a.cost_usd_per_million;
  out["assumptions"] = a.assumptions;
  return out;
}

}  // namespace gpuplan
