#include "run/data/examples.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/names.h"
#include "run/data/json_examples.h"
#include "run/data/token_blocks.h"

namespace gpuplan {
namespace {

using Opener = std::unique_ptr<Examples> (*)(const DataOptions&);

std::unique_ptr<Examples> open_json(const DataOptions& options) {
  return options.packing == Packing::Packed ? make_packed(options) : make_padded(options);
}

struct Format {
  std::string_view extension;
  Opener open;
};
constexpr std::array kFormats{
    Format{".bin", [](const DataOptions& options) { return make_token_blocks(open_bin(options), options); }},
    Format{".npy", [](const DataOptions& options) { return make_token_blocks(open_npy(options), options); }},
    Format{".jsonl", open_json}, Format{".ndjson", open_json}, Format{".json", open_json}};

}  // namespace

std::unique_ptr<Examples> open_examples(const DataOptions& options) {
  GPUPLAN_CHECK(options.seq_len > 0 && options.vocab_size > 0, "an example has a length, tokens a vocabulary");
  const std::string extension = to_lower(options.file.extension().string());
  const auto format = std::ranges::find(kFormats, extension, &Format::extension);
  if (format == kFormats.end())
    throw InputError(options.file.string(), "its name does not say what data it holds",
                     extension == ".gz" || extension == ".zst"
                         ? "unpack it first"
                         : "expected .bin or .npy (tokens), or .jsonl (tokens or text)");
  return format->open(options);
}

}  // namespace gpuplan
