#include <fmt/format.h>

#include "report/html/html.h"
#include "report/html/reports.h"
#include "report/text/answers_text.h"

namespace gpuplan {
namespace {

std::string causes_html(const Diagnosis& d) {
  if (const std::string none = no_explanation(d); !none.empty()) return paragraph_html(none);
  std::string rows;
  for (const Explanation& e : d.explanations)
    rows += "<tr>" + cell_html(escape_html(percent(e.probability))) + cell_html(escape_html(e.cause->says), "text") +
            cell_html(escape_html(prediction_with(e, d)), "text") + cell_html(escape_html(e.cause->check), "text") +
            "</tr>\n";
  rows += "<tr>" + cell_html(escape_html(percent(d.unexplained))) + cell_html("none of these", "text") +
          cell_html("", "text") + cell_html("", "text") + "</tr>\n";
  return table_head_html(
             {{"how likely", ""}, {"what it may be", ""}, {"predicted with it", ""}, {"how to see it", ""}}) +
         rows + std::string(kTableEnd);
}

}  // namespace

std::string diagnosis_report(const DiagnosisAnswer& answer) {
  const Diagnosis& d = answer.diagnosis;
  const std::string title = fmt::format("A measured step of {}", d.request.model.name);
  const std::string parts = d.measured.parts && d.predicted_parts
                                ? table_html(parts_table(*d.measured.parts, *d.predicted_parts))
                                : std::string();
  std::string out = page_head_html(title) + "<body>\n<header>\n<h1>" + escape_html(title) + "</h1>\n";
  for (const std::string& line : gap_lines(d)) out += paragraph_html(line, "answer");
  return out + "</header>\n" + section_html("What explains it", causes_html(d)) +
         section_html("Parts of the step", parts) + section_html("Read as", list_html(reading_notes(answer))) +
         fmt::format("<footer>gpuplan {}</footer>\n</body>\n</html>\n", GPUPLAN_VERSION);
}

}  // namespace gpuplan
