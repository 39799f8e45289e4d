#include "base/https.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include <dlfcn.h>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/names.h"
#include "base/narrow.h"
#include "base/surroundings.h"

namespace gpuplan {
namespace {

// libcurl's C interface as far as we ask it. Source: curl/curl.h; numbers and types are its ABI (soname 4 since 2006).
// Linking it would make the portable program need it to start; linked statically, it would carry OpenSSL and a fixed
// path of certificates. So it is opened as the NVIDIA libraries are.
using CurlHandle = void;  // CURL
struct curl_slist;
constexpr int kWriteFunction = 20011, kWriteData = 10001, kUrl = 10002, kErrorBuffer = 10010, kUserAgent = 10018,
              kLowSpeedLimit = 19, kLowSpeedTime = 20, kHttpHeader = 10023, kHeaderData = 10029, kFollowLocation = 52,
              kCaInfo = 10065, kHeaderFunction = 20079, kNoSignal = 99, kTimeoutMs = 155, kConnectTimeoutMs = 156,
              kProtocols = 181;                                                           // CURLoption
constexpr int kInfoStatus = 0x200000 + 2, kInfoRedirect = 0x100000 + 31;                  // CURLINFO
constexpr int kCannotResolve = 6, kCannotConnect = 7, kPartialFile = 18, kTimedOut = 28;  // CURLcode
constexpr long kHttpAndHttps = 1 | 2;                                                     // CURLPROTO_*
constexpr long kGlobalDefault = 3;                                                        // CURL_GLOBAL_DEFAULT
constexpr std::size_t kErrorBytes = 256;                                                  // CURL_ERROR_SIZE

constexpr int kMostRedirects = 5;
constexpr std::size_t kMostHeaderBytes = 256 << 10;
constexpr long kSlowestBytesPerSecond = 1000;

class Curl {
 public:
  static const Curl& get() {
    static const Curl curl;
    return curl;
  }
  CurlHandle* (*easy_init)();
  void (*easy_cleanup)(CurlHandle*);
  int (*easy_setopt)(CurlHandle*, int, ...);
  int (*easy_perform)(CurlHandle*);
  int (*easy_getinfo)(CurlHandle*, int, ...);
  const char* (*easy_strerror)(int);
  curl_slist* (*slist_append)(curl_slist*, const char*);
  void (*slist_free_all)(curl_slist*);

 private:
  Curl() : library_(open()) {
    int (*global_init)(long) = nullptr;
    find("curl_global_init", global_init);
    find("curl_easy_init", easy_init);
    find("curl_easy_cleanup", easy_cleanup);
    find("curl_easy_setopt", easy_setopt);
    find("curl_easy_perform", easy_perform);
    find("curl_easy_getinfo", easy_getinfo);
    find("curl_easy_strerror", easy_strerror);
    find("curl_slist_append", slist_append);
    find("curl_slist_free_all", slist_free_all);
    if (global_init(kGlobalDefault) != 0) throw EnvError("libcurl does not start");
  }

  static void* open() {
    std::vector<std::string> files{"libcurl.so.4", "libcurl-gnutls.so.4"};
    if (const std::string set = text_of_variable("GPUPLAN_LIBCURL"); !set.empty()) files = {set};
    for (const std::string& file : files)
      if (void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    throw EnvError(fmt::format("{} was not found: install libcurl (Debian, Ubuntu: libcurl4)", files.front()));
  }

  template <class Function>
  void find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
    if (!function) throw EnvError(fmt::format("the libcurl of this machine has no {}", name));
  }

  void* library_;  // stays open: its threads and exit handlers outlive any of us
};

/// State that the callbacks of one request fill.
struct Receiver {
  HttpResponse response;
  std::size_t most_bytes{}, header_bytes{};
  bool is_too_large{};
};

std::size_t take_body(char* data, std::size_t size, std::size_t count, void* user) {
  auto& receiver = *static_cast<Receiver*>(user);
  const std::size_t bytes = size * count;
  receiver.is_too_large = bytes > receiver.most_bytes - receiver.response.body.size();
  if (receiver.is_too_large) return 0;  // anything but `bytes` ends the transfer
  receiver.response.body.append(data, bytes);
  return bytes;
}

std::size_t take_header(char* data, std::size_t size, std::size_t count, void* user) {
  auto& receiver = *static_cast<Receiver*>(user);
  const std::size_t bytes = size * count;
  receiver.header_bytes += bytes;
  receiver.is_too_large = receiver.header_bytes > kMostHeaderBytes;
  if (receiver.is_too_large) return 0;
  const std::string_view line(data, bytes);
  const std::size_t colon = line.find(':');
  if (line.starts_with("HTTP/")) receiver.response.error_code.clear();  // of a proxy or an interim answer before
  if (colon != std::string_view::npos && to_lower(line.substr(0, colon)) == "x-error-code")
    receiver.response.error_code = std::string(trim(line.substr(colon + 1)));
  return bytes;
}

bool is_loopback(const std::string& origin) {
  for (const std::string_view start : {"http://127.0.0.1:", "http://localhost:", "http://[::1]:"})
    if (origin.starts_with(start)) return true;
  return false;
}

/// Certificates that people who sit behind a proxy name for curl, Python or OpenSSL.
std::string named_certificates() {
  for (const char* const name : {"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"})
    if (std::string file = text_of_variable(name); !file.empty()) return file;
  return {};
}

[[noreturn]] void refuse_failed(int code, const char* words, const Receiver& receiver, const std::string& url,
                                const HttpLimits& limits) {
  const std::string text = *words ? words : Curl::get().easy_strerror(code);
  if (receiver.is_too_large)
    throw EnvError(fmt::format("{}: stopped, as it is larger than {} MiB", url, limits.most_bytes >> 20));
  if (code == kPartialFile) throw EnvError(fmt::format("{}: the connection ended before the whole file was here", url));
  if (code == kTimedOut) throw EnvError(fmt::format("{}: too slow, given up ({})", url, text));
  if (code == kCannotResolve || code == kCannotConnect)
    throw EnvError(fmt::format("{}: no connection ({})", url, text));
  throw EnvError(fmt::format("{}: {}", url, text));
}

struct Hop {
  HttpResponse response;
  std::string redirect;  // absolute URL, or empty
};

struct CleanHandle {
  void operator()(CurlHandle* handle) const { Curl::get().easy_cleanup(handle); }
};
struct CleanList {
  void operator()(curl_slist* list) const { Curl::get().slist_free_all(list); }
};

/// One request, redirects not followed. `token` may be sent to `url`.
Hop get_once(const std::string& url, const std::string& token, const HttpLimits& limits, double seconds_left) {
  const Curl& curl = Curl::get();
  const std::unique_ptr<CurlHandle, CleanHandle> handle(curl.easy_init());
  if (!handle) throw EnvError("libcurl does not start");
  std::unique_ptr<curl_slist, CleanList> headers;
  if (!token.empty()) headers.reset(curl.slist_append(nullptr, ("Authorization: Bearer " + token).c_str()));
  Receiver receiver{.response = {}, .most_bytes = limits.most_bytes};
  std::array<char, kErrorBytes> words{};
  const auto set = [&](int option, auto value) { curl.easy_setopt(handle.get(), option, value); };
  set(kUrl, url.c_str());
  set(kProtocols, kHttpAndHttps);
  set(kFollowLocation, 0L);  // http_get follows: it knows where the token may go
  set(kUserAgent, "gpuplan/" GPUPLAN_VERSION);
  set(kNoSignal, 1L);
  set(kErrorBuffer, words.data());
  set(kConnectTimeoutMs, long(1000 * limits.connect_seconds));
  set(kTimeoutMs, long(1000 * seconds_left) + 1);
  set(kLowSpeedLimit, kSlowestBytesPerSecond);
  set(kLowSpeedTime, long(limits.stall_seconds));
  set(kWriteFunction, &take_body);
  set(kWriteData, static_cast<void*>(&receiver));
  set(kHeaderFunction, &take_header);
  set(kHeaderData, static_cast<void*>(&receiver));
  if (headers) set(kHttpHeader, headers.get());
  if (const std::string file = named_certificates(); !file.empty()) set(kCaInfo, file.c_str());
  if (const int code = curl.easy_perform(handle.get()); code != 0)
    refuse_failed(code, words.data(), receiver, url, limits);
  long status = 0;
  const char* redirect = nullptr;
  curl.easy_getinfo(handle.get(), kInfoStatus, &status);
  curl.easy_getinfo(handle.get(), kInfoRedirect, &redirect);
  receiver.response.status = narrow<int>(status);
  receiver.response.url = url;
  return {std::move(receiver.response), redirect ? redirect : ""};
}

}  // namespace

std::string origin_of(const std::string& url) {
  const std::size_t colon = url.find("://");
  if (colon == std::string::npos) return {};
  const std::string scheme = to_lower(url.substr(0, colon));
  if (scheme != "http" && scheme != "https") return {};
  const std::size_t begin = colon + 3, end = std::min(url.find_first_of("/?#", begin), url.size());
  const std::string authority = to_lower(std::string_view(url).substr(begin, end - begin));
  if (authority.empty() || authority.find('@') != std::string::npos) return {};
  const bool has_port =
      authority.find(':', authority.find(']') == std::string::npos ? 0 : authority.find(']')) != std::string::npos;
  return fmt::format("{}://{}{}", scheme, authority, has_port ? "" : scheme == "https" ? ":443" : ":80");
}

HttpResponse http_get(const std::string& url, const std::string& token, const HttpLimits& limits) {
  const std::string first = origin_of(url);
  if (first.empty()) throw EnvError(fmt::format("'{}' is no http:// or https:// address", url));
  if (given_surroundings()) throw EnvError(fmt::format("{}: no network is given", url));
  const bool may_send = first.starts_with("https://") || is_loopback(first);
  const auto start = std::chrono::steady_clock::now();
  std::string here = url;
  for (int i = 0; i <= kMostRedirects; ++i) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    const bool is_first_host = origin_of(here) == first;
    Hop hop = get_once(here, may_send && is_first_host ? token : "", limits,
                       std::max(0.0, limits.total_seconds - passed.count()));
    if (hop.redirect.empty()) return std::move(hop.response);
    const std::string next = origin_of(hop.redirect);
    if (next.empty() || (origin_of(here).starts_with("https://") && !next.starts_with("https://")))
      throw EnvError(fmt::format("{}: redirects to an address that is not followed", here));
    here = hop.redirect;
  }
  throw EnvError(fmt::format("{}: redirects more than {} times", url, kMostRedirects));
}

}  // namespace gpuplan
