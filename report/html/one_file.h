// The page of web/page as one file that works offline and has its answer in itself.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "report/html/page_files.h"

namespace gpuplan {

/// Text as it may stand between tags and in quoted attributes.
std::string escape_html(std::string_view text);

/// JSON as it may stand in a <script> element: no '<' is left, so that nothing in it ends the element.
std::string escape_script_json(std::string_view json);

/// Every page begins so, before the version that wrote it.
inline constexpr std::string_view kPageBegins =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"generator\" "
    "content=\"gpuplan ";

/// Modules of JavaScript as one: `main` behind all that it imports, each as a function that returns its exports.
/// Requires: imports and exports on lines of their own, as `import {a, b} from './x.js';` and `export function a`.
std::string joined_modules(std::span<const PageFile> files, std::string_view main);

/// The page with `data` in its element #data, from which web/page/offline.js shows it. It fetches nothing.
std::string one_file_page(std::string_view title, const nlohmann::ordered_json& data);

}  // namespace gpuplan
