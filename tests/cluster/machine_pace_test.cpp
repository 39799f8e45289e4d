// How a machine works now: the text of --pace, and what people read.
#include "cluster/profile/machine_pace.h"

#include <cmath>

#include <doctest/doctest.h>

#include "base/error.h"

using namespace gpuplan;

TEST_CASE("factors by name; what is not named is as calibrated") {
  const MachinePace pace = parse_pace("products=1.1, memory=0.5", "--pace");
  CHECK(pace.products == 1.1);
  CHECK(pace.memory == 0.5);
  CHECK(pace.attention == 1);
  CHECK_FALSE(pace.is_as_calibrated());
  CHECK(parse_pace("calibrated", "--pace").is_as_calibrated());
}

TEST_CASE("the text gives the same pace back") {
  MachinePace pace;
  CHECK(to_string(pace) == "calibrated");
  for (std::size_t i = 0; i < kPaceFields.size(); ++i) pace.*kPaceFields[i].member = 1.25 + 0.125 * double(i);
  const MachinePace again = parse_pace(to_string(pace), "GPUPLAN_PACE");
  for (const PaceField& field : kPaceFields) CHECK(again.*field.member == pace.*field.member);
}

TEST_CASE("between two readings each kind of work has the geometric mean") {
  const MachinePace mean =
      mean_of(parse_pace("products=2,memory=0.5", "--pace"), parse_pace("products=0.5,messages=4", "--pace"));
  CHECK(mean.products == doctest::Approx(1));
  CHECK(mean.memory == doctest::Approx(std::sqrt(0.5)));
  CHECK(mean.messages == doctest::Approx(2));
  CHECK(mean.attention == 1);
}

TEST_CASE("a machine changed by the largest factor of what computes, up or down") {
  const MachinePace a = parse_pace("products=1.2,attention=0.8,memory=3", "--pace"),
                    b = parse_pace("products=1.1,attention=1,messages=2", "--pace");
  CHECK(change_between(a, b) == doctest::Approx(0.25));
  CHECK(change_between(b, a) == doctest::Approx(0.25));
  CHECK(change_between(a, a) == 0);
}

TEST_CASE("people read what is off by 2 % or more") {
  CHECK(describe(parse_pace("products=1.1,memory=0.5,attention=1.01,messages=3", "--pace")) ==
        "matrix products 10 % slower, memory 2.0 times as fast, messages 3.0 times as slow");
  CHECK(describe({}).empty());
}

TEST_CASE("what is no pace says what would be") {
  CHECK_THROWS_WITH_AS(parse_pace("product=1.1", "--pace"), doctest::Contains("did you mean one of 'products'"),
                       InputError);
  CHECK_THROWS_WITH_AS(parse_pace("memory", "--pace"), doctest::Contains("is not KIND=FACTOR"), InputError);
  CHECK_THROWS_WITH_AS(parse_pace("", "--pace"), doctest::Contains("is not KIND=FACTOR"), InputError);
  for (const char* wrong : {"memory=0", "memory=-1", "memory=1000", "memory=nan", "memory=fast"})
    CHECK_THROWS_AS(parse_pace(wrong, "--pace"), InputError);
}
