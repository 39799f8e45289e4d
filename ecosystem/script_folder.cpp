#include "ecosystem/script_folder.h"

#include <filesystem>
#include <optional>

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

/// "/.." of "$(cd "$(dirname "$0")/.." && pwd)" and of "$(dirname "$0")/..": what stands behind the script's own
/// folder; nullopt where a text does not begin with it.
std::optional<std::string> behind_own_folder(const std::string& text) {
  constexpr std::string_view kShort = "${0%/*}";
  if (text.starts_with(kShort)) return text.substr(kShort.size());
  const bool is_own = text.find("$0") != std::string::npos || text.find("BASH_SOURCE") != std::string::npos;
  const std::size_t dirname = text.find("dirname");
  if (!text.starts_with("$(") || !is_own || dirname == std::string::npos) return std::nullopt;
  const auto step = [&](std::size_t at) -> std::string {  // a path up to a quote, a space or a bracket
    if (at >= text.size() || text[at] != '/') return "";
    std::size_t end = at;
    while (end < text.size() && std::string_view("\"' );&").find(text[end]) == std::string_view::npos) ++end;
    while (text[end - 1] == '_') --end;  // spaces of what is not known
    return text.substr(at, end - at);
  };
  const std::size_t closed = text.find(')', dirname), last = text.rfind(')');
  if (closed == std::string::npos) return std::nullopt;
  // behind the innermost bracket, and behind the whole
  std::string behind = closed == last ? "" : step(text[closed + 1] == '"' ? closed + 2 : closed + 1);
  behind += step(last + 1);
  return behind;
}

std::string normal(const fs::path& path) {
  std::string text = path.lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text == "." ? "" : text;
}

}  // namespace

ScriptFolder::ScriptFolder(const std::string& script) : own_(fs::path(script).parent_path().string()) {}

void ScriptFolder::take(const ShellCommand& command) {
  if (command.words[0].text != "cd" || command.words.size() < 2) return;
  const ShellWord& to = command.words[command.words[1].text == "--" && command.words.size() > 2 ? 2 : 1];
  if (const auto behind = behind_own_folder(to.text))
    now_ = normal(fs::path((own_.empty() ? "." : own_) + *behind));
  else if (!to.unknown.empty() || to.text.empty() || to.text[0] == '-' || to.text[0] == '~')
    now_.clear();
  else
    now_ = normal(fs::path(now_) / to.text);
}

std::string in_script_folder(const std::string& folder, const std::string& named) {
  return (fs::path(folder) / named).string();
}

}  // namespace gpuplan
