// One file over HTTP or HTTPS, by libcurl. The library is opened when the first file is asked for and never linked: the
// program starts and plans on machines without it, and a packaged program uses the system's own TLS and certificates.
#pragma once

#include <cstddef>
#include <string>

namespace gpuplan {

/// Limits at which a transfer is given up.
struct HttpLimits {
  std::size_t most_bytes = 64 << 20;  // of the body
  double connect_seconds = 10;
  double stall_seconds = 10;   // whole seconds below 1000 bytes per second
  double total_seconds = 300;  // of all redirects together
};

struct HttpResponse {
  int status{};            // of the last answer: 200, 404, …
  std::string body;        // of the last answer
  std::string error_code;  // its X-Error-Code header, by which the Hub says what a status means
  std::string url;         // where it came from, after redirects
};

/// Gets `url`. Up to five redirects are followed, never from https to http. `token` (empty: none) is sent as a bearer
/// token to the scheme, host and port of `url` alone, and without TLS only to this machine. Any status is an answer.
/// Throws EnvError, in which no token ever stands: no libcurl, no connection, a time limit, a body that is cut off or
/// larger than `limits` allow.
HttpResponse http_get(const std::string& url, const std::string& token, const HttpLimits& limits);

/// "https://host:port" of a URL in lower case, its usual port written out; empty when `url` is not http(s)://host… or
/// names a user.
std::string origin_of(const std::string& url);

}  // namespace gpuplan
