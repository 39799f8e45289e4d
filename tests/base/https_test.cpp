// Requests go to the right place with the right token, with a libcurl that has no network (tests/fakes/curl.cpp); what
// a real one does stands in tests/models/hub_test.cpp.
#include "base/https.h"

#include <string>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files.h"
#include "environment_variable.h"
#include "scratch_folder.h"

using namespace gpuplan;

namespace {

/// Redirects of a net of their own, and the requests that were made there.
class FakeNet {
 public:
  explicit FakeNet(const std::string& redirects) : file_(scratch_.write("redirects", redirects)) {}
  std::string requests() const { return read_file(log_); }

 private:
  test::ScratchFolder scratch_;
  std::filesystem::path file_, log_ = scratch_.write("log", "");
  test::Variable curl_{"GPUPLAN_LIBCURL", GPUPLAN_FAKE_CURL}, net_{"GPUPLAN_FAKE_CURL", file_.c_str()},
      requests_{"GPUPLAN_FAKE_CURL_LOG", log_.c_str()};
};

}  // namespace

TEST_CASE("https: a token goes over HTTPS to the host it is for, and over HTTP to this machine alone") {
  const std::string token = " Authorization: Bearer hf_secret\n";
  for (const char* url : {"https://huggingface.co/a", "https://mirror.example:8443/a", "http://127.0.0.1:80/a",
                          "http://localhost:8080/a", "http://[::1]:8080/a"}) {
    const FakeNet net("");
    CHECK(http_get(url, "hf_secret", {}).status == 200);
    CHECK(net.requests() == url + token);
  }
  for (const char* url : {"http://mirror.example/a", "http://mirror.example:443/a", "http://127.0.0.1.example/a",
                          "http://localhost.example:80/a", "http://10.0.0.1/a"}) {
    const FakeNet net("");
    CHECK(http_get(url, "hf_secret", {}).status == 200);
    CHECK(net.requests() == std::string(url) + " \n");
  }
}

TEST_CASE("https: a redirect away from HTTPS is not followed, and one to another host or port goes without the token") {
  for (const char* there : {"http://huggingface.co/b", "http://huggingface.co:443/b", "http://127.0.0.1:80/b",
                            "ftp://huggingface.co/b", "file:///etc/passwd"}) {
    CAPTURE(std::string(there));
    const FakeNet net(std::string("https://huggingface.co/a ") + there + "\n");
    CHECK_THROWS_WITH_AS(http_get("https://huggingface.co/a", "hf_secret", {}),
                         doctest::Contains("redirects to an address that is not followed"), EnvError);
    CHECK(net.requests() == "https://huggingface.co/a Authorization: Bearer hf_secret\n");
  }
  const FakeNet net(
      "https://huggingface.co/a https://huggingface.co/b\nhttps://huggingface.co/b https://huggingface.co:444/c\n"
      "https://huggingface.co:444/c https://cdn.example/d\nhttps://cdn.example/d https://huggingface.co.example/e\n");
  CHECK(http_get("https://huggingface.co/a", "hf_secret", {}).status == 200);
  CHECK(net.requests() ==
        "https://huggingface.co/a Authorization: Bearer hf_secret\n"
        "https://huggingface.co/b Authorization: Bearer hf_secret\n"
        "https://huggingface.co:444/c \nhttps://cdn.example/d \nhttps://huggingface.co.example/e \n");
}
