// What runs lies where the step program has room for it.
#include "planner/unit_layout.h"

#include <doctest/doctest.h>

#include "run/native_fixture.h"

using namespace gpuplan;
using namespace gpuplan::test;

TEST_CASE("flat parts cover an array once, whatever the count and the ranks") {
  for (std::int64_t ways = 1; ways <= 9; ++ways)
    for (std::int64_t count = 1; count <= 200; ++count) {
      CAPTURE(ways);
      CAPTURE(count);
      const std::int64_t part = flat_part(count, ways), bytes = flat_part_bytes(Bytes{count}, ways);
      CHECK(part * ways >= count);
      CHECK(bytes * ways >= count);
      if (ways == 1) CHECK((part == count && bytes == count));
      if (ways == 1) continue;
      CHECK(bytes_of(part, Dtype::BF16).count % 16 == 0);
      CHECK((part - 8) * ways < count);  // no smaller part would do
      CHECK(bytes % 16 == 0);
      CHECK((bytes - 16) * ways < count);
    }
}

TEST_CASE(
    "unit layout: tensors follow each other without gap or overlap, aligned to their elements, and every weight is in "
    "one place") {
  for (const Method method : kMethods) {
    NativeCase c{.method = method};
    CAPTURE(c.name());
    const NativeJob job(request_of(c), strategy_of(c));
    for (std::uint16_t unit = 0; unit <= job.head_unit(); ++unit) {
      const UnitLayout& layout = job.layout_of(unit);
      std::int64_t element = 0, byte = 0;
      for (const PlacedTensor& t : layout.trained) {
        CHECK(t.begin == element);
        CHECK(t.dtype == layout.trained_dtype);
        element += t.elements();
      }
      CHECK(layout.trained_elements == element);
      for (const PlacedTensor& t : layout.frozen) {
        CHECK(t.begin == byte);
        if (!t.is_quantised) CHECK(t.begin % size_of(t.dtype) == 0);
        byte += t.is_quantised ? (t.elements() + 1) / 2 : t.elements() * size_of(t.dtype);
      }
      CHECK(layout.frozen_bytes == Bytes{byte});
      for (std::uint16_t w = 0; w < job.weights_of(unit).size(); ++w) {
        std::int64_t elements = 0;
        for (const auto* list : {&layout.trained, &layout.frozen})
          for (const PlacedTensor& t : *list)
            if (t.tensor == w && t.use == WeightUse::Tensor) elements += t.elements();
        std::int64_t expected = 1;
        for (const std::int64_t extent : job.weights_of(unit)[w].shape) expected *= extent;
        CHECK(elements == expected);
      }
    }
  }
}

TEST_CASE(
    "unit layout: the scales of NF4 tensors lie behind each other, codes of the second quantisation after all of "
    "them") {
  for (const bool is_double : {true, false}) {
    NativeCase c{.method = Method::Qlora};
    EstimateRequest request = request_of(c);
    request.recipe.quant.double_quant = is_double;
    const NativeJob job(request, strategy_of(c));
    const UnitLayout& layout = job.layout_of(1);
    std::int64_t scales = 0, codes = 0;
    for (const PlacedTensor& t : layout.frozen) {
      if (!t.is_quantised) continue;
      CHECK(t.scales == scales);
      const std::int64_t blocks = (t.elements() + 63) / 64;
      scales += 4 * (is_double ? (blocks + 255) / 256 : blocks);
    }
    for (const PlacedTensor& t : layout.frozen) {
      if (!t.is_quantised || !is_double) continue;
      CHECK(t.scale_codes == scales + codes);
      codes += (t.elements() + 63) / 64;
    }
    CHECK(layout.scales_bytes == Bytes{(scales + codes + 15) / 16 * 16});  // what follows is read by vectors
  }
}

TEST_CASE(
    "a rank's persistent buffers are as large as its part of the layout, and together the ranks hold every trained "
    "element") {
  for (const NativeCase& c : every_case()) {
    CAPTURE(c.name());
    const NativeJob job(request_of(c), strategy_of(c));
    const bool shards = job.rules.layout.shards_weights && job.rules.ways > 1;
    for (const RankClass& k : job.program().classes)
      for (const ProgramBuffer& b : job.program().programs[k.program].buffers) {
        if (!b.is_persistent || b.role != BufferRole::Trained) continue;
        const std::int64_t count = job.layout_of(b.unit).trained_elements,
                           size = size_of(job.layout_of(b.unit).trained_dtype);
        const std::int64_t held = b.bytes.count / size;
        CHECK(b.bytes.count % size == 0);
        if (shards)
          CHECK((held * job.rules.ways >= count && (held - 8) * job.rules.ways < count));
        else
          CHECK(held >= count);  // whole, perhaps padded for a reduce-scatter
        if (!shards) CHECK(held < count + 8 * job.rules.ways);
      }
  }
}
