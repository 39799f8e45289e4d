#include "models/safetensors.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::int64_t kLengthBytes = 8;               // the header's length, a little-endian u64
constexpr std::uint64_t kLongestHeader = 100'000'000;  // bytes; the reference reader's limit
constexpr std::string_view kLfsPointer = "version https://git-lfs";

struct DtypeBits {
  std::string_view name;
  std::int64_t bits;
};
constexpr std::array kDtypeBits{
    DtypeBits{"BOOL", 8},    DtypeBits{"U8", 8},      DtypeBits{"I8", 8},      DtypeBits{"F8_E5M2", 8},
    DtypeBits{"F8_E4M3", 8}, DtypeBits{"F8_E8M0", 8}, DtypeBits{"I16", 16},    DtypeBits{"U16", 16},
    DtypeBits{"F16", 16},    DtypeBits{"BF16", 16},   DtypeBits{"I32", 32},    DtypeBits{"U32", 32},
    DtypeBits{"F32", 32},    DtypeBits{"F64", 64},    DtypeBits{"I64", 64},    DtypeBits{"U64", 64},
    DtypeBits{"C64", 64},    DtypeBits{"F4", 4},      DtypeBits{"F6_E2M3", 6}, DtypeBits{"F6_E3M2", 6}};

[[noreturn]] void fail_at(const std::filesystem::path& file, std::int64_t byte, std::string problem,
                          std::string hint = {}) {
  throw InputError(fmt::format("{}: byte {}", file.string(), byte), std::move(problem), std::move(hint));
}

/// Length of the JSON header, checked against the file.
std::int64_t read_length(const InputFile& in, const std::filesystem::path& file) {
  const std::int64_t file_bytes = in.size();
  const std::string start = in.read(0, kLfsPointer.size());
  if (start == kLfsPointer)
    fail_at(file, 0, "is a Git LFS pointer, not the checkpoint", "run 'git lfs pull' in the model folder");
  if (std::ssize(start) < kLengthBytes)
    fail_at(file, std::ssize(start), "the file ends inside the 8 bytes of the header length");
  std::uint64_t length = 0;
  for (int i = 0; i < kLengthBytes; ++i) length |= std::uint64_t(static_cast<unsigned char>(start[i])) << (8 * i);
  if (length < 2 || length > kLongestHeader)
    fail_at(file, 0, fmt::format("a header of {} bytes cannot be: is this a safetensors file?", length));
  if (std::int64_t(length) > file_bytes - kLengthBytes)
    fail_at(file, file_bytes, fmt::format("the file ends inside its header of {} bytes", length), "download it again");
  return std::int64_t(length);
}

json read_header(const InputFile& in, const std::filesystem::path& file, std::int64_t length) {
  const std::string text = in.read(kLengthBytes, length);
  if (std::ssize(text) != length) fail_at(file, kLengthBytes + std::ssize(text), "reading stopped half-way");
  if (text.front() != '{') fail_at(file, kLengthBytes, "the header must start with '{': is this a safetensors file?");
  return parse_json(text, fmt::format("{}: header from byte {}", file.string(), kLengthBytes), DuplicateKeys::Refuse);
}

/// A list of numbers of at least 0; nothing when it is something else.
std::optional<std::vector<std::int64_t>> natural_numbers(const json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const json& number : *found) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() > std::uint64_t(INT64_MAX)) return std::nullopt;
    numbers.push_back(number.get<std::int64_t>());
  }
  return numbers;
}

/// Product of `shape`; nothing when it does not fit. A zero makes it zero, whatever the rest.
std::optional<std::int64_t> element_count(const std::vector<std::int64_t>& shape) {
  if (std::ranges::count(shape, 0) > 0) return 0;
  std::int64_t product = 1;
  for (const std::int64_t extent : shape)
    if (__builtin_mul_overflow(product, extent, &product)) return std::nullopt;
  return product;
}

/// The bytes that dtype and shape need, or why they cannot be told.
std::int64_t needed_bytes(SafetensorsTensor& tensor, const std::filesystem::path& file) {
  const auto row = std::ranges::find(kDtypeBits, tensor.dtype, &DtypeBits::name);
  if (row == kDtypeBits.end())
    fail_at(file, kLengthBytes, fmt::format("tensor '{}' has the unknown dtype '{}'", tensor.name, tensor.dtype));
  const auto elements = element_count(tensor.shape);
  std::int64_t bits = 0;
  if (!elements || __builtin_mul_overflow(*elements, row->bits, &bits))
    fail_at(file, kLengthBytes,
            fmt::format("tensor '{}' is too large: [{}]", tensor.name, fmt::join(tensor.shape, ", ")));
  tensor.elements = *elements;
  return (bits + 7) / 8;
}

SafetensorsTensor read_tensor(const std::string& name, const json& entry, std::int64_t data_start,
                              const std::filesystem::path& file) {
  if (!entry.is_object()) fail_at(file, kLengthBytes, fmt::format("tensor '{}' is not an object", name));
  const auto shape = natural_numbers(entry, "shape"), offsets = natural_numbers(entry, "data_offsets");
  const auto dtype = entry.find("dtype");
  if (!shape || !offsets || offsets->size() != 2 || dtype == entry.end() || !dtype->is_string())
    fail_at(file, kLengthBytes,
            fmt::format("tensor '{}' needs dtype, shape [...] and data_offsets [begin, end]", name));
  SafetensorsTensor tensor{.name = name, .dtype = dtype->get<std::string>(), .shape = *shape};
  const std::int64_t needed = needed_bytes(tensor, file), begin = offsets->at(0), end = offsets->at(1);
  if (end < begin || end - begin != needed)
    fail_at(file, kLengthBytes,
            fmt::format("tensor '{}' has data_offsets [{}, {}], but {} [{}] takes {} bytes", name, begin, end,
                        tensor.dtype, fmt::join(*shape, ", "), needed));
  if (__builtin_add_overflow(begin, data_start, &tensor.begin) || __builtin_add_overflow(end, data_start, &tensor.end))
    fail_at(file, kLengthBytes, fmt::format("tensor '{}' ends beyond any file", name));
  return tensor;
}

/// The data must be covered once: no overlap, no hole, and it ends where the file ends.
void check_cover(std::vector<SafetensorsTensor>& tensors, const std::filesystem::path& file, std::int64_t data_start,
                 std::int64_t file_bytes) {
  std::ranges::sort(tensors, [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::int64_t covered = data_start;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.begin < covered)
      fail_at(file, tensor.begin, fmt::format("tensor '{}' overlaps the one before it", tensor.name));
    if (tensor.begin > covered)
      fail_at(file, covered,
              fmt::format("{} bytes before tensor '{}' belong to no tensor", tensor.begin - covered, tensor.name));
    if (tensor.end > file_bytes)
      fail_at(file, file_bytes,
              fmt::format("the file ends inside tensor '{}', which needs it up to byte {}", tensor.name, tensor.end),
              "the file is cut off: download it again");
    covered = tensor.end;
  }
  if (covered != file_bytes)
    fail_at(file, covered, fmt::format("{} bytes after the last tensor belong to no tensor", file_bytes - covered));
}

}  // namespace

std::vector<SafetensorsTensor> read_safetensors_header(const std::filesystem::path& file) {
  const InputFile in(file);
  const std::int64_t length = read_length(in, file), data_start = kLengthBytes + length;
  std::vector<SafetensorsTensor> tensors;
  const json header = read_header(in, file, length);
  for (const auto& [name, entry] : header.items()) {
    require_plain_name(name, file.string(), "tensors have names that can be shown: is this the model's file?");
    if (name != "__metadata__") tensors.push_back(read_tensor(name, entry, data_start, file));
  }
  check_cover(tensors, file, data_start, in.size());
  return tensors;
}

}  // namespace gpuplan
