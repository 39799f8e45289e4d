#include "cluster/profile/profile.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/data_archive.h"
#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/sha256.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"
#include "cluster/gpu_catalogue.h"
#include "cluster/profile/measured.h"
#include "cluster/profile/profile_ranges.h"

namespace gpuplan {
namespace {

enum class Measure : std::uint8_t { Share, Time, Rate, Memory };

/// Destination of a number of the file.
struct Slot {
  std::string_view name;
  Measure measure;
  void (*store)(Profile&, double in_base_units);
  bool is_optional = false;  // files of earlier versions lack it: 0
};

constexpr std::array kSlots{
    Slot{"gemm_efficiency", Measure::Share, [](Profile& p, double v) { p.gemm_efficiency = v; }},
    Slot{"gemm_fallback", Measure::Share, [](Profile& p, double v) { p.gemm_fallback = v; }},
    Slot{"wave_loss", Measure::Share, [](Profile& p, double v) { p.wave_loss = v; }},
    Slot{"gemm_exposed_traffic", Measure::Share, [](Profile& p, double v) { p.gemm_exposed_traffic = v; }},
    Slot{"flash_efficiency", Measure::Share, [](Profile& p, double v) { p.flash_efficiency = v; }},
    Slot{"cudnn_attention_efficiency", Measure::Share, [](Profile& p, double v) { p.cudnn_attention_efficiency = v; }},
    Slot{"flash3_efficiency", Measure::Share, [](Profile& p, double v) { p.flash3_efficiency = v; }},
    Slot{"small_head_attention", Measure::Share, [](Profile& p, double v) { p.small_head_attention = v; }},
    Slot{"batched_gemm_efficiency", Measure::Share, [](Profile& p, double v) { p.batched_gemm_efficiency = v; }},
    Slot{"head_alignment", Measure::Share, [](Profile& p, double v) { p.head_alignment = std::int64_t(v); }, true},
    Slot{"memory_efficiency", Measure::Share, [](Profile& p, double v) { p.memory_efficiency = v; }},
    Slot{"eager_sm_bandwidth", Measure::Rate, [](Profile& p, double v) { p.eager_sm_bandwidth = {v}; }},
    Slot{"fused_bytes_factor", Measure::Share, [](Profile& p, double v) { p.fused_bytes_factor = v; }},
    Slot{"compiled_bytes_factor", Measure::Share, [](Profile& p, double v) { p.compiled_bytes_factor = v; }},
    Slot{"dequant_sm_bandwidth", Measure::Rate, [](Profile& p, double v) { p.dequant_sm_bandwidth = {v}; }},
    Slot{"gptq_bytes_factor", Measure::Share, [](Profile& p, double v) { p.gptq_bytes_factor = v; }},
    Slot{"kernel_overhead", Measure::Time, [](Profile& p, double v) { p.kernel_overhead = {v}; }},
    Slot{"dispatch_eager", Measure::Time, [](Profile& p, double v) { p.dispatch_eager = {v}; }},
    Slot{"dispatch_compiled", Measure::Time, [](Profile& p, double v) { p.dispatch_compiled = {v}; }},
    Slot{"overlap_slowdown", Measure::Share, [](Profile& p, double v) { p.overlap_slowdown = v; }},
    Slot{"gpu_spread", Measure::Share, [](Profile& p, double v) { p.gpu_spread = v; }, true},
    Slot{"nvlink_efficiency", Measure::Share, [](Profile& p, double v) { p.nvlink_efficiency = v; }},
    Slot{"pcie_efficiency", Measure::Share, [](Profile& p, double v) { p.pcie_efficiency = v; }},
    Slot{"network_efficiency", Measure::Share, [](Profile& p, double v) { p.network_efficiency = v; }},
    Slot{"host_link_efficiency", Measure::Share, [](Profile& p, double v) { p.host_link_efficiency = v; }},
    Slot{"cpu_optimizer_bandwidth", Measure::Rate, [](Profile& p, double v) { p.cpu_optimizer_bandwidth = {v}; }},
    Slot{"torch_cpu_optimizer_bandwidth", Measure::Rate,
         [](Profile& p, double v) { p.torch_cpu_optimizer_bandwidth = {v}; }},
    Slot{"nvme_bandwidth", Measure::Rate, [](Profile& p, double v) { p.nvme_bandwidth = {v}; }},
    Slot{"context", Measure::Memory, [](Profile& p, double v) { p.context = {std::int64_t(v)}; }},
    Slot{"nccl", Measure::Memory, [](Profile& p, double v) { p.nccl = {std::int64_t(v)}; }},
    Slot{"blas_workspace", Measure::Memory, [](Profile& p, double v) { p.blas_workspace = {std::int64_t(v)}; }},
    Slot{"time_error", Measure::Share, [](Profile& p, double v) { p.time_error = v; }},
    Slot{"pool_slack", Measure::Share, [](Profile& p, double v) { p.pool_slack = v; }},
    Slot{"margin", Measure::Share, [](Profile& p, double v) { p.margin = v; }},
};

struct Unit {
  Measure measure;
  std::string_view name;
  double factor;
};
constexpr std::array kUnits{Unit{Measure::Time, "us", 1e-6},      Unit{Measure::Time, "ms", 1e-3},
                            Unit{Measure::Time, "s", 1},          Unit{Measure::Rate, "GB/s", 1e9},
                            Unit{Measure::Memory, "MiB", 0x1p20}, Unit{Measure::Memory, "GiB", 0x1p30}};

/// Base units per `unit`; a share's unit is a text for people.
std::optional<double> unit_factor(Measure measure, const std::string& unit) {
  if (measure == Measure::Share) return 1;
  for (const Unit& row : kUnits)
    if (row.measure == measure && row.name == unit) return row.factor;
  return std::nullopt;
}

using Values = std::vector<std::pair<std::string, ProfileValue>>;

void put(Values& values, const std::string& name, ProfileValue value) {
  const auto known = std::find_if(values.begin(), values.end(), [&](const auto& row) { return row.first == name; });
  if (known != values.end())
    known->second = std::move(value);
  else
    values.emplace_back(name, std::move(value));
}

/// A source may be the name of one of the file's `sources`.
std::string expand_source(const std::string& source, Fields& sources) {
  return sources.has(source) ? sources.text(source) : source;
}

/// Reads `values:` over what is there already.
void read_values(Fields& owner, Fields& sources, Values& into) {
  Fields block = owner.fields("values");
  for (const Slot& slot : kSlots) {
    const std::string name(slot.name);
    auto fields = block.optional_fields(name);
    if (!fields) continue;
    const nlohmann::json* const given = fields->require("value");
    const auto number = given ? fields->to_number(*given, "value", kAnyNumber) : std::nullopt;
    ProfileValue value{.value = number.value_or(0), .unit = fields->text("unit"), .kind = fields->text("kind")};
    value.source = expand_source(fields->text("source"), sources);
    const auto optional = [&](const char* key, const char* row) {
      const auto found = fields->optional_number(key, kAnyNumber);
      return found && check_range(*fields, key, *found, profile_range("fit", row)) ? found : std::nullopt;
    };
    value.low = optional("low", "interval"), value.high = optional("high", "interval");
    value.num_samples = std::int64_t(optional("samples", "samples").value_or(0));
    value.residual = optional("residual", "residual").value_or(0);
    if (const auto factor = unit_factor(slot.measure, value.unit); !factor)
      fields->report("unit", fmt::format("'{}' is not a unit for this", value.unit));
    else if (number)
      check_range(*fields, "value", *number * *factor, profile_range("values", slot.name),
                  slot.measure == Measure::Share ? "" : fmt::format("{} {}", *number, value.unit));
    fields->refuse_unknown();
    put(into, name, std::move(value));
  }
  block.refuse_unknown();
}

/// Orders the values as the table does and sets the fields they are for.
void fill(Profile& profile, const Values& values, Fields& top) {
  for (const Slot& slot : kSlots) {
    const auto row = std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == slot.name; });
    if (row == values.end()) {
      if (!slot.is_optional) top.report("values", fmt::format("'{}' is missing", slot.name));
      continue;
    }
    slot.store(profile, row->second.value * unit_factor(slot.measure, row->second.unit).value_or(0));
    profile.values.push_back(*row);
  }
}

/// Condition for the GPUs of a class: each key that is stated agrees.
struct Match {
  std::optional<std::string> gpu, vendor, architecture, compute_capability, form_factor;
};

/// Number of keys of a `matches` row that agree with the GPU; 0 when one does not.
std::size_t agreement(const Match& row, const GpuSpec& gpu) {
  const std::array<std::pair<const std::optional<std::string>*, const std::string*>, 5> keys{
      {{&row.gpu, &gpu.id},
       {&row.vendor, &gpu.vendor},
       {&row.architecture, &gpu.architecture},
       {&row.compute_capability, &gpu.compute_capability},
       {&row.form_factor, &gpu.form_factor}}};
  std::size_t agreeing = 0;
  for (const auto& [wanted, value] : keys) {
    if (*wanted && **wanted != *value) return 0;
    agreeing += wanted->has_value();
  }
  return agreeing;
}

std::filesystem::path default_path() { return data_dir() / "profiles" / "default.yaml"; }

struct ShippedClass {
  Profile profile;
  std::vector<Match> matches;
};

/// data/profiles/default.yaml: numbers for every class, and the classes that override some. Throws InputError listing
/// every problem.
std::vector<ShippedClass> read_classes() {
  YamlFile file = YamlFile::read(default_path());
  Fields& top = file.top();
  Fields sources = top.fields("sources");
  Values common;
  top.allow({"id"});
  read_values(top, sources, common);
  const std::string sha256 = sha256_of_data(default_path(), DataFormat::Yaml);
  std::vector<ShippedClass> classes;
  for (Fields& one : top.list("classes")) {
    ShippedClass shipped{
        .profile = {
            .id = one.text("id"), .title = one.text("title"), .file = default_path().string(), .sha256 = sha256}};
    for (Fields& row : one.list("matches")) {
      const auto text = [&](const char* key) { return row.optional_text(key); };
      shipped.matches.push_back(
          {text("gpu"), text("vendor"), text("architecture"), text("compute_capability"), text("form_factor")});
      row.refuse_unknown();
    }
    Values values = common;
    read_values(one, sources, values);
    fill(shipped.profile, values, top);
    one.refuse_unknown();
    classes.push_back(std::move(shipped));
  }
  top.refuse_unknown();
  file.finish();
  return classes;
}

/// Read once: every machine of a search asks for its own.
const std::vector<ShippedClass>& shipped_classes() { return read_once<read_classes>(); }

/// The class with the most points; nullptr when none has any.
template <class Score>
const Profile* best_class(Score score) {
  const ShippedClass* best = nullptr;
  std::size_t best_score = 0;
  for (const ShippedClass& one : shipped_classes())
    if (const std::size_t points = score(one); points > best_score) {
      best = &one;
      best_score = points;
    }
  return best ? &best->profile : nullptr;
}

}  // namespace

namespace {

/// Puts the card's measured rate of copies in the place of what its class assumes.
Profile with_memory_of(Profile profile, const GpuSpec& gpu) {
  if (gpu.memory_share <= 0) return profile;
  profile.memory_efficiency = gpu.memory_share;
  for (auto& [name, value] : profile.values)
    if (name == "memory_efficiency") {
      value.value = gpu.memory_share;
      value.kind = "measured";
      value.source = fmt::format("copies on this card: data/gpus/{}.yaml", gpu.id);
    }
  return profile;
}

}  // namespace

Profile default_profile(const GpuSpec& gpu) {
  const Profile* best = best_class([&](const ShippedClass& one) {
    std::size_t most = 0;
    for (const Match& row : one.matches) most = std::max(most, agreement(row, gpu));
    return most;
  });
  if (best) return with_memory_of(*best, gpu);
  throw InputError(default_path().string(), "no class matches")
      .add_context(fmt::format("the default profile of {}", gpu.id));
}

Profile default_profile(const std::string& gpu_id) {
  if (gpu_id == "cpu") return default_profile(GpuSpec{.id = "cpu", .vendor = "host", .architecture = "cpu"});
  return default_profile(find_gpu(gpu_id, nullptr));
}

std::vector<Profile> shipped_profiles() {
  std::vector<Profile> out;
  for (const ShippedClass& one : shipped_classes()) out.push_back(one.profile);
  return out;
}

Profile load_profile(const std::filesystem::path& path) {
  Profile profile = parse_profile(read_file(path, kProfileLimit), path);
  profile.runs = std::make_shared<std::vector<RunRecord>>(read_runs(path, profile.sha256));
  return profile;
}

RunCorrection correction_of(const Profile& profile, std::int64_t num_ranks, std::string_view framework) {
  return profile.runs ? correction_for(*profile.runs, num_ranks, framework) : RunCorrection{};
}

Profile parse_profile(const std::string& text, const std::filesystem::path& path) {
  YamlFile file = YamlFile::parse(text, path.string());
  Fields& top = file.top();
  Values values;
  if (const auto base = top.optional_text("based_on")) {
    if (const Profile* known =
            best_class([&](const ShippedClass& one) { return std::size_t(one.profile.id == *base); }))
      values = known->values;
    else
      top.report("based_on", fmt::format("'{}' is not a class of data/profiles/default.yaml", *base));
  }
  Profile profile{.id = top.text("id"),
                  .title = top.optional_text("title").value_or(""),
                  .file = path.string(),
                  .sha256 = sha256_hex(file.content())};
  const auto schema = top.optional_integer("schema_version");
  if (schema && *schema != kProfileSchema)
    top.report("schema_version", fmt::format("this program reads version {}", kProfileSchema));
  if (auto measured = read_measured(top)) profile.measured = std::make_shared<Measured>(std::move(*measured));
  auto given = top.optional_fields("sources");
  Fields sources = given ? *given : YamlFile::parse("{}", path.string()).top();
  read_values(top, sources, values);
  fill(profile, values, top);
  top.refuse_unknown();
  file.finish("a profile names every value, or a class to start from: 'based_on: default-ampere'");
  return profile;
}

ProfileHead read_profile_head(const std::filesystem::path& path) {
  std::string text = read_file(path, kProfileLimit);
  for (const char* const block : {"\nloads:", "\ncollectives:", "\nscalars:", "\nheld_out:", "\nsamples:"})
    text.resize(std::min(text.size(), text.find(block)));
  YamlFile file = YamlFile::parse(text + "\n", path.string());
  ProfileHead head{.id = file.top().optional_text("id").value_or(""), .on = read_machine(file.top())};
  file.finish();
  return head;
}

namespace {

/// All but the measured part.
std::string head_text(const std::string& id, const std::string& title, const std::string& based_on,
                      const Values& values) {
  std::string out = fmt::format("{}schema_version: {}\nid: {}\ntitle: {}\nbased_on: {}\nvalues:{}\n", kProfileBegins,
                                kProfileSchema, in_quotes(id), in_quotes(title), based_on, values.empty() ? " {}" : "");
  for (const auto& [name, v] : values) {
    const auto slot =
        std::find_if(kSlots.begin(), kSlots.end(), [&wanted = name](const Slot& s) { return s.name == wanted; });
    GPUPLAN_CHECK(slot != kSlots.end() && unit_factor(slot->measure, v.unit),
                  "a profile value has a name and a unit of the table");
    out += fmt::format("  {}: {{value: {:.6g}, unit: {}, kind: {}, source: {}", name, v.value, in_quotes(v.unit),
                       v.kind, in_quotes(v.source));
    if (v.low && v.high) out += fmt::format(", low: {:.6g}, high: {:.6g}", *v.low, *v.high);
    if (v.num_samples > 0) out += fmt::format(", samples: {}, residual: {:.4g}", v.num_samples, v.residual);
    out += "}\n";
  }
  return out;
}

}  // namespace

std::string profile_text(const ProfileDraft& draft) {
  return head_text(draft.id, draft.title, draft.based_on, draft.values) + measured_text(draft.measured);
}

std::string profile_text(const Profile& profile) {
  const bool is_shipped = profile.file == default_path().string();
  if (is_shipped) return head_text(profile.id, profile.title, profile.id, profile.values);
  const std::string text = read_file(profile.file);
  return text.starts_with(kProfileBegins) ? text : std::string(kProfileBegins) + text;
}

}  // namespace gpuplan
