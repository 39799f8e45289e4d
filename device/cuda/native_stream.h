// What the library of collectives needs to know of a CUDA stream that the device library made. The two are separate shared
// objects: they share this interface, not code.
#pragma once

#include <memory>

#include "device/device.h"

struct CUstream_st;  // cudaStream_t points to one

namespace gpuplan {

/// Something that can fail behind a stream's back (a peer that died), so that waiting for the stream would never end.
class StreamWatch {
 public:
  virtual ~StreamWatch() = default;
  virtual void check() = 0;  // throws EnvError when it has failed
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
