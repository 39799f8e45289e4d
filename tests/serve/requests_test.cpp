#include "serve/requests.h"

#include <doctest/doctest.h>

#include "report/html/page_files.h"

using namespace gpuplan;

namespace {

const Callers kCallers{.hosts = {"127.0.0.1:8000", "localhost:8000"}, .token = ""};

HttpRequest request(const std::string& method, const std::string& target) {
  HttpRequest made;
  made.method = method;
  made.target = target;
  made.host = "127.0.0.1:8000";
  return made;
}

int status_of(const HttpRequest& asked, const Callers& callers = kCallers) {
  const auto decided = reply_to(asked, callers);
  const auto* const reply = std::get_if<HttpReply>(&decided);
  return reply ? reply->status : 0;  // 0: a question
}

}  // namespace

TEST_CASE("the page says that the native program answers") {
  const auto reply = std::get<HttpReply>(reply_to(request("GET", "/"), kCallers));
  CHECK(reply.status == 200);
  CHECK(reply.type == "text/html; charset=utf-8");
  CHECK(reply.body.find(R"(name="gpuplan-engine" content="native")") != std::string::npos);
  for (const PageFile& file : page_files()) CHECK(status_of(request("GET", "/" + std::string(file.name))) == 200);
}

TEST_CASE("no path leads out of the page") {
  for (const char* target : {"/../etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/etc/passwd", "/%2e%2e/x.js",
                             "/./main.js", "/main.js/", "/main.js%00", "/page/main.js", "http://elsewhere/main.js", "",
                             "*", "/\\..\\main.js", "/data.bin", "/proc/self/environ"})
    CHECK_MESSAGE(status_of(request("GET", target)) == 404, target);
}

TEST_CASE("a name that was bound to this address is not answered") {
  for (const char* host : {"attacker.example:8000", "127.0.0.1", "127.0.0.1:80", "localhost.attacker.example:8000", "",
                           "127.0.0.1:8000, attacker.example", "[::1]:8000"}) {
    HttpRequest asked = request("GET", "/");
    asked.host = host;
    CHECK_MESSAGE(status_of(asked) == 403, host);
  }
}

TEST_CASE("pages of others ask nothing") {
  HttpRequest asked = request("POST", "/api/answer");
  asked.content_type = "application/json";
  CHECK(status_of(asked) == 0);
  for (const char* origin : {"http://attacker.example", "null", "https://127.0.0.1:8000", "http://127.0.0.1:8001"}) {
    asked.origin = origin;
    CHECK_MESSAGE(status_of(asked) == 403, origin);
  }
  asked.origin = "http://127.0.0.1:8000";
  CHECK(status_of(asked) == 0);
  asked.content_type = "text/plain";  // what a form may send
  CHECK(status_of(asked) == 415);
  HttpRequest image = request("GET", "/api/answer?argument=gpus");
  CHECK(status_of(image) == 0);
  image.fetch_site = "cross-site";
  CHECK(status_of(image) == 403);
}

TEST_CASE("arguments in the address are decoded, and refused where they are not written so") {
  const auto decided = reply_to(request("GET", "/api/answer?argument=gpus&argument=A%20%22b%22+c"), kCallers);
  CHECK(std::get<HttpQuestion>(decided).json == R"({"arguments":["gpus","A \"b\" c"]})");
  for (const char* query : {"", "argument=%", "argument=%4", "argument=%zz", "other=1"})
    CHECK_MESSAGE(status_of(request("GET", std::string("/api/answer?") + query)) == 400, query);
  CHECK(status_of(request("DELETE", "/api/answer")) == 405);
  CHECK(status_of(request("POST", "/")) == 404);
}

TEST_CASE("flags of a command stand in the address, or in a body beside files") {
  const auto json_of = [](const HttpRequest& asked) { return std::get<HttpQuestion>(reply_to(asked, kCallers)).json; };
  CHECK(json_of(request("GET", "/api/estimate?model=llama3-8b&lora=r%3D8&gpus=4xA6000&explain&fp8=false")) ==
        R"({"arguments":["estimate","--model=llama3-8b","--lora=r=8","--gpus=4xA6000","--explain","--json"]})");
  HttpRequest body = request("POST", "/api/estimate");
  body.content_type = "application/json";
  body.body = R"({"model": "config.json", "micro-batch": 2, "lora": true, "files": {"config.json": "{}"}})";
  CHECK(
      json_of(body) ==
      R"({"arguments":["estimate","--lora","--micro-batch=2","--model=config.json","--json"],"files":{"config.json":"{}"}})");
  CHECK(json_of(request("GET", "/api/openapi.json")) == R"({"arguments":["completion","openapi"]})");
  for (const char* target :
       {"/api/estimate?--model=x", "/api/estimate?=x", "/api/estimate?a%00=x", "/api/estimate?model=%"})
    CHECK_MESSAGE(status_of(request("GET", target)) == 400, target);
  for (const char* target : {"/api/", "/api/../etc", "/api/Estimate", "/api/estimate/x"})
    CHECK_MESSAGE(status_of(request("GET", target)) == 404, target);
  for (const char* text : {"[]", "{\"model\": null}", "{\"model\": [1]}", "{\"--model\": \"x\"}", "nonsense"}) {
    body.body = text;
    CHECK_MESSAGE(status_of(body) == 400, text);
  }
}

TEST_CASE("a command's output is the reply: 200 for yes and no, 400 for wrong input") {
  const auto status = [](const char* answer) { return output_reply(answer).status; };
  CHECK(status(R"({"code": 0, "out": "{}", "err": "", "written": {}})") == 200);
  CHECK(status(R"({"code": 1, "out": "{}", "err": "", "written": {}})") == 200);
  CHECK(output_reply(R"({"code": 1, "out": "{}", "err": ""})").type == "application/json");
  CHECK(output_reply(R"({"code": 2, "out": "", "err": "what"})").body == "what");
  CHECK(status(R"({"code": 2, "out": "", "err": "what"})") == 400);
  CHECK(status(R"({"code": 3, "out": "", "err": "what"})") == 503);
  CHECK(status(R"({"code": 4, "out": "", "err": "what"})") == 500);
  CHECK(status("nonsense") == 500);
}

TEST_CASE("with a token, only who has it is answered") {
  const Callers callers{.hosts = kCallers.hosts, .token = "5e0c"};
  CHECK(status_of(request("GET", "/"), callers) == 401);
  CHECK(status_of(request("GET", "/?token=5e0d"), callers) == 401);
  CHECK(status_of(request("GET", "/?token=5e0"), callers) == 401);
  CHECK(status_of(request("GET", "/api/answer?argument=gpus"), callers) == 401);
  const auto reply = std::get<HttpReply>(reply_to(request("GET", "/?token=5e0c"), callers));
  CHECK(reply.status == 200);
  CHECK(reply.set_cookie == "gpuplan-token=5e0c; HttpOnly; SameSite=Strict; Path=/");
  HttpRequest later = request("GET", "/main.js");
  later.cookie = "a=b; gpuplan-token=5e0c; c=d";
  CHECK(status_of(later, callers) == 200);
}
