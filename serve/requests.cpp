#include "serve/requests.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "base/names.h"
#include "report/html/page_files.h"

namespace gpuplan {
namespace {

constexpr std::string_view kAnswer = "/api/answer", kApi = "/api/", kCookie = "gpuplan-token=";
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

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 40 && text.front() != '-' &&
         std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

/// A flag of the command line. Without a value, or with true: the flag alone; with false: none.
void add_flag(nlohmann::json& arguments, const std::string& name, const std::string& value) {
  if (value == "false") return;
  arguments.push_back(value.empty() || value == "true" ? "--" + name : fmt::format("--{}={}", name, value));
}

HttpQuestion command_question(std::string_view command, nlohmann::json flags, const nlohmann::json& files) {
  nlohmann::json arguments = nlohmann::json::array({command});
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.push_back("--json");
  nlohmann::json question{{"arguments", std::move(arguments)}};
  if (!files.is_null()) question["files"] = files;
  return {json_line(question), true};
}

/// The flags of /api/estimate?model=llama3-8b&lora=r=8&gpus=4xA6000.
std::variant<HttpReply, HttpQuestion> command_in_address(std::string_view command, std::string_view query) {
  nlohmann::json flags = nlohmann::json::array();
  for (const std::string& part : split(query, '&')) {
    if (part.empty()) continue;
    const std::size_t equals = std::min(part.find('='), part.size());
    const auto name = decoded(std::string_view(part).substr(0, equals));
    const auto value = decoded(std::string_view(part).substr(std::min(part.size(), equals + 1)));
    if (!name || !value || !is_name(*name) || flags.size() >= kMostArguments)
      return refuse(
          400, fmt::format("a question is /api/{}?flag=value&flag=value; /api/openapi.json lists the flags", command));
    if (*name != "token") add_flag(flags, *name, *value);
  }
  return command_question(command, std::move(flags), nullptr);
}

/// The flags of {"model": "llama3-8b", "gpus": "4xA6000", "files": {}}.
std::variant<HttpReply, HttpQuestion> command_in_body(std::string_view command, const std::string& body) {
  const auto given = json_in(body);
  if (!given || !given->is_object()) return refuse(400, "a question is an object of flags");
  nlohmann::json flags = nlohmann::json::array();
  for (const auto& [name, value] : given->items()) {
    if (name == "files") continue;
    if (!is_name(name) || value.is_structured() || value.is_null())
      return refuse(400, fmt::format("'{}' is no flag with a text, a number, true or false", name.substr(0, 40)));
    add_flag(flags, name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return command_question(command, std::move(flags), given->value("files", nlohmann::json()));
}

std::variant<HttpReply, HttpQuestion> command_in(const HttpRequest& request, std::string_view command,
                                                 std::string_view query) {
  if (command == "openapi.json" && request.method != "POST")
    return HttpQuestion{R"({"arguments":["completion","openapi"]})", true};
  if (!is_name(command)) return refuse(404, "questions go to /api/COMMAND; /api/openapi.json lists them");
  if (request.method != "POST") return command_in_address(command, query);
  if (!request.content_type.starts_with("application/json")) return refuse(415, "a question is application/json");
  return command_in_body(command, request.body);
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

HttpReply output_reply(const std::string& answer) {
  const auto read = json_in(answer);
  if (!read || !read->is_object()) return refuse(500, "the program that answers gave no answer");
  const int code = read->value("code", -1);
  const std::string out = read->value("out", ""), err = read->value("err", "");
  if (code >= 0 && code < kWrongInput && !out.empty()) return {.type = "application/json", .body = out};
  return {.status = code == kWrongInput ? 400 : code == kWorldFailed ? 503 : 500, .body = err};
}

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
  if (path.starts_with(kApi)) return command_in(request, path.substr(kApi.size()), query);
  if (request.method == "POST") return refuse(404, "questions go to /api/answer");
  HttpReply reply = page(path);
  if (!callers.token.empty() && reply.status == 200)
    reply.set_cookie = fmt::format("{}{}; HttpOnly; SameSite=Strict; Path=/", kCookie, callers.token);
  return reply;
}

}  // namespace gpuplan
