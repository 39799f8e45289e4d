// How activities and streams of a simulation are named and drawn: one table for terminal charts and HTML reports.
#pragma once

#include <string>
#include <string_view>

#include "report/text/screen.h"
#include "sim/simulation.h"

namespace gpuplan {

struct ActivityLook {
  std::string_view glyph;  // one column wide; distinct among the activities of a stream
  char ascii;
  std::string_view colour;       // of a terminal: SGR parameters
  std::string_view light, dark;  // of a page: CSS colours
};

const ActivityLook& look(Activity activity);
std::string_view name_of(StreamId stream);

/// `count` columns of the chart in which `activity` runs.
std::string draw(Activity activity, int count, const Screen& screen);

/// The part of a span in which it works, as utilisation counts: what a computation waits for launches stands at its
/// end, what a receive waits for its message at its beginning.
struct WorkingPart {
  SimTime begin, end;
};
WorkingPart working_part(const Span& span);

/// "forward layer 3", for tooltips and traces. `num_layers` of the model.
std::string span_name(const Span& span, std::int64_t num_layers);

}  // namespace gpuplan
