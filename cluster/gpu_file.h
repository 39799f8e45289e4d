// One file of data/gpus: the product, what it is called, what rings over it were measured to reach, and what it costs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/fields.h"
#include "cluster/cluster_spec.h"

namespace gpuplan {

/// The oldest NVIDIA capability that CUDA 13 still compiles for; older ones are planned, not run.
inline constexpr double kOldestRunnableCapability = 7.5;

/// Everything a GPU is called. All texts are compared without case and separators.
struct GpuNames {
  std::string id;
  std::int64_t memory_gb{};  // on the box
  std::string architecture;
  std::vector<std::string> aliases;      // this product; the first is how people call it
  std::vector<std::string> assumed_for;  // leaves something open and is taken to mean this
  std::vector<std::string> ambiguous;    // may mean this or another product: refused
};

/// The machine that `NxGPU` means.
struct UsualMachine {
  FabricKind fabric = FabricKind::None;
  std::int64_t gpus_per_node = 8;
  bool spans_hosts = false;  // its fabric joins the GPUs of several hosts (a rack): what we call a machine is all of it
  BytesPerSec nic_per_gpu;
  std::string assumption;  // what is uncertain about it, if anything
  std::string bridged;     // a machine of data/clusters whose cards a bridge joins; empty: none is known
  std::string source;
};

/// Measured bus bandwidth of rings in one machine, from so many GPUs on.
struct RingFigure {
  FabricKind fabric = FabricKind::None;
  std::int64_t from_gpus = 2;
  BytesPerSec bus, all_reduce_bus;
  std::string source;
};

struct GpuFile {
  GpuSpec spec;  // of one device
  GpuNames names;
  std::int64_t devices_per_card = 1;
  UsualMachine machine;
  std::vector<RingFigure> rings;  // in rising order of from_gpus, per fabric
  bool shares_host_memory{};      // CPU and GPU have one memory
  BytesPerSec xgmi_per_pair;      // Infinity Fabric between two GPUs; 0: none
  std::vector<GpuPrice> prices;
};

/// Throws InputError listing every problem with its line.
GpuFile read_gpu_file(const std::filesystem::path& path);

/// The lists of names, which files of data/gpus and their index have in common.
GpuNames read_gpu_names(Fields& fields);

/// The figure for `num_gpus` over `fabric`; nullptr when nothing was measured.
const RingFigure* find_ring(const GpuFile& gpu, FabricKind fabric, std::int64_t num_gpus);

/// Multiplies every compute rate and the number of multiprocessors; memory stays.
void scale_compute(GpuSpec& gpu, double factor);

/// The address where a vendor says what it asks today; empty: none is known.
std::string price_page(const std::string& vendor);

/// Says how many GPUs one order of this price may have: "lambda 8x" sells eights, "lambda 1x,2x,4x" machines of these,
/// "aws g5.xlarge" is a machine with one, "aws p5.48xlarge (an eighth of the machine)" sells none alone (its machine
/// stands in data/clusters).
bool sells(const GpuPrice& price, std::int64_t num_gpus);

/// "8x", "1x,2x,4x": numbers of GPUs that a vendor lets in one machine.
bool is_counts(std::string_view product);

/// The price at which a person would rent `num_gpus` of them, as `plan` ranks offers: on-demand before community and
/// others, sold in this number, with a date, the lowest. nullptr when none is known.
const GpuPrice* usual_price(const std::vector<GpuPrice>& prices, std::int64_t num_gpus);

/// One price per product: of the vendor that offers all of several products for the lowest sum, else each the usual
/// one. Empty when one has no price at all.
std::vector<GpuPrice> compared_prices(const std::vector<GpuFile>& kinds, std::int64_t num_gpus);

/// "runpod on-demand", "runpod community".
std::string offer_of(const GpuPrice& price);

/// "runpod on-demand: <source> (approximate)".
std::string describe_price(const GpuPrice& price);

}  // namespace gpuplan
