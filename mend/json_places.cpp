#include "mend/json_places.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace gpuplan {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

/// Walks over the values of a text that is known to be JSON.
class PlaceReader {
 public:
  PlaceReader(const std::string& text, std::unordered_map<std::string, ValueTree::Place>* places)
      : text_(text),
        places_(places) {}

  /// Reads the value at `at`; returns what is behind it.
  std::size_t read(std::size_t at, const std::string& path, std::size_t key_begin = ValueTree::kNowhere) {
    at = text_.find_first_not_of(kSpace, at);
    if (at == std::string::npos) return text_.size();
    if (places_) {
      ValueTree::Place place;
      place.order = places_->size();
      place.begin = at;
      place.key_begin = key_begin;
      places_->insert_or_assign(path, place);
    }
    if (text_[at] == '{') return read_object(at + 1, path);
    if (text_[at] == '[') return read_array(at + 1, path);
    if (text_[at] == '"') return end_of_text(at);
    return std::min(text_.find_first_of(",]} \t\r\n", at), text_.size());
  }

 private:
  std::size_t end_of_text(std::size_t at) const {
    for (++at; at < text_.size() && text_[at] != '"'; ++at)
      if (text_[at] == '\\') ++at;
    return std::min(at + 1, text_.size());
  }

  std::size_t read_object(std::size_t at, const std::string& path) {
    while ((at = text_.find_first_not_of(" \t\r\n,", at)) < text_.size() && text_[at] != '}') {
      const std::size_t key = at;
      at = end_of_text(at);
      const std::string name = nlohmann::json::parse(text_.substr(key, at - key)).get<std::string>();
      at = read(text_.find(':', at) + 1, path.empty() ? name : fmt::format("{}.{}", path, name), key);
    }
    return std::min(at, text_.size() - 1) + 1;
  }

  std::size_t read_array(std::size_t at, const std::string& path) {
    for (int i = 0; (at = text_.find_first_not_of(" \t\r\n,", at)) < text_.size() && text_[at] != ']'; ++i)
      at = read(at, fmt::format("{}[{}]", path, i));
    return std::min(at, text_.size() - 1) + 1;
  }

  const std::string& text_;
  std::unordered_map<std::string, ValueTree::Place>* places_;
};

}  // namespace

std::unordered_map<std::string, ValueTree::Place> json_places(const std::string& text) {
  std::unordered_map<std::string, ValueTree::Place> places;
  PlaceReader(text, &places).read(0, "");
  return places;
}

std::size_t json_end(const std::string& text, std::size_t begin) { return PlaceReader(text, nullptr).read(begin, ""); }

}  // namespace gpuplan
