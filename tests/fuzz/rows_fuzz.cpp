// What says how long the rows of a data set are: --lengths, and a tokenizer.model.
#include "fuzz/fuzz_input.h"
#include "rows/text_tokenizer.h"
#include "search/lengths.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuplan;
  const std::string_view content = fuzz::text_of(data, size);
  fuzz::try_to([&] {
    const Lengths lengths = parse_lengths(std::string(content), "lengths.txt");
    GPUPLAN_CHECK(lengths.num_rows > 0 && lengths.longest > 0, "lengths that are read have rows");
    GPUPLAN_CHECK(lengths.mean <= double(lengths.longest), "no row is longer than the longest");
    lengths.quantile(0.5), lengths.mean_longest_of(8);
    cut_at(lengths, 7);
  });
  if (size % 8 != 0 && content.find("\n") != std::string_view::npos && content.find('\0') == std::string_view::npos)
    return 0;  // text is no model of a tokenizer, and is refused at once
  const auto model = fuzz::as_file("tokenizer.model", content);
  fuzz::try_to([&] { open_tokenizer(model.parent_path())->encode("a few words\n"); });
  return 0;
}
