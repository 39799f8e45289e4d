// NVIDIA's management library, opened at run time and never linked: its stable C interface as far as detection asks it.
// Every function is looked up on its own; one that this driver lacks answers like one that the card does not support.
// Source: nvml.h of API version 13; structs and numbers below are its ABI and never change under their names.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <dlfcn.h>

namespace gpuplan {

/// Advice for the case that the driver does not answer.
inline constexpr const char* kDescribeGpus = "describe the GPUs with --gpus, for example --gpus 4xA6000";

}  // namespace gpuplan

namespace gpuplan::nvml {

using Handle = void*;  // nvmlDevice_t

// Return codes.
inline constexpr int kSuccess = 0, kInvalidArgument = 2, kNoPermission = 4, kDriverNotLoaded = 9, kLibraryNotFound = 12,
                     kFunctionNotFound = 13, kGpuIsLost = 15, kResetRequired = 16, kOperatingSystem = 17,
                     kVersionMismatch = 18;

inline constexpr unsigned kTextBytes = 96;  // names, UUIDs
inline constexpr unsigned kMostLinks = 36;  // NVML_NVLINK_MAX_LINKS
inline constexpr unsigned kRemoteGpu = 0, kRemoteSwitch = 2;
inline constexpr int kRead = 0, kWrite = 1, kNvLink = 2;    // nvmlGpuP2PCapsIndex_t
inline constexpr int kClockMemory = 2;                      // nvmlClockType_t
inline constexpr unsigned kFieldNvLinkSpeed = 90;           // NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON
inline constexpr unsigned long long kNotAvailable = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE

struct Memory {  // nvmlMemory_t; `used` includes what the driver reserves
  unsigned long long total, free, used;
};
struct MemoryV2 {  // nvmlMemory_v2_t
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct PciInfo {  // nvmlPciInfo_t
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
struct ProcessInfo {  // nvmlProcessInfo_t of the calls _v2 and _v3
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
struct FabricInfo {  // nvmlGpuFabricInfo_v2_t
  unsigned version;
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health_mask;
};
struct Attributes {  // nvmlDeviceAttributes_t
  unsigned num_sms, engines[5], gpu_slices, compute_slices;
  unsigned long long memory_mib;
};
struct FieldValue {  // nvmlFieldValue_t
  unsigned field, scope;
  long long timestamp, latency;
  int type, code;
  union {
    double real;
    unsigned small;
    unsigned long long whole;
  } value;
};
static_assert(sizeof(MemoryV2) == 40 && sizeof(PciInfo) == 68 && sizeof(ProcessInfo) == 24 &&
              sizeof(FabricInfo) == 36 && sizeof(Attributes) == 40 && sizeof(FieldValue) == 40);

/// NVML_STRUCT_VERSION.
template <class Struct>
constexpr unsigned version_of(unsigned version) {
  return unsigned(sizeof(Struct)) | (version << 24);
}

/// A text of the driver: what is there up to the end of the buffer.
inline std::string text_of(const char* text, std::size_t size) { return {text, strnlen(text, size)}; }

/// The library, open and started for as long as this lives.
class Library {
 public:
  /// Empty: the driver's own names, or $GPUPLAN_NVML. Null where no driver answers, and `problem` says why in one line.
  static std::unique_ptr<const Library> open(const std::string& file, std::string& problem);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// The code of a call; kFunctionNotFound when the driver has no such function. Types must be those of nvml.h.
  template <class... Args>
  int call(const char* function, Args... args) const {
    void* const found = dlsym(handle_.get(), function);
    return found ? reinterpret_cast<int (*)(Args...)>(found)(args...) : kFunctionNotFound;
  }
  /// The same for calls that nothing works without: in one line why it fails; empty where it does not.
  template <class... Args>
  std::string problem_of(const char* function, Args... args) const {
    return meaning_of(call(function, args...), function);
  }

 private:
  explicit Library(void* handle) : handle_(handle, &dlclose) {}
  std::string meaning_of(int code, const char* function) const;

  std::unique_ptr<void, int (*)(void*)> handle_;
};

}  // namespace gpuplan::nvml
