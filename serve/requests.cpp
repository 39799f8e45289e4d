#include "serve/requests.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "base/names.h"

namespace gpuplan {
namespace {

constexpr std::string_view kAnswer = "/api/answer", kCookie = "gpuplan-token=";
constexpr std::size_t kMostArguments = 200;

struct Type {
  std::string_view ending, type;
};
constexpr std::array kTypes{Type{".html", "text/html; charset=utf-8"}, Type{".css", "text/css; charset=utf-8"},
                            Type{".js", "text/javascript; charset=utf-8"}};

HttpReply refuse(int status, std::string why) { return {.status = status, .body = std::move(why) + "\n"}; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = char(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// "a%20b+c" as "a b c"; nothing where a percent sign begins no byte.
std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (i + 2 >= text.size() || hex_digit(text[i + 1]) < 0 || hex_digit(text[i + 2]) < 0) return std::nullopt;
    out += char(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
    i += 2;
  }
  return out;
}

/// Values of a name in the query of an address; nothing where it is not written as it has to be.
std::optional<std::vector<std::string>> values_in(std::string_view query, std::string_view name) {
  std::vector<std::string> values;
  for (const std::string& part : split(query, '&')) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const auto key = decoded(std::string_view(part).substr(0, equals));
    const auto value = decoded(std::string_view(part).substr(std::min(part.size(), equals + 1)));
    if (!key || !value) return std::nullopt;
    if (*key == name) values.push_back(*value);
  }
  return values;
}

/// Compares in the same time wherever the first difference is.
bool is_same_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) difference |= unsigned(a[i] ^ b[i]);
  return difference == 0;
}

std::string_view cookie_token(std::string_view cookie) {
  const std::size_t begin = cookie.find(kCookie);
  if (begin == std::string_view::npos) return {};
  const std::string_view rest = cookie.substr(begin + kCookie.size());
  return rest.substr(0, rest.find(';'));
}

bool has_token(const HttpRequest& request, std::string_view query, const Callers& callers) {
  if (callers.token.empty() || is_same_secret(cookie_token(request.cookie), callers.token)) return true;
  const auto given = values_in(query, "token");
  return given && given->size() == 1 && is_same_secret(given->front(), callers.token);
}

/// The page as this program serves it: it asks the program, not a module in the browser.
std::string served(const PageFile& file) {
  std::string content(file.content);
  constexpr std::string_view kUsual = R"(name="gpuplan-engine" content="wasm")";
  if (const std::size_t at = content.find(kUsual); at != std::string::npos)
    content.replace(at, kUsual.size(), R"(name="gpuplan-engine" content="native")");
  return content;
}

HttpReply page(std::string_view path) {
  const std::string_view name = path == "/" ? "index.html" : path.substr(std::min<std::size_t>(1, path.size()));
  for (const PageFile& file : page_files())
    for (const Type& row : kTypes)
      if (path.starts_with('/') && file.name == name && name.ends_with(row.ending))
        return {.type = std::string(row.type), .body = served(file)};
  return refuse(404, "there is no such page");
}

std::variant<HttpReply, HttpQuestion> question_in(const HttpRequest& request, std::string_view query) {
  if (request.method == "POST") {
    // A form of another site can send anything but this type.
    if (!request.content_type.starts_with("application/json")) return refuse(415, "a question is application/json");
    return HttpQuestion{request.body};
  }
  const auto arguments = values_in(query, "argument");
  if (!arguments || arguments->empty() || arguments->size() > kMostArguments)
    return refuse(400, "a question is /api/answer?argument=estimate&argument=--model&argument=llama3-8b…");
  return HttpQuestion{json_line(nlohmann::json{{"arguments", *arguments}})};
}

}  // namespace

std::variant<HttpReply, HttpQuestion> reply_to(const HttpRequest& request, const Callers& callers) {
  if (std::ranges::find(callers.hosts, request.host) == callers.hosts.end())
    return refuse(403, "this host name is not served");
  if (!request.origin.empty() && request.origin != "http://" + request.host)
    return refuse(403, "pages of other origins are not answered");
  const bool is_foreign = request.fetch_site == "cross-site" || request.fetch_site == "same-site";
  const std::string_view target = request.target;
  const std::size_t mark = std::min(target.find('?'), target.size());
  const std::string_view path = target.substr(0, mark), query = target.substr(std::min(target.size(), mark + 1));
  if (is_foreign && path.starts_with("/api/")) return refuse(403, "pages of other sites are not answered");
  if (!has_token(request, query, callers)) return refuse(401, "the address that gpuplan serve printed has a token");
  if (request.method != "GET" && request.method != "HEAD" && request.method != "POST")
    return refuse(405, "only GET and POST are answered");
  if (path == kAnswer) return question_in(request, query);
  if (request.method == "POST") return refuse(404, "questions go to /api/answer");
  HttpReply reply = page(path);
  if (!callers.token.empty() && reply.status == 200)
    reply.set_cookie = fmt::format("{}{}; HttpOnly; SameSite=Strict; Path=/", kCookie, callers.token);
  return reply;
}

}  // namespace gpuplan
