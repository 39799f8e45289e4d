#include "run/files/tensor_files.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "models/checkpoint.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

Checkpoint checkpoint_at(const fs::path& place) {
  if (!is_folder(place)) {
    Checkpoint one{.tensors = read_safetensors_header(place)};
    one.files.assign(one.tensors.size(), place);
    return one;
  }
  auto found = read_checkpoint(place);
  if (!found)
    throw InputError(place.string(), "there are no weights here: no model.safetensors and no index of shards",
                     "download the model, or start from random weights with --init random");
  if (!found->has_shapes)
    throw InputError(place.string(), "the shards of model.safetensors.index.json are not there", "download them");
  return *std::move(found);
}

}  // namespace

struct TensorFiles::State {
  std::string place;
  std::map<fs::path, FileMapping> mappings;
  std::map<std::string, MappedTensor> tensors;

  void add(const SafetensorsTensor& tensor, const fs::path& file) {
    FileMapping& mapping = mappings[file];
    if (mapping.bytes().empty()) mapping = FileMapping(file);
    if (std::ssize(mapping.bytes()) < tensor.end) throw InputError(file.string(), "changed while it was opened");
    tensors[tensor.name] = {
        .dtype = parse_dtype(tensor.dtype, fmt::format("{}: tensor '{}'", file.string(), tensor.name)),
        .shape = tensor.shape,
        .data = mapping.bytes().subspan(std::size_t(tensor.begin), std::size_t(tensor.end - tensor.begin)),
        .name = tensor.name,
        .file = file.string(),
        .mapping = mapping};
  }
};

TensorFiles::TensorFiles(const fs::path& folder_or_file) : state_(std::make_unique<State>()) {
  state_->place = folder_or_file.string();
  const Checkpoint checkpoint = checkpoint_at(folder_or_file);
  for (std::size_t i = 0; i < checkpoint.tensors.size(); ++i) state_->add(checkpoint.tensors[i], checkpoint.files[i]);
}

TensorFiles::~TensorFiles() = default;

const MappedTensor* TensorFiles::find(const std::string& name) const {
  const auto found = state_->tensors.find(name);
  return found == state_->tensors.end() ? nullptr : &found->second;
}

const MappedTensor& TensorFiles::get(const std::string& name, const std::vector<std::int64_t>& shape) const {
  const MappedTensor* tensor = find(name);
  const std::string wanted = fmt::format("[{}]", fmt::join(shape, ", "));
  if (!tensor)
    throw InputError(state_->place, fmt::format("has no tensor '{}' {}", name, wanted),
                     "are weights and config.json of the same model?");
  if (tensor->shape != shape)
    throw InputError(tensor->file,
                     fmt::format("tensor '{}' is [{}], expected {}", name, fmt::join(tensor->shape, ", "), wanted),
                     "are weights and config.json of the same model?");
  return *tensor;
}

const std::map<std::string, MappedTensor>& TensorFiles::all() const { return state_->tensors; }

}  // namespace gpuplan
