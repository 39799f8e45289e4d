#include "ecosystem/engine_job.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/names.h"
#include "ecosystem/emit.h"
#include "ecosystem/export.h"
#include "ecosystem/export_parts.h"
#include "ecosystem/meaning.h"
#include "models/framework.h"
#include "models/training_method.h"
#include "planner/plan/plan_parts.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* kRecord = "hf-trainer";  // whose classes read the launcher's files
constexpr const char *kSftScript = "train_sft.py", *kTorchScript = "train_torch.py";

void append(Words& to, const Words& more) { to.insert(to.end(), more.begin(), more.end()); }

/// A plan on its way to a launcher.
class EnginePlanner {
 public:
  EnginePlanner(const EstimateRequest& request, const EngineQuestion& question, const PlanMark& mark)
      : q_(question),
        mark_(mark),
        request_(request),
        written_(request),
        strategy_(make_strategy(request.strategy, request.cluster, options_for(request))),
        job_{.request = written_,
             .strategy = strategy_,
             .setup = setup_of(request, strategy_),
             .mark = mark,
             .versions = question.versions} {
    add_stack_facts(job_, kRecord, true);  // export_plan says what these versions cannot train
    if (strategy_.engine != ShardingEngine::Fsdp2 || !broken_version_rule(job_.setup, question.versions)) return;
    written_.options.fsdp_version = 1;  // as export_plan does
    strategy_ = make_strategy(written_.strategy, written_.cluster, options_for(written_));
    job_.strategy = strategy_;
    job_.setup = setup_of(written_, strategy_);
    add_stack_facts(job_, kRecord, true);
  }

  EngineJob plan() {
    check_hosts();
    choose_files();
    if (out_.is_refused()) return std::move(out_);
    if (q_.engine == "slurm")
      add_slurm();
    else
      add_launchers();
    return std::move(out_);
  }

 private:
  bool is_torch() const { return uses_torch_script(q_, request_.recipe.framework->name); }

  void check_hosts() const {
    const auto machines = std::size_t(job_.is_one_process() ? 1 : job_.num_nodes());
    if (q_.engine == "slurm" || (machines == 1 && q_.hosts.empty())) return;
    if (q_.hosts.empty())
      throw InputError("--hosts", fmt::format("is needed: the plan has {} machines", machines),
                       "a file with a host a line, the first one for rank 0; or --engine slurm");
    if (q_.hosts.size() != machines)
      throw InputError("--hosts", fmt::format("names {} machines, and the plan has {}", q_.hosts.size(), machines),
                       "one line per machine of the plan");
  }

  /// The target of gpuplan export that has this engine's files.
  std::string target() const {
    if (q_.engine == "slurm") return "slurm";
    if (is_torch()) return "torch";
    if (q_.script.empty()) return "trl";  // its settings are those of the shipped script
    return q_.engine;
  }

  void choose_files() {
    if (q_.engine == "deepspeed" && !job_.is_zero()) {
      out_.refusal = fmt::format("deepspeed starts stages of ZeRO, and the plan is {}", strategy_.name);
      out_.nearest = "plan with --strategy zero1, zero2 or zero3, or --engine accelerate";
      return;
    }
    if (q_.script.empty() && !is_torch() && !request_.recipe.objective.method.is_usual()) {
      out_.refusal = fmt::format("the script that gpuplan brings along fine-tunes, and the plan is {}",
                                 request_.recipe.objective.method->name);
      out_.nearest = "gpuplan export --for trl, whose launch.sh trains it, or a script of your own behind --";
      return;
    }
    ExportPlaces places{.folder = q_.engine == "slurm" ? "" : q_.folder.string(),
                        .program = program(),
                        .variables = {},
                        .has_script = true};
    if (q_.engine == "slurm")
      for (const std::size_t word : q_.secrets) places.variables.emplace(word, hidden_name(word));
    ExportAnswer answer = export_plan(request_, target(), mark_, q_.versions, places);
    out_.notes = std::move(answer.notes);
    out_.refusal = std::move(answer.refusal);
    out_.nearest = std::move(answer.nearest);
    if (const std::size_t at = out_.nearest.find("--for "); at != std::string::npos)  // a flag of the other command
      out_.nearest.insert(at, "gpuplan export ");
    for (ExportedFile& file : answer.files)
      if (file.name != "launch.sh") out_.files.push_back(std::move(file));
    if (out_.is_refused()) return;
    out_.script = q_.script.empty() ? (is_torch() ? kTorchScript : kSftScript) : q_.script.front();
    if (q_.script.empty() && !is_torch()) {
      out_.files.push_back(script_file(job_, "trl", kSftScript));
      out_.files.push_back(script_file(job_, "trl", "gpuplan_metrics.py"));
    }
    add_packages();
  }

  void add_packages() {
    const bool has_fsdp = is_fsdp(strategy_.engine);
    out_.packages = {{"torch", has_fsdp ? "2.1" : "1.13"}};
    if (is_torch()) return;
    // whose classes read the variables of FSDP; a script of one's own under DDP may need nothing of it
    const bool has_torchrun =
        q_.engine == "torchrun" || (q_.engine == "slurm" && request_.recipe.framework->name == "torch");
    const bool needs_accelerate = q_.engine != "deepspeed" && (!has_torchrun || has_fsdp);
    if (needs_accelerate || q_.script.empty()) out_.packages.emplace_back("accelerate", "1.0");
    if (q_.script.empty()) {
      out_.packages.emplace_back("transformers", "4.46");
      if (request_.recipe.is_adapter()) out_.packages.emplace_back("peft", "0.11");
    }
    if (job_.is_zero()) out_.packages.emplace_back("deepspeed", "0.14");
    if (request_.recipe.quant.kind == BaseQuant::Nf4 || request_.recipe.quant.kind == BaseQuant::Int8)
      out_.packages.emplace_back("bitsandbytes", "0.42");
  }

  std::string in_folder(const char* name) const { return (q_.folder / name).string(); }

  static std::string hidden_name(std::size_t word) { return fmt::format("GPUPLAN_ARGUMENT_{}", word); }

  /// Gives what is trained, with its arguments.
  Words program() const {
    if (!q_.script.empty()) return q_.script;
    Words words = is_torch() ? Words{in_folder(kTorchScript), in_folder("torch.json")}
                             : Words{in_folder(kSftScript), in_folder("sft.yaml")};
    append(words, q_.options);
    return words;
  }

  /// `machine`: its number, from 0.
  Words launcher(std::size_t machine) const {
    Words words = q_.launcher;
    const bool has_many = q_.hosts.size() > 1;
    const auto processes = std::to_string(job_.processes_per_node());
    const std::string number = std::to_string(machine), port = std::to_string(q_.port);
    if (q_.engine == "accelerate") {
      append(words, {"launch", "--config_file", in_folder("accelerate.yaml")});
      if (has_many)
        append(words, {"--machine_rank", number, "--main_process_ip", q_.hosts.front(), "--main_process_port", port});
      return words;
    }
    if (q_.engine == "deepspeed") {
      append(words, {"--num_gpus=" + processes});
      if (has_many)
        append(words, {"--num_nodes=" + std::to_string(q_.hosts.size()), "--no_ssh", "--node_rank=" + number,
                       "--master_addr=" + q_.hosts.front()});
      append(words, {"--master_port=" + port});
      return words;
    }
    if (job_.is_one_process()) return {q_.python};
    if (has_many)
      append(words, {"--nnodes=" + std::to_string(q_.hosts.size()), "--node_rank=" + number,
                     "--master_addr=" + q_.hosts.front(), "--master_port=" + port});
    else
      words.emplace_back("--standalone");
    words.push_back("--nproc_per_node=" + processes);
    append(words, torchrun_output_flags(q_.versions));
    return words;
  }

  std::vector<std::pair<std::string, std::string>> variables() const {
    std::vector<std::pair<std::string, std::string>> out;
    if (q_.engine == "torchrun" && !is_torch()) out = torchrun_variables(job_);
    if (q_.engine != "accelerate" && !is_torch())
      for (auto& variable : zero_variables(job_, in_folder("deepspeed.json"))) out.push_back(std::move(variable));
    if (job_.strategy.is_one_gpu()) out.emplace_back("CUDA_VISIBLE_DEVICES", first_visible());
    return out;
  }

  /// One GPU: without it, Hugging Face's trainers split the layers over all that they see.
  static std::string first_visible() {
    const auto visible = variable("CUDA_VISIBLE_DEVICES");
    return visible ? split(*visible, ',').front() : "0";
  }

  void add_launchers() {
    const std::size_t machines = std::max<std::size_t>(1, q_.hosts.size());
    for (std::size_t machine = 0; machine < machines; ++machine) {
      EngineCommand command{
          .host = q_.hosts.empty() ? "" : q_.hosts[machine], .words = launcher(machine), .variables = variables()};
      append(command.words, program());
      out_.commands.push_back(std::move(command));
    }
  }

  void add_slurm() {
    EngineCommand command{.host = "", .words = q_.launcher, .variables = {}};
    // a job's file is kept by the controller; sbatch hands its environment on
    for (const std::size_t word : q_.secrets) command.variables.emplace_back(hidden_name(word), q_.script[word]);
    append(command.words, {"--wait", "--parsable", "--chdir=" + q_.folder.string(), in_folder("job.sbatch")});
    out_.commands.push_back(std::move(command));
  }

  const EngineQuestion& q_;
  const PlanMark& mark_;
  const EstimateRequest& request_;
  EstimateRequest written_;  // FSDP1 where the versions here have no FSDP2
  Strategy strategy_;
  ExportJob job_;
  EngineJob out_;
};

bool is_host(std::string_view name) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:@";
  return !name.empty() && name.size() < 256 && name.front() != '-' && name.front() != '@' &&
         name.find_first_not_of(kPlain) == std::string_view::npos;
}

}  // namespace

bool uses_torch_script(const EngineQuestion& question, const std::string& framework) {
  if (!question.script.empty()) return false;
  return question.engine == "slurm" ? framework == "torch"
                                    : question.engine == "torchrun" && !question.has_transformers;
}

std::vector<std::string> engine_names() { return {"accelerate", "torchrun", "deepspeed", "slurm"}; }

EngineJob plan_engine(const EstimateRequest& request, const EngineQuestion& question, const PlanMark& mark) {
  return EnginePlanner(request, question, mark).plan();
}

std::vector<std::string> parse_hosts(const std::string& text, const std::string& where) {
  std::vector<std::string> hosts;
  std::set<std::string> named;
  std::size_t number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    const std::string_view said = trim(std::string_view(line).substr(0, line.find('#')));
    if (said.empty()) continue;
    const std::string host(said.substr(0, said.find_first_of(" \t")));
    const std::string_view rest = trim(said.substr(host.size()));
    const std::string place = fmt::format("{}:{}", where, number);
    if (!is_host(host) || (!rest.empty() && !rest.starts_with("slots=")))
      throw InputError(place, fmt::format("'{}' is no host", said), "node1, or node1 slots=8");
    if (!named.insert(host).second)
      throw InputError(place, fmt::format("{} is named twice", host), "one line per machine");
    hosts.push_back(host);
  }
  if (hosts.empty()) throw InputError(where, "names no host", "one a line, the first one for rank 0");
  return hosts;
}

std::vector<std::string> over_ssh(const EngineCommand& command, const fs::path& folder) {
  std::string line = "cd " + shell_word(folder.string()) + " && exec env";
  for (const auto& [name, value] : command.variables) line += " " + shell_word(name + "=" + value);
  for (const std::string& word : command.words) line += " " + shell_word(word);
  return {"ssh", "-o", "BatchMode=yes", "-tt", command.host, line};
}

}  // namespace gpuplan
