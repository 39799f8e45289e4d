// A request may ask for the page, or for an answer. Everything is decided here from the request's text alone; no path
// of this machine and no other host can be named (serve/server.h asks, cli/json_question.h answers).
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gpuplan {

/// Holds what a request says, as far as anything is decided by it. Names are lower case; what is not sent is empty.
struct HttpRequest {
  std::string method, target, host, origin, fetch_site, content_type, cookie, body;
};

struct HttpReply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::string set_cookie;
};

/// A question as JSON, not yet looked at. The reply is all of its answer (cli/json_question.h), or what it prints.
struct HttpQuestion {
  std::string json;
  bool asks_output = false;
};

/// The reply that an answer's output is: 200 whether it is yes or no, 400 for wrong input.
HttpReply output_reply(const std::string& answer);

/// Says who may ask.
struct Callers {
  std::vector<std::string> hosts;  // values of the Host header: "127.0.0.1:8000", "localhost:8000"
  std::string token;               // that has to be in the address or in the cookie; empty: none is needed
};

inline constexpr std::size_t kMostQuestionBytes = 16 << 20;

/// Another Host than ours is a name that was bound to our address (DNS rebinding), another Origin a page of somebody
/// else: both get 403. Anything that is neither the page nor an answer gets 404.
std::variant<HttpReply, HttpQuestion> reply_to(const HttpRequest& request, const Callers& callers);

}  // namespace gpuplan
