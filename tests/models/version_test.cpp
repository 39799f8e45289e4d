// Versions as package managers write them, and their ranges.
#include "models/version.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/fields.h"

using namespace gpuplan;

namespace {

Version v(const char* text) { return to_version(text, "test"); }

VersionRange range(const char* text) {
  const nlohmann::json object{{"range", text}};
  Fields fields(object, "test");
  VersionRange out;
  fields("range", out);
  fields.finish();
  return out;
}

}  // namespace

TEST_CASE("versions are compared number by number; what follows the numbers does not count") {
  CHECK(v("1.9") < v("1.10"));
  CHECK(v("2.6") == v("2.6.0"));
  CHECK(v("2.6.0+cu124") == v("2.6"));
  CHECK(v("5.0.0rc1") == v("5.0.0"));
  CHECK(v("0.9.1.post1") == v("0.9.1"));
  CHECK(v("2025.10.1") > v("2025.9.11"));
  CHECK(v("4.57.6").is_a(v("4.57")));
  CHECK_FALSE(v("4.57").is_a(v("4.57.6")));
  CHECK_FALSE(v("4.5.7").is_a(v("4.57")));
  for (const char* text : {"", "new", "v1.0", "1.0;id", "$(id)", "1 0"}) CHECK_FALSE(as_version(text));
}

TEST_CASE("a range is every bound that it states, or one version") {
  const VersionRange llama_factory = range(">=4.41.2,<=4.49.0,!=4.46.*,!=4.48.0");
  for (const char* inside : {"4.41.2", "4.45.2", "4.48.1", "4.49.0"}) CHECK(llama_factory.holds(v(inside)));
  for (const char* outside : {"4.41.1", "4.46.0", "4.46.3", "4.48.0", "4.49.1"})
    CHECK_FALSE(llama_factory.holds(v(outside)));
  CHECK(range("5.14.1").holds(v("5.14.1")));
  CHECK_FALSE(range("5.14.1").holds(v("5.14.0")));
  CHECK(range(">=5.0,<5.6").holds(v("5.5.4")));
  CHECK_FALSE(range(">=5.0,<5.6").holds(v("5.6.0")));
  for (const char* wrong : {"", ">=", "~=4.1", "4.1,"}) CHECK_THROWS_AS(range(wrong), InputError);
}
