// Shows what `gpuplan estimate --generate` answers: an engine by itself.
#pragma once

#include <string>
#include <vector>

#include "planner/generation.h"
#include "report/text/screen.h"

namespace gpuplan {

struct GenerationAnswer {
  ModelSpec model;
  ClusterSpec cluster;
  EngineSetup setup;
  GenerationBatch batch;
  Generation figures;
  Bytes of_card, usable;  // what the engine takes of a card, its process included, and what that offers
  std::optional<double> cost_usd_per_million;  // of answered tokens
  std::string remedy;  // where it does not fit: flags with which it would, and what it gives then
  std::vector<std::string> assumptions;
  bool fits() const { return figures.refusal.empty() && of_card <= usable; }
};

std::string generation_text(const GenerationAnswer& answer, const Screen& screen);

}  // namespace gpuplan
