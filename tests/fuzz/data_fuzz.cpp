// Files that a training run reads or goes on writing: examples in every format, an adapter's config, metrics.
#include <vector>

#include "fuzz/fuzz_input.h"
#include "run/data/examples.h"
#include "run/files/adapter_files.h"
#include "run/metrics.h"

namespace {

void read_ends(const gpuplan::DataOptions& options) {
  const auto examples = gpuplan::open_examples(options);
  std::vector<std::int32_t> ids(std::size_t(options.seq_len)), labels(ids);
  examples->read(0, ids, labels);
  examples->read(examples->size() - 1, ids, labels);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuplan;
  const std::string_view content = fuzz::text_of(data, size);
  for (const char* name : {"d.bin", "d.npy", "d.jsonl"})
    for (const Packing packing : {Packing::Packed, Packing::Padded}) {
      const DataOptions options{
          .file = fuzz::as_file(name, content), .vocab_size = 300, .seq_len = 4, .packing = packing};
      fuzz::try_to([&] { read_ends(options); });
    }
  const auto config = fuzz::as_file("adapter_config.json", content);
  fuzz::try_to([&] { read_adapter_config(config.parent_path()); });
  fuzz::try_to([&] { MetricsFile metrics(fuzz::as_file("metrics.jsonl", content), 2); });
  return 0;
}
