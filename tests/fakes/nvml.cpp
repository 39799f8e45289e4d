// A libnvidia-ml.so.1 for tests. The machine it plays is the JSON file named by GPUPLAN_FAKE_NVML_MACHINE, read at
// nvmlInit: what a GPU's object (over "every_gpu") does not say is not supported. With GPUPLAN_FAKE_NVML_OLD it lacks
// the functions that old drivers lack. Signatures and numbers: nvml.h of API version 13.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <nlohmann/json.hpp>

#include "cluster/nvml.h"

namespace {

using nlohmann::json;
namespace nvml = gpuplan::nvml;
constexpr int kNotSupported = 3, kInsufficientSize = 7;  // codes that gpuplan treats as any other failure

struct FakeDevice {
  json facts;
  std::size_t index = 0;
};

json machine;
std::vector<FakeDevice> devices, instances;

int answer_text(const json& facts, const char* key, char* out, unsigned size) {
  if (!facts.contains(key)) return kNotSupported;
  const auto text = facts[key].get<std::string>();
  if (text.size() >= size) return kInsufficientSize;
  std::strcpy(out, text.c_str());
  return nvml::kSuccess;
}

template <class Number>
int answer(const json& facts, const char* key, Number* out) {
  if (!facts.contains(key)) return kNotSupported;
  *out = facts[key].get<Number>();
  return nvml::kSuccess;
}

const FakeDevice& fake(void* device) { return *static_cast<FakeDevice*>(device); }
const json& facts(void* device) { return fake(device).facts; }

/// What this process holds on a GPU of tests/cuda_device/fake, if it plays on one.
unsigned long long fake_cuda_bytes(std::size_t index) {
  void* const runtime = dlopen("libgpuplan_fake_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  if (!runtime) return 0;
  const auto bytes_in_use = reinterpret_cast<long long (*)(int)>(dlsym(runtime, "gpuplan_fake_cuda_bytes_in_use"));
  const auto bytes = static_cast<unsigned long long>(bytes_in_use(int(index)));
  dlclose(runtime);
  return bytes;
}

/// The entry of a matrix over all GPUs, or one value for all pairs.
[[maybe_unused]] int answer_pair(const char* key, void* a, void* b, int* out) {
  if (!machine.contains(key)) return kNotSupported;
  const json& table = machine[key];
  *out = table.is_array() ? table[fake(a).index][fake(b).index].get<int>() : table.get<int>();
  return nvml::kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  const char* const file = std::getenv("GPUPLAN_FAKE_NVML_MACHINE");
  if (!file) return nvml::kDriverNotLoaded;
  machine = json::parse(std::ifstream(file));
  devices.clear(), instances.clear();
  for (const json& own : machine.value("gpus", json::array())) {
    json all = machine.value("every_gpu", json::object());
    all.update(own);
    devices.push_back({all, devices.size()});
    for (const json& part : all.value("mig_instances", json::array())) instances.push_back({part, devices.size() - 1});
  }
  return machine.value("init", 0);
}
int nvmlShutdown() { return nvml::kSuccess; }
const char* nvmlErrorString(int code) { return code == 999 ? "Unknown Error" : "an error"; }

int nvmlSystemGetDriverVersion(char* out, unsigned size) { return answer_text(machine, "driver", out, size); }
int nvmlSystemGetCudaDriverVersion_v2(int* out) { return answer(machine, "cuda", out); }
int nvmlDeviceGetCount_v2(unsigned* out) {
  *out = unsigned(devices.size());
  return nvml::kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** out) {
  if (index >= devices.size()) return nvml::kInvalidArgument;
  *out = &devices[index];
  return devices[index].facts.value("open", 0);
}
/// With or without the leading zeros of the domain, as NVML takes both.
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** out) {
  for (FakeDevice& device : devices)
    if (device.facts.value("bus_id", "").ends_with(bus_id)) return *out = &device, nvml::kSuccess;
  return 6;  // not found
}
int nvmlDeviceGetName(void* device, char* out, unsigned size) { return answer_text(facts(device), "name", out, size); }
int nvmlDeviceGetUUID(void* device, char* out, unsigned size) { return answer_text(facts(device), "uuid", out, size); }

int nvmlDeviceGetMemoryInfo(void* device, nvml::Memory* out) {  // here `used` holds what is reserved, too
  const json& f = facts(device);
  if (!f.contains("memory_mib")) return kNotSupported;
  const auto mib = [&](const char* key) { return f.value(key, 0ULL) << 20; };
  out->total = mib("memory_mib"),
  out->used = mib("used_mib") + mib("reserved_mib") + fake_cuda_bytes(fake(device).index);
  out->free = out->total - out->used;
  return nvml::kSuccess;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* out) {
  return answer(facts(device), "max_generation", out);
}
int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* out) { return answer(facts(device), "max_lanes", out); }
int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* out) {
  return answer(facts(device), "generation", out);
}
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* out) { return answer(facts(device), "lanes", out); }

#ifndef GPUPLAN_FAKE_NVML_OLD
int nvmlDeviceGetMemoryInfo_v2(void* device, nvml::MemoryV2* out) {
  if (out->version != nvml::version_of<nvml::MemoryV2>(2)) return 25;
  const json& f = facts(device);
  if (!f.contains("memory_mib")) return kNotSupported;
  const auto mib = [&](const char* key) { return f.value(key, 0ULL) << 20; };
  out->total = mib("memory_mib"), out->used = mib("used_mib"), out->reserved = mib("reserved_mib");
  out->free = out->total - out->used - out->reserved;
  return nvml::kSuccess;
}
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  const json& f = facts(device);
  if (!f.contains("capability")) return kNotSupported;
  *major = f["capability"][0].get<int>(), *minor = f["capability"][1].get<int>();
  return nvml::kSuccess;
}
int nvmlDeviceGetNumGpuCores(void* device, unsigned* out) { return answer(facts(device), "cores", out); }
int nvmlDeviceGetMemoryBusWidth(void* device, unsigned* out) { return answer(facts(device), "bus_width", out); }
int nvmlDeviceGetMaxClockInfo(void* device, int kind, unsigned* out) {
  return kind == nvml::kClockMemory ? answer(facts(device), "memory_mhz", out) : kNotSupported;
}
int nvmlDeviceGetPciInfo_v3(void* device, nvml::PciInfo* out) {
  return answer_text(facts(device), "bus_id", out->bus_id, sizeof out->bus_id);
}

int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* out) {
  const json& f = facts(device);
  if (!f.contains("nvlinks")) return kNotSupported;
  if (link >= f["nvlinks"].size()) return nvml::kInvalidArgument;
  *out = f["nvlinks"][link].is_null() ? 0 : 1;
  return nvml::kSuccess;
}
/// A link is the index of another GPU, "switch", or "hidden".
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, unsigned* out) {
  const json& remote = facts(device)["nvlinks"][link];
  if (remote == "hidden") return kNotSupported;
  *out = remote == "switch" ? nvml::kRemoteSwitch : nvml::kRemoteGpu;
  return nvml::kSuccess;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, nvml::PciInfo* out) {
  const json& remote = facts(device)["nvlinks"][link];
  if (remote == "hidden") return kNotSupported;
  const std::string bus =
      remote == "switch" ? "00000000:C4:00.0" : devices[remote.get<std::size_t>()].facts["bus_id"].get<std::string>();
  std::strcpy(out->bus_id, bus.c_str());
  return nvml::kSuccess;
}
int nvmlDeviceGetFieldValues(void* device, int count, nvml::FieldValue* values) {
  for (int i = 0; i < count; ++i)
    values[i].code = values[i].field == nvml::kFieldNvLinkSpeed
                         ? answer(facts(device), "nvlink_mb_s", &values[i].value.small)
                         : kNotSupported;
  return nvml::kSuccess;
}
int nvmlDeviceGetMemoryAffinity(void* device, unsigned size, unsigned long* nodes, unsigned) {
  unsigned node = 0;
  if (answer(facts(device), "numa", &node) != nvml::kSuccess || size == 0) return kNotSupported;
  std::memset(nodes, 0, size * sizeof *nodes);
  nodes[0] = 1UL << node;
  return nvml::kSuccess;
}
int nvmlDeviceGetTopologyCommonAncestor(void* a, void* b, int* out) { return answer_pair("ancestors", a, b, out); }
int nvmlDeviceGetP2PStatus(void* a, void* b, int what, int* out) {
  return answer_pair(what == nvml::kNvLink ? "p2p_nvlink" : "p2p", a, b, out);
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  *pending = 0;
  return answer(facts(device), "mig", current);
}
int nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* out) {
  *out = unsigned(facts(device).value("mig_instances", json::array()).size()) + 1;  // the last one is not made
  return nvml::kSuccess;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** out) {
  for (FakeDevice& instance : instances)
    if (instance.index == fake(device).index && index-- == 0) return *out = &instance, nvml::kSuccess;
  return 6;  // not found
}
int nvmlDeviceGetAttributes_v2(void* device, nvml::Attributes* out) {
  return answer(facts(device), "sms", &out->num_sms);
}
int nvmlDeviceGetGpuFabricInfoV(void* device, nvml::FabricInfo* out) {
  const json& f = facts(device);
  if (out->version != nvml::version_of<nvml::FabricInfo>(2)) return 25;
  if (!f.contains("fabric_state")) return kNotSupported;
  out->state = f["fabric_state"].get<unsigned char>(), out->clique = f.value("clique", 0U), out->status = 0;
  return nvml::kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, nvml::ProcessInfo* out) {
  unsigned found = 0;
  for (const json& process : facts(device).value("processes", json::array()))
    if (found < *count)
      out[found++] = {process[0].get<unsigned>(),
                      process[1].is_null() ? nvml::kNotAvailable : process[1].get<unsigned long long>() << 20, 0, 0};
  *count = found;
  return nvml::kSuccess;
}
#endif

}  // extern "C"
