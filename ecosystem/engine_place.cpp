#include "ecosystem/engine_place.h"

#include <algorithm>

namespace gpuplan {
namespace {

/// A server that the script itself starts: what the training says of the engine is for one beside it.
void read_started_server(const Setup& s, EngineChoice& engine) {
  engine.tp = std::max<std::int64_t>(1, *s.server_tp);
  engine.gpus = engine.tp * std::max<std::int64_t>(1, s.server_copies.value_or(1));
  engine.utilisation = s.server_utilisation;
  engine.context = s.server_context.value_or(0);
}

}  // namespace

void place_engine(const Setup& s, EngineChoice& engine) {
  if (s.server_tp && !engine.place) engine.place = EnginePlace::Server;
  if (s.engine_colocated) engine.place = *s.engine_colocated ? EnginePlace::Colocate : EnginePlace::Server;
  if (engine.place == EnginePlace::Server && s.engine_gpus)
    engine.gpus = *s.engine_gpus * std::max<std::int64_t>(1, s.engine_machines.value_or(1)) *
                  std::max<std::int64_t>(1, s.engine_copies.value_or(1));
  if (engine.place == EnginePlace::Server && !s.engine_gpus && s.engine_count)
    engine.gpus = *s.engine_count * std::max<std::int64_t>(1, engine.tp);
  engine.is_async = s.engine_async.value_or(false);
  engine.syncs_adapter = s.adapter_sync.value_or(false);
  engine.sync_batches = std::max<std::int64_t>(1, s.sync_batches.value_or(1));
  if (s.engine_version) engine.version = *s.engine_version;
  engine.context = s.engine_context.value_or(0);
  if (engine.place == EnginePlace::Server && s.server_tp) read_started_server(s, engine);
  engine.sync_bucket = Bytes{std::max<std::int64_t>(0, s.sync_bucket.value_or(0)) << 20};
}

}  // namespace gpuplan
