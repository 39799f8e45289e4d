// Sentences, figures and tables about a simulation that terminal and page share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/answers.h"
#include "report/text/table.h"
#include "report/text/text.h"
#include "sim/simulation.h"

namespace gpuplan {

/// "step", "tokens/s", "MFU", … and what they are, empty ones left out.
std::vector<Fact> speed_facts(const SimulationAnswer& answer);

/// One part of the step, mean over GPUs; the parts add up to it.
struct StepShare {
  std::string name, meaning;
  double share{};  // of the step
  Seconds time;
};
std::vector<StepShare> step_shares(const Simulation& simulation);

/// "fsdp takes 601 ms (506-715) a step, 27,249 tokens/s; 12 min 32 s for 1 epoch, $2.32 on 8 GPUs".
std::string step_text(const SimulationAnswer& answer);
/// Says what most of the critical path is, then its longest part and what would shorten it; where the pipeline's bubble
/// is most of the GPUs' step, that.
std::string bound_text(const Simulation& simulation);
/// Says why the plan does not fit, and that it was simulated all the same; empty when it fits.
std::string fit_warning(const SimulatedPlan& plan);

/// "4 GPUs, 2 of them simulated; ...": how the step was simulated.
std::string method_text(const SimulationAnswer& answer);

/// Ends of one link, as the topology names them; "link 3" without one.
std::string link_name(const Simulation& simulation, std::uint32_t link);

/// Gives what a plan is called beside others.
std::string_view plan_name(const SimulatedPlan& plan);

/// Tokens per second per GPU against the first of `plans`.
double scaling_efficiency(const SimulatedPlan& plan, const SimulatedPlan& first);

/// One row per simulated GPU: how long each stream is busy, what it sends, its peak. At most `max_rows` rows.
Table streams_table(const Simulation& simulation, std::size_t max_rows);

/// A simulated rank that is shown, and how many real ones are like it beside itself.
struct ShownRank {
  std::uint32_t rank{};
  std::int64_t others{};
};
/// All of them where they are few. Of many, one of each that differs from those before (a slow GPU, another stage), or
/// the first ones where none does.
std::vector<ShownRank> shown_ranks(const Simulation& simulation, std::size_t max_ranks);
/// Simulated ranks that neither are shown nor are like one that is.
std::int64_t num_not_shown(const Simulation& simulation, std::size_t max_ranks);

/// The busiest links. At most `max_rows` rows.
Table links_table(const Simulation& simulation, std::size_t max_rows);

}  // namespace gpuplan
