#include "base/inflate.h"

#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "base/error.h"

namespace gpuplan {
namespace {

constexpr std::size_t kUnpackedPiece = 65536;
constexpr int kGzipWindow = MAX_WBITS + 16;  // the window of any file, and gzip's header alone (zlib.h, inflateInit2)

}  // namespace

struct Inflater::Stream {
  Stream() { GPUPLAN_CHECK(inflateInit2(&z, kGzipWindow) == Z_OK, "zlib has memory for a stream"); }
  ~Stream() { inflateEnd(&z); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  z_stream z{};
};

bool begins_as_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

Inflater::Inflater(std::streambuf& packed, std::string where)
    : packed_(packed),
      where_(std::move(where)),
      stream_(std::make_unique<Stream>()),
      in_(kUnpackedPiece),
      out_(kUnpackedPiece) {}

Inflater::~Inflater() = default;

void Inflater::refuse(std::string_view problem) const {
  throw InputError(where_, fmt::format("is no whole gzip file: {}", problem), "unpack it with gzip -d");
}

bool Inflater::read_more() {
  z_stream& z = stream_->z;
  if (z.avail_in > 0) return true;
  const std::streamsize size = packed_.sgetn(in_.data(), std::streamsize(in_.size()));
  z.next_in = reinterpret_cast<Bytef*>(in_.data());
  z.avail_in = uInt(size);
  return size > 0;
}

std::string_view Inflater::next() {
  z_stream& z = stream_->z;
  z.next_out = reinterpret_cast<Bytef*>(out_.data());
  z.avail_out = uInt(out_.size());
  while (z.avail_out == out_.size()) {
    if (!read_more()) {
      if (is_in_member_ || !has_member_) refuse("it is cut off");
      return {};
    }
    if (!is_in_member_) inflateReset(&z);
    is_in_member_ = true;
    const int result = inflate(&z, Z_NO_FLUSH);
    if (result == Z_STREAM_END)
      is_in_member_ = false, has_member_ = true;
    else if (result != Z_OK && result != Z_BUF_ERROR)
      refuse(z.msg ? z.msg : "it is damaged");
  }
  return {out_.data(), out_.size() - z.avail_out};
}

}  // namespace gpuplan
