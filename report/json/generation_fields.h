// The fields of `gpuplan estimate --generate`, and of `gpuplan validate` on points that are lines of flags.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/archive.h"
#include "report/generation_answer.h"
#include "report/json/common_fields.h"
#include "report/phase_points.h"

namespace gpuplan {

template <class Archive>
void list_generation(Archive& f, const GenerationAnswer& a) {
  const Generation& g = a.figures;
  f("gpuplan_version", std::string(GPUPLAN_VERSION));
  f("fits", a.fits());
  f("refusal", text_or_null(g.refusal), "why the engine would not start");
  f("model", a.model.name);
  f("engine", std::string(a.setup.engine ? a.setup.engine->name : ""));
  f("num_engines", a.setup.num_engines());
  f("tp", a.setup.tp, "GPUs of an engine");
  f("sequences", a.batch.sequences, "of all engines together");
  f.object("memory", [&](auto& inner) {
    inner("needed_bytes", a.of_card);
    inner("usable_bytes", a.usable);
    inner("weights_bytes", g.weights);
    inner("graphs_bytes", g.graphs);
    inner("working_bytes", g.working);
    inner("cache_bytes", g.cache);
    inner("cache_tokens", g.cache_tokens, "of one engine");
    inner("cache_bytes_per_token", g.cache_per_token);
    inner("asleep_bytes", g.asleep, "that stay while the engine sleeps");
  });
  f("sequences_at_once", g.sequences_at_once, "of one engine");
  f("prefill_seconds", g.prefill);
  f("decode_seconds", g.decode);
  f("tail_seconds", g.tail, "of decode_seconds, with less than a quarter of the sequences");
  f("seconds", g.total);
  f("tokens_per_second", g.tokens_per_second, "answers of all engines");
  f("first_token_seconds", g.first_token, "of a token with the most sequences");
  f("last_token_seconds", g.last_token, "of a token with the fewest");
  f("bound", g.bound, "keeps a token from coming sooner, for most of the time");
  f("cost_usd_per_million_tokens", a.cost_usd_per_million);
  f("assumptions", a.assumptions);
}

template <class Archive>
void list_fields(Archive& f, const PhaseFigure& figure) {
  f("predicted", figure.predicted);
  f("measured", figure.measured);
}

template <class Archive>
void list_phase_points(Archive& f, const std::vector<PhasePoint>& points) {
  f("gpuplan_version", std::string(GPUPLAN_VERSION));
  f.objects("points", points, [](auto& inner, const PhasePoint& p) {
    inner("id", p.id);
    inner("source", p.source);
    inner("flags", text_or_null(p.flags), "of the question; null: a plan states it");
    inner("counts", p.counts, "false: not every setting is stated");
    inner("refused", text_or_null(p.refused), "why there is no prediction");
    inner("outcome", text_or_null(p.outcome), "ok or oom");
    inner("verdict", p.fit);
    std::map<std::string, PhaseFigure> figures;
    for (const PhaseFigure& figure : p.figures) figures.emplace(figure.name, figure);
    inner.named("figures", figures, "by name: step_seconds, reserved_gib, ...");
  });
}

}  // namespace gpuplan
