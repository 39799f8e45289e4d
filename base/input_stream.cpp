#include "base/input_stream.h"

#include <string>
#include <utility>

#include "base/files.h"
#include "base/inflate.h"

namespace gpuplan {
namespace {

class FileBuffer final : public std::streambuf {
 public:
  explicit FileBuffer(InputFile file) : file_(std::move(file)) {}

 private:
  int_type underflow() override {
    constexpr std::int64_t kPieceOfFile = 1 << 20;
    piece_ = file_.read(at_, kPieceOfFile);
    at_ += std::ssize(piece_);
    setg(piece_.data(), piece_.data(), piece_.data() + piece_.size());
    return piece_.empty() ? traits_type::eof() : traits_type::to_int_type(piece_.front());
  }

  InputFile file_;
  std::string piece_;
  std::int64_t at_ = 0;
};

class UnpackedBuffer final : public std::streambuf {
 public:
  UnpackedBuffer(InputFile file, const std::string& where) : packed_(std::move(file)), inflater_(packed_, where) {}

 private:
  int_type underflow() override {
    const std::string_view piece = inflater_.next();
    char* const begin = const_cast<char*>(piece.data());  // a get area is never written to
    setg(begin, begin, begin + piece.size());
    return piece.empty() ? traits_type::eof() : traits_type::to_int_type(piece.front());
  }

  FileBuffer packed_;
  Inflater inflater_;
};

/// A stream that owns its buffer.
template <class Buffer>
class OwningStream final : public std::istream {
 public:
  template <class... Args>
  explicit OwningStream(Args&&... args) : std::istream(nullptr),
                                          buffer_(std::forward<Args>(args)...) {
    rdbuf(&buffer_);
    exceptions(std::ios::badbit);  // what the buffer throws is passed on
  }

 private:
  Buffer buffer_;
};

}  // namespace

std::unique_ptr<std::istream> open_stream(const std::filesystem::path& path) {
  InputFile file(path);
  if (begins_as_gzip(file.read(0, 2)))
    return std::make_unique<OwningStream<UnpackedBuffer>>(std::move(file), path.string());
  return std::make_unique<OwningStream<FileBuffer>>(std::move(file));
}

}  // namespace gpuplan
