// A libcurl without a network: $GPUPLAN_FAKE_CURL is a file of lines "<address> <where it redirects to>"; other
// addresses answer with status 200. Each request appends "<address> <its headers>" to $GPUPLAN_FAKE_CURL_LOG.
#include <cstdarg>
#include <cstdlib>
#include <fstream>
#include <string>

namespace {

// Source: curl/curl.h; base/https.cpp has the same numbers.
constexpr int kUrl = 10002, kHttpHeader = 10023, kInfoStatus = 0x200000 + 2, kInfoRedirect = 0x100000 + 31;

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text ? text : "";
}

struct Handle {
  std::string url, headers, redirect;
};

struct List {
  std::string text;
};

}  // namespace

extern "C" {

int curl_global_init(long /*flags*/) { return 0; }
Handle* curl_easy_init() { return new Handle; }
void curl_easy_cleanup(Handle* handle) { delete handle; }

int curl_easy_setopt(Handle* handle, int option, ...) {
  std::va_list given;
  va_start(given, option);
  if (option == kUrl) handle->url = va_arg(given, const char*);
  if (option == kHttpHeader) handle->headers = va_arg(given, const List*)->text;
  va_end(given);
  return 0;
}

int curl_easy_perform(Handle* handle) {
  std::ofstream(variable("GPUPLAN_FAKE_CURL_LOG"), std::ios::app) << handle->url << " " << handle->headers << "\n";
  std::ifstream redirects(variable("GPUPLAN_FAKE_CURL"));
  for (std::string from, to; redirects >> from >> to;)
    if (from == handle->url) handle->redirect = to;
  return 0;
}

int curl_easy_getinfo(Handle* handle, int info, ...) {
  std::va_list asked;
  va_start(asked, info);
  if (info == kInfoStatus) *va_arg(asked, long*) = handle->redirect.empty() ? 200 : 302;
  if (info == kInfoRedirect)
    *va_arg(asked, const char**) = handle->redirect.empty() ? nullptr : handle->redirect.c_str();
  va_end(asked);
  return 0;
}

const char* curl_easy_strerror(int /*code*/) { return "none"; }

List* curl_slist_append(List* list, const char* text) {
  if (!list) list = new List;
  list->text += text;
  return list;
}
void curl_slist_free_all(List* list) { delete list; }

}  // extern "C"
