// Files of other programs as `gpuplan estimate --from` reads them: settings of trainers and launchers, plans, and logs
// with PyTorch's messages of memory that ran out.
#include "ecosystem/config_reader.h"
#include "ecosystem/versions.h"
#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuplan;
  const std::string text(fuzz::text_of(data, size));
  if (const auto message = find_out_of_memory(text)) describe(*message);
  fuzz::try_to([&] { parse_versions(text); });
  const FindConfig find_itself = [&](const std::string& named, const std::string&) {
    return std::optional(ConfigFile{named, text});
  };
  for (const char* name :
       {"config.json", "config.yaml", "adapter_config.json", "log.txt", "train.sh", "train.py", "train.ipynb"})
    fuzz::try_to([&] { read_configs({{name, text}}, find_itself); });
  return 0;
}
