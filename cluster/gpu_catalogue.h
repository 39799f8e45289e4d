// From what people type to a GPU of the catalogue. To find one, only names are read: one small index, and file names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cluster/gpu_file.h"

namespace gpuplan {

struct GpuChoice {
  std::string id;
  /// "A100 means a100-sxm-80gb", and the user's file where one stands in the place of a shipped one; else empty.
  std::string assumption;
};

/// "rtx-a6000 is read from FILE, not from the catalogue" for a card of the user's in the place of a shipped one; else
/// empty.
std::string read_instead_of_shipped(const std::string& id);

/// The product that `text` means; nothing when it is unknown or may be several.
std::optional<GpuChoice> known_gpu(const std::string& text);
/// Says what is wrong with a text for which known_gpu has nothing: unknown, with how to describe it, or several
/// products, with their memory.
InputError gpu_mistake(const std::string& text);
/// The product, or throws what is wrong.
GpuChoice resolve_gpu(const std::string& text);

/// The ids of the products that `text` may mean: one where it leaves nothing open, none where it is unknown.
std::vector<std::string> possible_gpus(const std::string& text);

/// Compares two names without case, separators and the maker's name.
bool is_same_gpu_name(const std::string& a, const std::string& b);

/// Advice about a name that is not known: a name it may be a slip of, and how to describe the card.
std::string how_to_describe(const std::string& text);

/// Folder of the user's own GPUs: files as in data/gpus. One with an id of the catalogue stands in its place.
std::filesystem::path own_gpu_dir();

/// Names of every GPU, sorted by id: data/gpus/index.yaml, files it does not list yet, and the user's.
std::vector<GpuNames> list_gpu_names();

/// The text of data/gpus/index.yaml for these GPUs.
std::string render_gpu_index(const std::vector<GpuNames>& all);

std::filesystem::path gpu_path(const std::string& id);

std::vector<GpuSpec> list_gpus();  // data/gpus, sorted by id
std::vector<GpuPrice> list_prices(const std::string& gpu_id);
/// One GPU by id, name or alias ("A6000", "rtx a6000", "H100"); `assumption` receives what was assumed, if anything.
GpuSpec find_gpu(const std::string& text, std::string* assumption);

}  // namespace gpuplan
