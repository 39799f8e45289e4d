// Every flag that the program names in a message, a hint or advice is a flag that it has.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/files.h"
#include "base/names.h"
#include "ecosystem/field_flags.h"
#include "ecosystem/rules.h"
#include "ecosystem/versions.h"
#include "models/framework.h"
#include "planner/changes.h"
#include "planner/strategy.h"
#include "questions/ask.h"
#include "questions/hints.h"
#include "questions/question.h"

namespace fs = std::filesystem;
using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// Flags of other programs that gpuplan writes into their command lines, or translates into its own.
const std::map<std::string, std::vector<std::string>> kOfOthers{
    {"torchrun",
     {"--nnodes", "--node_rank", "--nproc_per_node", "--master_addr", "--master_port", "--standalone", "--redirects",
      "--tee", "--config"}},
    {"accelerate",
     {"--config_file", "--machine_rank", "--main_process_ip", "--main_process_port", "--num_machines",
      "--num_processes"}},
    {"deepspeed", {"--hostfile", "--num_gpus", "--num_nodes", "--no_ssh"}},
    {"uv", {"--active"}},
    {"sbatch and srun",
     {"--job-name", "--nodes", "--ntasks-per-node", "--cpus-per-task", "--signal", "--time", "--partition", "--account",
      "--kill-on-bad-exit", "--parsable", "--wait", "--chdir", "--mpi"}},
    {"hydra", {"--config-path", "--config-name"}},
    {"mpirun", {"--oversubscribe", "--bind-to", "--allow-run-as-root", "--mca"}},
    {"trainers, as cli/arguments.cpp translates them",
     {"--batch-size",
      "--per-device-train-batch-size",
      "--micro-batch-size",
      "--gradient-accumulation-steps",
      "--max-seq-length",
      "--max-length",
      "--context",
      "--sequence-len",
      "--cutoff-len",
      "--context-length",
      "--gradient-checkpointing",
      "--load-in-4bit",
      "--load-in-8bit",
      "--use-peft",
      "--lora-r",
      "--lora-rank",
      "--num-train-epochs",
      "--num-epochs",
      "--optim",
      "--bf16",
      "--fp16",
      "--attn-implementation",
      "--per-device-eval-batch-size",
      "--num-nodes",
      "--zero",
      "--zero-stage",
      "--deepspeed",
      "--dtype",
      "--torch-dtype"}},
    {"data/ecosystem/scripts", {"--random"}},
    {"sky launch", {"--infra", "--secret"}},
    {"OpenRLHF, whose flags have parts behind points", {"--ds"}},
    {"swift rollout", {"--vllm_tensor_parallel_size", "--vllm_data_parallel_size", "--vllm_gpu_memory_utilization"}},
    {"trl vllm-serve", {"--tensor-parallel-size", "--data-parallel-size", "--gpu-memory-utilization"}},
    {"LLM-Adapters' finetune.py", {"--load_8bit"}},
    {"sbatch", {"--ntasks", "--gpus-per-node", "--gpus-per-task", "--gres"}},
    {"docker run", {"--shm-size"}},
    {"pip", {"--no-build-isolation"}}};

bool is_of_others(const std::string& flag) {
  return std::any_of(kOfOthers.begin(), kOfOthers.end(), [&](const auto& program) {
    return std::find(program.second.begin(), program.second.end(), flag) != program.second.end();
  });
}

/// The texts between quotes of a C++ source, each on a line of its own.
std::string literals_of(const std::string& source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source.compare(i, 2, "//") == 0) {
      i = std::min(source.find('\n', i), source.size());
    } else if (source.compare(i, 2, "/*") == 0) {
      i = std::min(source.find("*/", i), source.size());
    } else if (source.compare(i, 2, "R\"") == 0) {
      const std::size_t open = source.find('(', i);
      const std::string close = ")" + source.substr(i + 2, open - i - 2) + "\"";
      const std::size_t end = source.find(close, open);
      out += source.substr(open + 1, end - open - 1) + "\n";
      i = end + close.size() - 1;
    } else if (source[i] == '"' || source[i] == '\'') {
      const bool is_digit_mark = source[i] == '\'' && i > 0 && std::isdigit(static_cast<unsigned char>(source[i - 1]));
      if (is_digit_mark) continue;
      const std::size_t begin = i + 1;
      for (++i; i < source.size() && source[i] != source[begin - 1]; ++i)
        if (source[i] == '\\') ++i;
      if (source[begin - 1] == '"') out += source.substr(begin, i - begin) + "\n";
    }
  }
  return out;
}

const fs::path kRoot = fs::path(GPUPLAN_TEST_DIR).parent_path();

/// The sources of what the program says: not of the device kernels, whose flags are the compiler's.
constexpr std::array kFolders{"base", "models",   "cluster", "planner", "ecosystem", "mend",    "sim",       "search",
                              "rows", "validate", "report",  "cli",     "fit",       "execute", "calibrate", "run"};

}  // namespace

TEST_CASE("flags are found in a text as people read them") {
  CHECK(flags_in("plan with --attention sdpa, or --for trl: not a--b, --, ---- or --Big") ==
        std::vector<std::string>{"--attention", "--for"});
  CHECK(flags_in("unknown flag '--foo' \"--bar\"").empty());  // words of the user
  CHECK(flags_in("scripts/fit_speed.py --ablate\n  --write, and --gpus").size() == 1);
  CHECK(literals_of("f(\"--a\"); // \"--b\"\n/* \"--c\" */ g('\"', \"x\\\"--d\"); 1'000'000; R\"(--e)\"") ==
        "--a\nx\\\"--d\n--e\n");
}

TEST_CASE("every flag in a text of the sources is a flag of a command, or of another program") {
  int num_flags = 0;
  for (const char* folder : kFolders)
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cpp" && extension != ".h") continue;
      const std::string source = read_file(entry.path());
      if (source.find("var(--") != std::string::npos) continue;  // "--accent" is a colour of a style sheet
      CAPTURE(entry.path().string());
      for (const std::string& flag : flags_in(literals_of(source))) {
        ++num_flags;
        CHECK_MESSAGE((flags_of("").count(flag) == 1 || is_of_others(flag)), flag);
      }
    }
  CHECK(num_flags > 500);
}

TEST_CASE("every flag in a table of rules, versions, methods and keys is a flag of a command, or of another program") {
  int num_flags = 0;
  const auto check = [&](std::string_view text) {
    for (const std::string& flag : flags_in(text)) {
      ++num_flags;
      CHECK_MESSAGE((flags_of("").count(flag) == 1 || is_of_others(flag)), flag);
    }
  };
  for (const Rule& rule : ecosystem_rules()) check(std::string(rule.why) + "\n" + std::string(rule.nearest));
  for (const fs::directory_entry& entry : fs::directory_iterator(data_dir() / "ecosystem"))
    if (entry.path().extension() == ".yaml") check(read_file(entry.path()));
  for (const Change& change : changes())
    if (!change.machine && change.wording.empty()) check("--" + std::string(change.name));
  CHECK(num_flags > 50);
}

namespace {

struct Nearest {
  std::string refusal, text;
};

/// Returns what `export` answers for the saved plan: nothing where it writes files.
Nearest nearest_of(const std::string& target) {
  const Answered answer = ask({.command = "export", .flags = {{"", "saved.json"}, {"--for", target}}});
  if (answer.code == 0) return {};
  const std::size_t at = answer.err.find("\n  nearest: ");
  if (answer.code != 1 || at == std::string::npos) return {answer.err, "no nearest line"};
  return {answer.err.substr(0, at), answer.err.substr(at + 12)};
}

/// The question with the flags of "plan with --loss plain, without --fp8"; the question itself where it says no such.
Question followed(Question question, const std::string& nearest) {
  const std::vector<std::string> words = split(nearest.substr(0, nearest.find(" or ")), ' ');
  bool leaves_out = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::string word = words[i];
    const bool ends = word.ends_with(',');
    if (ends) word.pop_back();
    if (word == "without") leaves_out = true;
    if (!word.starts_with("--")) continue;
    if (leaves_out) {
      question = question.without(word);
      continue;
    }
    const bool has_value = !ends && i + 1 < words.size() && !words[i + 1].starts_with("--");
    std::string value = has_value ? words[i + 1] : "";
    if (value.ends_with(',')) value.pop_back();
    for (const char* other : {"--full", "--lora", "--qlora", "--int8"})
      if (word == "--full" || word == "--lora" || word == "--qlora") question = question.without(other);
    question = question.with(word, value);
  }
  return question;
}

/// Follows the nearest line of `target`: it leads to files at once, or names another program.
std::string broken_way(Question question, const std::string& target) {
  std::string refusals;
  for (int steps = 0; steps < 2; ++steps) {
    const Answered planned = ask(question.with("--save", "saved.json"));
    if (planned.code != 0) return fmt::format("the way is refused: {}{}", planned.err, refusals);
    const Nearest nearest = nearest_of(target);
    if (nearest.text.empty()) return "";
    if (std::string flag = unknown_flag(nearest.text, "export", ""); !flag.empty())
      return fmt::format("{} is no flag: {}", flag, nearest.text);
    if (!nearest.text.starts_with("plan with")) return "";
    refusals += "\n" + nearest.refusal + " -> " + nearest.text;
    question = followed(question, nearest.text);
  }
  return "not in one round:" + refusals;
}

}  // namespace

TEST_CASE("every field of a recipe and a strategy that a format cannot say has its flag") {
  for (const char* field : {"method",
                            "lora.rank",
                            "lora.alpha",
                            "lora.dropout",
                            "lora.targets",
                            "lora.adapter_dtype",
                            "lora.base_dtype",
                            "lora.modules_to_save",
                            "lora.is_dora",
                            "quant.kind",
                            "quant.block_size",
                            "quant.double_quant",
                            "quant.storage_dtype",
                            "precision",
                            "optimizer",
                            "optimizer_in_backward",
                            "micro_batch",
                            "seq_len",
                            "packing",
                            "grad_accum",
                            "checkpointing",
                            "checkpoint_every",
                            "attention",
                            "loss",
                            "loss_chunks",
                            "kernels",
                            "torch_compile",
                            "fp8_matmul",
                            "offload.optimizer",
                            "offload.params",
                            "offload.activations",
                            "images.train",
                            "dp_replicate",
                            "dp_shard",
                            "pp",
                            "zero_stage",
                            "reshard_after_forward",
                            "wrap",
                            "fsdp_version"}) {
    CAPTURE(field);
    const FieldFlag* row = find_field_flag(field);
    REQUIRE(row);
    std::size_t num_flags = 0;
    for (const std::int64_t num_copies : {1, 2}) {
      EstimateRequest request;
      request.recipe.method = Method::Qlora;
      request.recipe.quant.kind = BaseQuant::Nf4;
      Strategy made;
      made.mesh = {{Axis::DpReplicate, num_copies}, {Axis::DpShard, 4}};
      const std::vector<std::string> flags = flags_in(row->words(request, made));
      for (const std::string& flag : flags) CHECK(flags_of("estimate").count(flag) == 1);
      num_flags += flags.size();
    }
    CHECK(num_flags > 0);
  }
  CHECK(find_field_flag("loss_chunk") == nullptr);
  CHECK(find_field_flag("lor") == nullptr);
}

TEST_CASE("the nearest lines of export lead to files, or to another program") {
  constexpr std::array kTargets{"transformers", "trl", "axolotl", "llama-factory", "torchtune", "torch"};
  constexpr std::array kAsked{
      "--full --strategy ddp",
      "--full --strategy fsdp --fsdp-version 1",
      "--full --strategy hsdp --fsdp-version 2 --shard-size 2",
      "--full --strategy zero3 --offload optimizer:nvme,params:nvme",
      "--full --strategy mp",
      "--full --strategy ddp --precision bf16-mixed --fp8 --loss chunked=4 --checkpointing every=2",
      "--full --strategy fsdp --no-reshard --wrap size:1000000 --attention cudnn",
      "--full --strategy single --optimizer-in-backward --compile",
      "--full --strategy ddp --packing padded --kernels fused --optimizer muon",
      "--full --strategy ddp --precision bf16-true --loss inplace --attention flash",
      "--lora=r=8,dtype=bf16,base=fp32,dora --strategy ddp",
      "--lora=r=8,targets=q_proj+v_proj,save=embed_tokens --strategy fsdp --checkpointing selective",
      "--lora=r=8,alpha=4.5,dropout=0.1 --int8 --strategy ddp --offload activations --checkpointing full",
      "--qlora=r=4,block=128,double=no --strategy ddp",
      "--qlora=r=4,storage=u8 --strategy single --precision fp16-mixed",
      "--qlora=r=4,quant=gptq4 --strategy ddp --checkpointing elementwise"};
  std::vector<Question> questions;
  for (const char* asked : kAsked)
    for (const std::string target : kTargets) {
      const std::string framework = target == "transformers" ? "hf-trainer" : target;
      const Question q =
          question_of(fmt::format("gpuplan estimate --model llama-3.2-1b --gpus 4xH100 --micro-batch 1 --profile "
                                  "default --as-given {} --framework {}",
                                  asked, framework));
      if (has_strategy(find_framework(framework), q.value_of("--strategy"))) questions.push_back(q);
    }
  const std::vector<std::string> verdicts = check_all(questions, [](const Question& q) {
    const std::string framework = q.value_of("--framework");
    return broken_way(q, framework == "hf-trainer" ? "transformers" : framework);
  });
  for (std::size_t i = 0; i < questions.size(); ++i) {
    CAPTURE(questions[i].line());
    CHECK(verdicts[i] == "");
  }
}

TEST_CASE("a plan of one trainer for every other: following the nearest line once leads to files") {
  constexpr std::array kTargets{"accelerate",     "deepspeed",  "torchrun", "transformers",  "trl",
                                "torch",          "torchtune",  "axolotl",  "llama-factory", "ms-swift",
                                "megatron-swift", "torchtitan", "slurm"};
  constexpr std::array kPlans{"--full --strategy ddp --framework hf-trainer",
                              "--full --strategy fsdp --fsdp-version 1 --compile --framework hf-trainer",
                              "--full --strategy zero3 --kernels fused --framework llama-factory",
                              "--lora --strategy zero1 --precision bf16-true --framework axolotl",
                              "--lora --strategy fsdp --attention sdpa --packing padded --framework trl",
                              "--full --strategy fsdp --framework torchtune",
                              "--lora --strategy ddp --framework ms-swift",
                              "--qlora --strategy ddp --optimizer paged-adamw-8bit --framework hf-trainer"};
  std::vector<Question> questions;
  std::vector<std::string> targets;
  for (const char* plan : kPlans)
    for (const char* target : kTargets) {
      questions.push_back(question_of(fmt::format(
          "gpuplan estimate --model llama-3.2-1b --gpus 4xH100 --micro-batch 1 --profile default --as-given {}",
          plan)));
      questions.back().number = targets.size();
      targets.emplace_back(target);
    }
  const std::vector<std::string> verdicts =
      check_all(questions, [&](const Question& q) { return broken_way(q, targets[std::size_t(q.number)]); });
  for (std::size_t i = 0; i < questions.size(); ++i) {
    CAPTURE(questions[i].line());
    CAPTURE(targets[i]);
    CHECK(verdicts[i] == "");
  }
}
