// What the library of collectives needs to know of a CUDA stream that the device library made. The two are separate
// shared objects: they share this interface, not code.
#pragma once

#include <memory>

#include "device/device.h"

struct CUstream_st;  // cudaStream_t points to one

namespace gpuplan {

/// A graph's work. Communicators that it has collectives of do not end before it is gone.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  virtual void release() noexcept = 0;  // what runs of it goes on; it cannot be launched any more
};

/// Something that can fail behind a stream's back (a peer that died), so that waiting for the stream would never end.
class StreamWatch {
 public:
  virtual ~StreamWatch() = default;
  virtual void check() = 0;  // throws EnvError when it has failed
  /// `work` may have calls of what is watched: it is released, if it still lives, before that ends.
  virtual void release_first(const std::weak_ptr<CapturedWork>& work) = 0;
};

class NativeStream : public Stream {
 public:
  virtual CUstream_st* native() const = 0;
  virtual int device_index() const = 0;  // what cudaSetDevice takes
  /// Asks `watch`, as long as it lives, while somebody waits for this stream or an event recorded on it. Again is
  /// the same as once.
  virtual void watch(const std::shared_ptr<StreamWatch>& watch) = 0;
};

}  // namespace gpuplan
