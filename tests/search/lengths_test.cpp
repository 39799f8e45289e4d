#include "search/lengths.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace gpuplan;

TEST_CASE("lengths are read as numbers, as a histogram and as JSON lines, and mean the same") {
  const Lengths numbers = parse_lengths("100\n100\n400\n", "a"), histogram = parse_lengths("100 2\n400,1\n", "b"),
                json = parse_lengths("{\"length\": 100}\n\n{\"length\": 100}\n{\"length\": 400}\n", "c");
  for (const Lengths& l : {numbers, histogram, json}) {
    CHECK(l.num_rows == 3);
    CHECK(l.mean == doctest::Approx(200));
    CHECK(l.longest == 400);
    CHECK(l.quantile(0.5) == 100);
    CHECK(l.quantile(0.9) == 400);
  }
  CHECK(parse_lengths("{\"input_ids\": [1, 2, 3]}\n", "d").longest == 3);
  CHECK(parse_lengths("\xef\xbb\xbf"
                      "12 100\n",
                      "with a byte order mark")
            .longest == 12);
}

TEST_CASE("a micro batch is padded to the mean of its longest row") {
  // two of three rows have 100 tokens: both of a pair have with (2/3)^2 = 4/9, so 100 * 4/9 + 400 * 5/9 = 266.67
  const Lengths l = parse_lengths("100\n100\n400\n", "a");
  CHECK(l.mean_longest_of(1) == doctest::Approx(200));
  CHECK(l.mean_longest_of(2) == doctest::Approx(266.6667));
  CHECK(l.mean_longest_of(1000) == doctest::Approx(400));
}

TEST_CASE("what is no length is refused with its line") {
  for (const char* text :
       {"12\nabc\n", "12\n1 2 3\n", "12\n-5\n", "12\n0\n", "12\n{\"text\": \"x\"}\n", "12\n{broken\n"}) {
    CAPTURE(text);
    try {
      parse_lengths(text, "rows.txt");
      FAIL("was taken");
    } catch (const InputError& error) { CHECK(error.where().find("rows.txt:2") == 0); }
  }
  CHECK_THROWS_AS(parse_lengths("\n", "rows.txt"), InputError);
}
