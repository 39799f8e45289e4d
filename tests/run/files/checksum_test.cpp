#include "run/files/rank_state.h"

#include <vector>

#include <doctest/doctest.h>

using namespace gpuplan;

TEST_CASE("checksum: of pieces it is that of the whole, and every byte counts") {
  std::vector<std::byte> data(1000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = std::byte(i * 7 + 3);
  const std::uint64_t whole = checksum(data);
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{31}, std::size_t{32}, std::size_t{33}, std::size_t{640}}) {
    Checksum sum;
    for (std::size_t at = 0; at < data.size(); at += piece)
      sum.add(std::span(data).subspan(at, std::min(piece, data.size() - at)));
    CHECK(sum.value() == whole);
  }
  for (const std::size_t at : {std::size_t{0}, std::size_t{500}, std::size_t{999}}) {
    auto other = data;
    other[at] ^= std::byte{1};
    CHECK(checksum(other) != whole);
  }
  CHECK(checksum(std::span(data).first(999)) != whole);
}
