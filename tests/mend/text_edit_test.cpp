#include "mend/text_edit.h"

#include <doctest/doctest.h>

using namespace gpuplan;

TEST_CASE("edits replace the bytes that they name and nothing else") {
  // "bat" from byte 4 on becomes "dog"; two insertions at one place keep their order
  CHECK(with_edits("the bat sat", {{4, 7, "dog"}, {0, 0, "> "}, {11, 11, "!"}, {11, 11, "?"}}) == "> the dog sat!?");
  CHECK(with_edits("as it is", {}) == "as it is");
}

TEST_CASE("a unified diff has three lines around a change and the numbers of both texts") {
  const std::string before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n", after = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";
  CHECK(unified_diff(before, after, "a.txt") ==
        "--- a.txt\n+++ a.txt\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
  CHECK(unified_diff(before, before, "a.txt").empty());
}

TEST_CASE("changes farther apart than six lines are hunks of their own") {
  std::string before, after;
  for (int i = 0; i < 20; ++i) {
    before += std::to_string(i) + "\n";
    after += (i == 2 || i == 15 ? "x" : "") + std::to_string(i) + "\n";
  }
  const std::string diff = unified_diff(before, after, "n");
  CHECK(diff.find("@@ -1,6 +1,6 @@") != std::string::npos);    // lines 0 to 5 around line 2
  CHECK(diff.find("@@ -13,7 +13,7 @@") != std::string::npos);  // 12 to 18 around 15
}

TEST_CASE("a diff says where a text has no line end, and that a file is new") {
  CHECK(unified_diff("a", "b\n", "f") == "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n");
  CHECK(unified_diff("", "a\nb\n", "new") == "--- /dev/null\n+++ new\n@@ -0,0 +1,2 @@\n+a\n+b\n");
}
