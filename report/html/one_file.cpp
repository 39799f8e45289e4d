#include "report/html/one_file.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"

namespace gpuplan {
namespace {

const PageFile& file_named(std::span<const PageFile> files, std::string_view name) {
  const auto found = std::ranges::find(files, name, &PageFile::name);
  GPUPLAN_CHECK(found != files.end(), "the page imports a file that it has not");
  return *found;
}

std::string variable_of(std::string_view file) { return fmt::format("module_{}", file.substr(0, file.find('.'))); }

/// The text between two others; nothing where they are not there.
std::optional<std::string_view> between(std::string_view text, std::string_view before, std::string_view after) {
  const std::size_t begin = text.find(before);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(begin + before.size());
  const std::size_t end = rest.find(after);
  return end == std::string_view::npos ? std::nullopt : std::optional(rest.substr(0, end));
}

/// "export async function copy(text) {" declares copy.
std::string declared_name(std::string_view line) {
  for (const std::string_view kind : {"function ", "class ", "const ", "let "})
    if (const std::size_t at = line.find(kind); at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + kind.size());
      return std::string(rest.substr(0, rest.find_first_of(" (=;{")));
    }
  fail_check("export", "an export that is not understood", __FILE__, __LINE__);
}

class Joining {
 public:
  explicit Joining(std::span<const PageFile> files) : files_(files) {}

  void add(std::string_view name) {
    if (!added_.insert(std::string(name)).second) return;
    std::string body;
    std::vector<std::string> exports;
    for (const std::string& line : split(std::string(file_named(files_, name).content), '\n'))
      body += added_line(line, exports);
    out_ += fmt::format("const {} = (() => {{\n{}return {{{}}};\n}})();\n", variable_of(name), body,
                        fmt::join(exports, ", "));
  }
  std::string take() { return std::move(out_); }

 private:
  std::string added_line(const std::string& line, std::vector<std::string>& exports) {
    constexpr std::string_view kExport = "export ";
    if (line.starts_with("import {")) {
      const auto names = between(line, "{", "}"), from = between(line, "'./", "'");
      GPUPLAN_CHECK(names && from, "an import that is not understood");
      add(*from);
      return fmt::format("const {{{}}} = {};\n", *names, variable_of(*from));
    }
    if (!line.starts_with(kExport)) return line + "\n";
    exports.push_back(declared_name(line));
    return line.substr(kExport.size()) + "\n";
  }

  std::span<const PageFile> files_;
  std::set<std::string> added_;
  std::string out_;
};

void replace(std::string& text, std::string_view what, std::string_view with) {
  const std::size_t at = text.find(what);
  GPUPLAN_CHECK(at != std::string::npos, "the page has no place for a part");
  text.replace(at, what.size(), with);
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

std::string joined_modules(std::span<const PageFile> files, std::string_view main) {
  Joining joining(files);
  joining.add(main);
  return joining.take();
}

std::string one_file_page(std::string_view title, const nlohmann::ordered_json& data) {
  const std::vector<PageFile> files = page_files();
  std::string page(file_named(files, "index.html").content);
  replace(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
          fmt::format("{}{}\">\n", kPageBegins, GPUPLAN_VERSION));
  const auto policy = between(page, "Content-Security-Policy\" content=\"", "\"");
  GPUPLAN_CHECK(policy, "the page has no content security policy");
  replace(page, std::string(*policy),
          "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:");
  replace(page, R"(name="gpuplan-engine" content="wasm")", R"(name="gpuplan-engine" content="none")");
  replace(page, "<title>gpuplan</title>", fmt::format("<title>{} - gpuplan</title>", escape_html(title)));
  replace(page, R"(<link rel="stylesheet" href="style.css">)",
          fmt::format("<style>\n{}</style>", file_named(files, "style.css").content));
  replace(page, R"(<script type="module" src="main.js"></script>)", "");
  const std::string json = data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  replace(
      page, "</body>",
      fmt::format(
          "<script type=\"application/json\" id=\"data\">{}</script>\n<script type=\"module\">\n{}</script>\n</body>",
          escape_script_json(json), joined_modules(files, "offline.js")));
  return page;
}

}  // namespace gpuplan
