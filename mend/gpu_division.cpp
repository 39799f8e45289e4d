#include "mend/gpu_division.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "ecosystem/key_table.h"
#include "models/training_method.h"
#include "planner/engine_gpus.h"

namespace gpuplan {
namespace {

using nlohmann::json;

/// A model beside the one that is trained, with the facts that give it GPUs: of each machine, and machines.
struct OtherModel {
  PassModel of{};
  const char* title;
  std::string_view gpus, machines;
};
constexpr std::array kOthers{OtherModel{PassModel::Reference, "the reference", "reference_gpus", "reference_machines"},
                             OtherModel{PassModel::Critic, "the critic", "critic_gpus", "critic_machines"},
                             OtherModel{PassModel::Reward, "the reward model", "reward_gpus", "reward_machines"}};

bool is_held(PassModel model, const EstimateRequest& r) {
  if (model == PassModel::Reference) return reference_of(r.recipe) != Reference::None;
  return r.recipe.objective.method->has_pass_of(model) && !(model == PassModel::Reward && r.rollout.judged_by_function);
}

json fact_of(const Setup& setup, std::string_view name) { return value_of(setup, *find_setup_field(name)); }

/// Says whether such a model is started on the GPUs that train.
bool shares_gpus(const Setup& s, PassModel model) {
  return s.engine_colocated.value_or(false) || (model == PassModel::Reference && s.shares_reference.value_or(false));
}

class Divider {
 public:
  explicit Divider(const ReadFiles& given)
      : given_(given),
        s_(given.reading.setup),
        r_(given.request),
        whole_(whole_cluster(given.request)),
        that_train_(given.request.cluster.num_gpus()),
        own_(engine_gpus(given.request, that_train_)),
        per_machine_(std::max<std::int64_t>(1, whole_.gpus_per_node)) {}

  GpuDivision divide() {
    if (!s_.num_processes || s_.distributed == "no" || other_division(r_, given_.reading).empty()) return {};
    if (!has_row("num_machines") && r_.cluster.num_nodes() > 1) return {};
    if (own_ > 0 && s_.counts_engine.value_or(false))
      divide_machines();
    else
      divide_apart();
    share_with_others();
    if (!out_.why_not.empty()) out_.facts.clear();
    return std::move(out_);
  }

 private:
  bool has_key(std::string_view fact) const {
    return std::ranges::any_of(given_.reading.parts,
                               [&](const SettingsPart& part) { return part.keys_of.contains(std::string(fact)); });
  }
  /// Says whether a trainer's format has a word for the fact; a launcher's has it where it stands there.
  bool has_row(std::string_view fact) const {
    return has_key(fact) || std::ranges::any_of(given_.reading.parts, [&](const SettingsPart& part) {
             return part.table->role == FileRole::Trainer &&
                    std::ranges::any_of(part.table->rows,
                                        [&](const KeyRow& row) { return row.field && row.field->name == fact; });
           });
  }

  void want(std::string_view fact, json value) {
    if (has_row(fact) && fact_of(s_, fact) != value) out_.facts.push_back({fact, std::move(value)});
  }
  /// A fact that is said only where the files say it.
  void want_if_said(std::string_view fact, json value) {
    if (has_key(fact)) want(fact, std::move(value));
  }

  void refuse(std::string why) {
    if (out_.why_not.empty()) out_.why_not = std::move(why);
  }

  /// So many GPUs in whole machines, or part of one: machines and GPUs of each; none where they are no whole machines.
  std::pair<std::int64_t, std::int64_t> in_machines(std::int64_t gpus) {
    if (gpus <= per_machine_) return {1, gpus};
    if (gpus % per_machine_ == 0) return {gpus / per_machine_, per_machine_};
    refuse(fmt::format("{} GPUs are no whole machines of {}", gpus, per_machine_));
    return {1, gpus};
  }

  /// The machines of those that train hold the engine's GPUs too: part of a single one, or whole ones of several.
  void divide_machines() {
    const std::int64_t in_all = that_train_ + own_;
    if (in_all <= per_machine_) {
      want("num_machines", 1), want("processes_per_machine", in_all);
      want("engine_gpus", own_), want_if_said("engine_machines", json());
      return;
    }
    if (that_train_ % per_machine_ != 0 || own_ % per_machine_ != 0)
      return refuse(fmt::format("{} GPUs that train and {} of the engine are no whole machines of {}", that_train_,
                                own_, per_machine_));
    want("num_machines", in_all / per_machine_), want("processes_per_machine", per_machine_);
    want("engine_gpus", per_machine_), want("engine_machines", own_ / per_machine_);
  }

  void divide_apart() {
    const auto [machines, per_machine] = in_machines(that_train_);
    want_if_said("num_processes", that_train_);
    want("learners", std::vector<std::int64_t>(std::size_t(machines), per_machine));
    if (s_.machine_gpus) return divide_whole_machines();
    if (own_ > 0 || !has_key("num_processes") || r_.cluster.num_nodes() > 1 || has_key("num_machines"))
      want("num_machines", machines);
    want("processes_per_machine", per_machine);
    const std::int64_t tp = std::max<std::int64_t>(1, r_.rollout.engine.tp), gpus = own_ > 0 ? own_ : that_train_;
    if (s_.engine_count && generates(r_.recipe)) {
      if (gpus % tp != 0) return refuse(fmt::format("{} GPUs are no engines of {}", gpus, tp));
      if (own_ > 0 || s_.engine_colocated.value_or(false)) want("engine_count", gpus / tp);
    }
    if (own_ == 0) return;
    if (s_.server_tp) want("server_copies", own_ / std::max<std::int64_t>(1, *s_.server_tp));
    if (!s_.engine_gpus) return;
    const auto [engine_machines, of_each] = in_machines(own_);
    want("engine_gpus", of_each), want("engine_machines", engine_machines);
    want_if_said("engine_copies", 1);
  }

  /// Divides by settings that count whole machines where they name them, and GPUs of a single one elsewhere.
  void divide_whole_machines() {
    const bool has_machines = has_key("num_machines");
    const std::int64_t of_machine = *s_.machine_gpus;
    if (!has_machines) {
      if (that_train_ + own_ > of_machine)
        return refuse(fmt::format("{} GPUs are more than the one machine of {} that the files are for",
                                  that_train_ + own_, of_machine));
      want("processes_per_machine", that_train_);
      if (own_ > 0) want("engine_gpus", own_);
      return;
    }
    const std::int64_t copies = std::max<std::int64_t>(1, s_.engine_copies.value_or(1));
    if (that_train_ % of_machine != 0 || own_ % (of_machine * copies) != 0)
      return refuse(fmt::format("{} GPUs that train and {} of the engine are no whole machines of {}", that_train_,
                                own_, of_machine));
    want("num_machines", that_train_ / of_machine);
    if (own_ > 0) want("engine_machines", own_ / of_machine / copies);
  }

  /// Models that share the GPUs of those that train are started on as many.
  void share_with_others() {
    const auto [machines, per_machine] = in_machines(that_train_);
    for (const OtherModel& other : kOthers) {
      if (!has_row(other.gpus) || !is_held(other.of, r_)) continue;
      if (!shares_gpus(s_, other.of))
        return refuse(
            fmt::format("{} has GPUs of its own there, which are counted among those that train: place all "
                        "models together (colocate_all)",
                        other.title));
      want(other.gpus, per_machine), want(other.machines, machines);
    }
  }

  const ReadFiles& given_;
  const Setup& s_;
  const EstimateRequest& r_;
  const ClusterSpec whole_;
  const std::int64_t that_train_, own_, per_machine_;
  GpuDivision out_;
};

}  // namespace

GpuDivision gpu_division(const ReadFiles& given) { return Divider(given).divide(); }

std::string other_division(const EstimateRequest& wanted, const ConfigReading& read) {
  const Setup& s = read.setup;
  if (!s.num_processes || s.distributed == "no") return {};
  const std::int64_t that_train = wanted.cluster.num_gpus(), own = engine_gpus(wanted, that_train);
  if (*s.num_processes != that_train)
    return fmt::format("the files start {} processes that train, and the plan has {}", *s.num_processes, that_train);
  const EngineChoice& engine = read.request.rollout.engine;
  if (own > 0 && engine.gpus > 0 && engine.gpus != own)
    return fmt::format("the files give the engine {} GPUs, and the plan {}", engine.gpus, own);
  const bool is_beside = s.engine_colocated.value_or(false) && s.engine_count && generates(wanted.recipe);
  const std::int64_t answering = is_beside ? *s.engine_count * std::max<std::int64_t>(1, engine.tp) : that_train;
  if (answering != that_train)
    return fmt::format("the files' engines take {} GPUs, and {} train beside them", answering, that_train);
  for (const OtherModel& other : kOthers) {
    const json gpus = fact_of(s, other.gpus), machines = fact_of(s, other.machines);
    if (!gpus.is_number_integer() || !is_held(other.of, wanted) || !shares_gpus(s, other.of)) continue;
    const std::int64_t count =
        gpus.get<std::int64_t>() * (machines.is_number_integer() ? machines.get<std::int64_t>() : 1);
    if (count != that_train)
      return fmt::format("the files give {} {} GPUs, and {} train on the same", other.title, count, that_train);
  }
  return {};
}

}  // namespace gpuplan
