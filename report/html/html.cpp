#include "report/html/html.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "report/html/page_parts.h"

namespace gpuplan {
namespace {

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin);
}

std::string table_cell_html(std::string_view tag, const std::string& text, const Column& column, Ink ink = Ink::Plain) {
  std::string css = column.align == Align::Right ? "number" : "";
  if (ink == Ink::Bad) css += css.empty() ? "bad" : " bad";
  if (ink == Ink::Good) css += css.empty() ? "good" : " good";
  return fmt::format("<{0}{1}>{2}</{0}>", tag, css.empty() ? "" : fmt::format(" class=\"{}\"", css),
                     escape_html(trimmed(text)));
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string escape_script_json(std::string_view json) {
  std::string out;
  for (const char c : json)
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  return out;
}

std::string section_html(std::string_view title, const std::string& content_html) {
  return content_html.empty() ? ""
                              : fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", escape_html(title), content_html);
}

std::string paragraph_html(std::string_view text, std::string_view css_class) {
  if (text.empty()) return "";
  return fmt::format("<p{}>{}</p>\n", css_class.empty() ? "" : fmt::format(" class=\"{}\"", css_class),
                     escape_html(text));
}

std::string list_html(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += fmt::format("<li>{}</li>\n", escape_html(text));
  return out.empty() ? "" : "<ul>\n" + out + "</ul>\n";
}

std::string facts_html(const std::vector<Fact>& facts) {
  std::string out;
  for (const Fact& fact : facts)
    if (!fact.text.empty())
      out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape_html(fact.label), escape_html(fact.text));
  return out.empty() ? "" : "<dl>\n" + out + "</dl>\n";
}

std::string table_html(const Table& table) {
  if (table.rows.empty()) return "";
  std::string out = "<div class=\"scroll\"><table>\n<thead><tr>";
  for (const Column& column : table.columns) out += table_cell_html("th", column.title, column);
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      out += table_cell_html("td", row[i].text, table.columns[i], row[i].ink);
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table></div>\n";
}

std::string bar_html(double share, std::string_view text, std::string_view css_class) {
  return fmt::format(
      "<div class=\"bar {}\"><span class=\"track\"><span class=\"fill\" style=\"width:{:.2f}%\"></span></span>"
      "<span class=\"value\">{}</span></div>",
      css_class, 100 * std::clamp(share, 0.0, 1.0), escape_html(text));
}

std::string per_second(double tokens) { return format_grouped(std::llround(tokens)); }

std::string percent(double share) {
  return share > 0 && share < 0.005 ? "< 1 %" : fmt::format("{:.0f} %", 100 * share);
}

std::string cell_html(const std::string& html, std::string_view css) {
  return fmt::format("<td{}>{}</td>", css.empty() ? "" : fmt::format(" class=\"{}\"", css), html);
}

std::string page_head_html(std::string_view title, std::string_view more_style) {
  return fmt::format(
      "{}{}\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n",
      kPageBegins, GPUPLAN_VERSION, escape_html(std::string(title) + " - gpuplan"), page_style(), more_style);
}

std::string table_head_html(const std::vector<std::pair<std::string_view, std::string_view>>& titles) {
  std::string out = "<div class=\"scroll\"><table>\n<thead><tr>";
  for (const auto& [title, css] : titles)
    out += fmt::format("<th{}>{}</th>", css.empty() ? "" : fmt::format(" class=\"{}\"", css), escape_html(title));
  return out + "</tr></thead>\n<tbody>\n";
}

}  // namespace gpuplan
