// A question and its answer as texts of JSON, for those who are not a shell: the page, the npm package, gpuplan serve.
#pragma once

#include <string>
#include <string_view>

namespace gpuplan {

/// Answers {"arguments": [...], "files": {path: content}, "variables": {name: value}, "now": seconds since 1970,
/// "cores": n, "input": text, "width": columns} with {"code", "out", "err", "written": {path: content}}. All but
/// `arguments` may be missing: no files, no variables, one core, 100 columns without colours. Nothing else is read
/// (cli/program.h). A question of another shape is wrong input, code 2.
std::string answer_json(std::string_view question);

}  // namespace gpuplan
