// Edits of a text by places, and what they change as a unified diff. All that is not named by an edit stays, byte for
// byte.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace gpuplan {

constexpr std::size_t kMostContext = 3;  // lines of a diff around what changes

/// The bytes from `begin` up to `end` become `text`; alike, it is inserted.
struct TextEdit {
  std::size_t begin = 0, end = 0;
  std::string text;
};

/// Edits of a text by the key whose value they change. What a key is given last counts.
class KeyedEdits {
 public:
  /// Takes back what was done for the key.
  void drop(const std::string& key);
  void add(const std::string& key, TextEdit edit) { edits_.emplace_back(key, std::move(edit)); }
  std::vector<TextEdit> list() const;

 private:
  std::vector<std::pair<std::string, TextEdit>> edits_;
};

/// `text` with all edits; of those at one place in their order. Requires: they do not overlap.
std::string with_edits(const std::string& text, std::vector<TextEdit> edits);

/// Lists the edits that make `after` of `before`, as `diff -u` writes it and `patch` reads it; empty where they are
/// alike. An empty `before` is a file that is new. `context`: lines around what changes.
std::string unified_diff(const std::string& before, const std::string& after, const std::string& name,
                         std::size_t context = kMostContext);

}  // namespace gpuplan
