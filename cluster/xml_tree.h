// The little XML that NCCL writes: elements with attributes, nested; comments and declarations are skipped.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan {

struct XmlElement {
  std::string name;
  int line = 1;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;

  /// Empty when there is none.
  std::string attribute(std::string_view key) const;
};

/// The element at the top. Throws InputError with where = "file:line".
XmlElement read_xml(std::string_view text, const std::string& file);

}  // namespace gpuplan
