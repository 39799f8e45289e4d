#include "report/html/report_cells.h"

#include <cmath>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "report/html/html.h"

namespace gpuplan {

std::string per_second(double tokens) { return format_grouped(std::llround(tokens)); }

std::string percent(double share) {
  return share > 0 && share < 0.005 ? "< 1 %" : fmt::format("{:.0f} %", 100 * share);
}

std::string cell_html(const std::string& html, std::string_view css) {
  return fmt::format("<td{}>{}</td>", css.empty() ? "" : fmt::format(" class=\"{}\"", css), html);
}

std::string table_head_html(const std::vector<std::pair<std::string_view, std::string_view>>& titles) {
  std::string out = "<div class=\"scroll\"><table>\n<thead><tr>";
  for (const auto& [title, css] : titles)
    out += fmt::format("<th{}>{}</th>", css.empty() ? "" : fmt::format(" class=\"{}\"", css), escape_html(title));
  return out + "</tr></thead>\n<tbody>\n";
}

}  // namespace gpuplan
