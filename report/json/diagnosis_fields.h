// The fields of the answer of `gpuplan diagnose`, listed once: report/json/estimate_fields.h.
#pragma once

#include <string>
#include <vector>

#include "base/archive.h"
#include "report/answers.h"
#include "report/json/common_fields.h"

namespace gpuplan {

template <class Archive>
void list_fields(Archive& f, const Gap& gap) {
  f("measured", gap.measured, "s, tokens per second, or bytes");
  f("predicted", gap.predicted);
  f("ratio", gap.ratio, "measured / predicted; of tokens per second the other way round");
  f("low", gap.range.low, "8 of 10 measurements of such runs lie between low and high");
  f("high", gap.range.high);
  f("is_inside", gap.is_inside());
}

template <class Archive>
void list_fields(Archive& f, const StepParts& p) {
  f("step_seconds", p.step);
  f("num_steps", p.num_steps);
  f.object("phase_seconds", [&](auto& inner) {
    for (std::size_t i = 0; i < p.phases.size(); ++i) inner(kStepPhaseNames[i], p.phases[i]);
  });
  f.object("class_seconds", [&](auto& inner) {
    for (const NameRow<KernelClass>& row : kKernelClasses) inner(row.name, p.of(row.value));
  });
  f("compute_seconds", p.compute, "any kernel that is no collective and no copy");
  f("communication_seconds", p.communication, "any collective, waiting for others included");
  f("overlap_seconds", p.overlap, "of it, beside compute");
  f("exposed_seconds", p.exposed, "of it, beside nothing");
  f("copy_seconds", p.copies, "between host and GPU, beside nothing");
  f("idle_seconds", p.idle);
  f("loader_seconds", p.loader, "the training loop waits for its data");
}

template <class Archive>
void list_diagnosis(Archive& f, const DiagnosisAnswer& answer) {
  const Diagnosis& d = answer.diagnosis;
  f.object("model", [&](auto& inner) { list_model_name(inner, d.request.model); });
  f("strategy", d.predicted.strategy.name);
  f.nullable_object("time", d.time.has_value(), [&](auto& inner) { list_fields(inner, d.time.value_or(Gap{})); });
  f.nullable_object("memory", d.memory.has_value(), [&](auto& inner) { list_fields(inner, d.memory.value_or(Gap{})); });
  f("is_inside", d.is_inside(), "nothing is claimed then");
  f.objects("explanations", d.explanations, [](auto& inner, const Explanation& e) {
    inner("cause", std::string(e.cause ? e.cause->name : ""));
    inner("says", std::string(e.cause ? e.cause->says : ""));
    inner("check", std::string(e.cause ? e.cause->check : ""));
    inner("probability", e.probability);
    std::vector<std::string> settings;
    for (const Setting& s : e.difference.settings) settings.push_back(std::string(s.change->name) + "=" + s.value);
    inner("what_if", settings);
    inner("wait_share", e.difference.wait, "of the predicted step, that the training loop waits");
    inner("predicted", e.time, "with it; s or tokens per second");
    inner("predicted_peak_bytes", e.peak);
  });
  f("unexplained", d.unexplained, "probability that none of them is it");
  f.nullable_object("measured_parts", d.measured.parts.has_value(),
                    [&](auto& inner) { list_fields(inner, d.measured.parts.value_or(StepParts{})); });
  f.nullable_object("predicted_parts", d.predicted_parts.has_value(),
                    [&](auto& inner) { list_fields(inner, d.predicted_parts.value_or(StepParts{})); });
  f("notes", answer.notes);
}

}  // namespace gpuplan
