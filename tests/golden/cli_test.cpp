#include "cli/program.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "golden/command_line.h"
#include "models/framework.h"
#include "models/recipe_names.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

struct Ran {
  int code;
  std::string out, err;
};

Ran ran(const std::string& command, const std::string& input = "") {
  std::ostringstream out, err;
  std::istringstream in(input);
  const int code = run(split(command, ' '), out, err, {}, in);
  return {code, out.str(), err.str()};
}

nlohmann::json answer_to(const std::string& command, const std::string& input = "") {
  const Ran result = ran(command + " --json", input);
  INFO(result.err);
  REQUIRE(result.code <= 1);
  return nlohmann::json::parse(result.out);
}

/// The message of the error, "" when there is none.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const InputError& error) { return error.what(); }
  return "";
}

class WorkingFolder {
 public:
  WorkingFolder() : before_(std::filesystem::current_path()) { std::filesystem::current_path(scratch_.path()); }
  ~WorkingFolder() { std::filesystem::current_path(before_); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

 private:
  test::ScratchFolder scratch_;
  std::filesystem::path before_;
};

}  // namespace

TEST_CASE("the kernels of the heading are those that are counted") {
  const auto heading = [](const std::string& question) {
    const std::string out = ran("estimate --as-given --gpus 1xH100 --strategy single --seq-len 512 " + question).out;
    const std::size_t at = out.find("Kernels");
    REQUIRE(at != std::string::npos);
    return out.substr(at, out.find('\n', at) - at);
  };
  const auto starts = [&](const std::string& question, const std::string& kernels) {
    const std::string line = heading(question);
    CHECK_MESSAGE(line.starts_with("Kernels   " + kernels + ", plain loss"), line);
  };
  starts("--model llama3-8b --lora", "sdpa attention");
  starts("--model llama3-8b --lora --attention flash_attention_3", "flash-3 attention");
  starts("--model glm-4-9b --lora --attention flash", "flash attention");
  starts("--model chatglm3-6b --lora --attention flash", "eager attention (no flash in chatglm)");
  starts("--model gpt-oss-20b --lora", "eager attention (no sdpa in gpt_oss)");
  starts("--model gemma-2-2b --lora", "eager attention (no sdpa in gemma2)");
  starts("--model gemma-2-2b --lora --attention flash", "flash attention");
  starts("--model t5-small --full", "eager attention (no sdpa in t5)");
  starts("--model mamba-130m --full", "no attention");
}

TEST_CASE("a bare --lora is rank 8 with alpha 16 on every linear") {
  const LoraSpec lora = parse_lora("").lora;
  CHECK(lora.rank == 8);
  CHECK(lora.alpha == 16);
  CHECK(lora.targets == std::vector<std::string>{"all-linear"});
  CHECK(!lora.adapter_dtype);
  CHECK(parse_lora("").quant.kind == BaseQuant::None);
}

TEST_CASE("a bare number of --lora is the rank, of --qlora too where it cannot be bits") {
  CHECK(parse_lora("16").lora.rank == 16);
  CHECK(parse_lora("16").lora.alpha == 32);
  CHECK(parse_lora("16,alpha=16").lora.alpha == 16);
  CHECK(parse_qlora("64").lora.rank == 64);
  CHECK(parse_qlora("64").quant.kind == BaseQuant::Nf4);
  CHECK(error_of([] { parse_qlora("8"); }).starts_with("--qlora: '8' may be a rank or bits\n  write r=8;"));
}

TEST_CASE("flags of trainers whose meaning is certain are taken") {
  const std::string asked = "estimate --model llama3-8b --lora ";
  const auto same = [&](const std::string& theirs, const std::string& ours) {
    CAPTURE(theirs);
    const auto answer = ran(asked + theirs);
    CHECK(answer.code < 2);
    CHECK(answer.out == ran(asked + ours).out);
  };
  same("--gpus 4xA6000 --zero 3", "--gpus 4xA6000 --strategy zero3");
  same("--gpus 4xA6000 --zero-stage=2", "--gpus 4xA6000 --strategy zero2");
  same("--gpus 4xA6000 --zero_stage 0", "--gpus 4xA6000 --strategy ddp");
  const WorkingFolder folder;
  std::ofstream("ds.json") << R"({"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}})";
  same("--gpus 4xA6000 --deepspeed ds.json", "--gpus 4xA6000 --from ds.json");
  same("--gpus 4xA6000 --deepspeed=ds.json", "--gpus 4xA6000 --from ds.json");
}

TEST_CASE("--num-gpus says how many of --gpus, where the list does not") {
  const auto answer = [](const std::string& gpus) { return ran("estimate --model llama3-8b --lora " + gpus).out; };
  CHECK(answer("--gpus H100 --num-gpus 128") == answer("--gpus 128xH100"));
  CHECK(answer("--gpus 4xA6000 --num-gpus 4") == answer("--gpus 4xA6000"));
  CHECK(ran("topology --gpus 4090 --num-gpus 2").out == ran("topology --gpus 2x4090").out);
}

TEST_CASE("--tokens says how much is trained on: the rows that hold it, in all epochs") {
  const std::string asked = "estimate --model llama3-8b --lora --gpus 8xH100 ";
  const auto rows = [&](const std::string& flags) { return answer_to(asked + flags).at("dataset").at("rows"); };
  CHECK(rows("--tokens 2B") == 976'563);                                     // 2e9 / 2048 = 976562.5
  CHECK(rows("--tokens 2e9 --tokens-per-row 500 --epochs 2") == 2'000'000);  // 2e9 / (500 x 2)
  CHECK(rows("--tokens 1") == 1);
  CHECK(ran(asked + "--tokens 20T --seq-len 128").code == 2);
}

TEST_CASE("alpha follows the rank unless it is given") {
  CHECK(parse_lora("r=64").lora.alpha == 128);
  CHECK(parse_lora("alpha=4,r=64").lora.alpha == 4);
}

TEST_CASE("a LoRA specification has every key") {
  const LoraSpec lora =
      parse_lora("r=16, alpha=8.5 ,dropout=0.05,targets=q_proj+v_proj,dtype=bf16,save=lm_head+embed_tokens,dora").lora;
  CHECK(lora.rank == 16);
  CHECK(lora.alpha == 8.5);
  CHECK(lora.dropout == 0.05);
  CHECK(lora.targets == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(lora.adapter_dtype == Dtype::BF16);
  CHECK(lora.modules_to_save == std::vector<std::string>{"lm_head", "embed_tokens"});
  CHECK(lora.is_dora);
}

TEST_CASE("QLoRA adds the 4-bit base") {
  const AdapterFlag flag = parse_qlora("r=16,block=128,double=no,storage=bf16");
  CHECK(flag.lora.rank == 16);
  CHECK(flag.quant.kind == BaseQuant::Nf4);
  CHECK(flag.quant.block_size == 128);
  CHECK(!flag.quant.double_quant);
  CHECK(flag.quant.storage_dtype == Dtype::BF16);
  CHECK(parse_qlora("").quant.double_quant);
}

TEST_CASE("a slip in a specification names the key and what would be right") {
  CHECK(error_of([] { parse_lora("rnk=8"); }) == "--lora: unknown key 'rnk'\n  did you mean 'rank'?");
  CHECK(error_of([] { parse_lora("r=eight"); }).starts_with("--lora r: 'eight' is not a whole number"));
  CHECK(error_of([] { parse_lora("r=8,r=16"); }).starts_with("--lora r: is given more than once"));
  CHECK(error_of([] { parse_lora("block=64"); }).starts_with("--lora: 'block' is about a 4-bit base"));
  CHECK(error_of([] { parse_lora("dropout=1"); }).starts_with("--lora dropout: 1 is out of range"));
  CHECK(error_of([] { parse_qlora("double=maybe"); }).starts_with("--qlora double: 'maybe' is neither yes nor no"));
  CHECK(error_of([] { parse_lora("targets=q_proj,v_proj"); }).find("q_proj+v_proj") != std::string::npos);
}

TEST_CASE("the texts of adapters, offload, checkpointing and loss are read back as what they say") {
  for (const char* spec :
       {"r=8", "r=16,alpha=8.5,dropout=0.05,targets=q_proj+v_proj,dtype=bf16,base=fp32,save=lm_head,dora"}) {
    const AdapterFlag flag = parse_lora(spec);
    CHECK(adapter_spec(flag.lora, flag.quant) == spec);
  }
  for (const char* spec : {"r=4", "r=4,quant=gptq4", "r=16,block=128,double=no,storage=bf16"}) {
    const AdapterFlag flag = parse_qlora(spec);
    CHECK(adapter_spec(flag.lora, flag.quant) == spec);
  }
  for (const char* list : {"none", "optimizer", "optimizer:nvme,params", "params:nvme,activations"})
    CHECK(offload_list(parse_offload_list(list)) == list);
  Recipe recipe;
  CHECK(checkpointing_text(recipe) == "none");
  recipe.checkpointing = Checkpointing::EveryK;
  recipe.checkpoint_every = 3;
  CHECK(checkpointing_text(recipe) == "every=3");
  CHECK(loss_text(recipe) == "plain");
  recipe.loss = LossKernel::Chunked;
  CHECK(loss_text(recipe) == fmt::format("chunked={}", recipe.loss_chunks));
}

TEST_CASE("offload parts go to the host, or to NVMe where they say so") {
  const Offload offload = parse_offload_list("optimizer:nvme,params,activations");
  CHECK(offload.optimizer == OffloadTarget::Nvme);
  CHECK(offload.params == OffloadTarget::Cpu);
  CHECK(offload.activations);
  CHECK(!parse_offload_list("none").any());
  CHECK(error_of([] { parse_offload_list("optimisr"); }).find("did you mean 'optimizer'") != std::string::npos);
}

TEST_CASE("estimate --json has every field of the contract, and null where a strategy is not applicable") {
  const nlohmann::json answer = answer_to("estimate --model tinyllama-1.1b --lora --gpus A6000");
  CHECK(answer["model"]["parameters"] == 1'100'048'384);
  for (const auto& strategy : answer["strategies"]) {
    CAPTURE(strategy["name"].get<std::string>());
    const bool is_single = strategy["name"] == "single";
    CHECK(strategy["not_applicable"].is_null() == is_single);
    for (const char* key : {"peak_bytes", "peak_instant", "memory_bytes", "tensors_bytes", "reserved_bytes",
                            "process_bytes", "host_bytes", "communication_bytes", "communication", "step_seconds",
                            "tokens_per_second", "epoch_seconds", "cost_usd", "max_micro_batch", "max_seq_len"})
      CHECK_MESSAGE(strategy.at(key).is_null() != is_single, key);
    CHECK(strategy["fits"] == (is_single ? "yes" : "no"));
  }
  CHECK(answer["recommended"]["strategy"] == "single");
  CHECK(!answer["assumptions"].empty());
  CHECK(!answer.contains("explain"));
  CHECK(answer_to("estimate --model tinyllama-1.1b --lora --gpus A6000 --explain").contains("explain"));
}

TEST_CASE("a path that is not UTF-8 is answered in JSON that is") {
  const WorkingFolder folder;
  std::filesystem::create_directory("m\xff");
  std::filesystem::copy_file(std::filesystem::path(GPUPLAN_TEST_DIR) / "fuzz/corpus/config/llama.json",
                             "m\xff/config.json");
  const nlohmann::json answer = answer_to("estimate --model m\xff --gpus A6000 --save plan.json");
  CHECK(answer["model"]["id"] == "m\uFFFD");
  CHECK(ran("estimate plan.json").code == 0);
}

TEST_CASE("the categories of memory_bytes add up to peak_bytes") {
  const nlohmann::json answer = answer_to("estimate --model tinyllama-1.1b --full --gpus 2x4090,2x3090");
  CHECK(answer["strategies"].size() == 9);
  for (const auto& strategy : answer["strategies"]) {
    if (!strategy["not_applicable"].is_null()) continue;
    std::int64_t sum = 0;
    for (const auto& bytes : strategy["memory_bytes"]) sum += bytes.get<std::int64_t>();
    CHECK(sum == strategy["peak_bytes"]);
    CHECK(strategy["peak_bytes"] == strategy["process_bytes"]);
  }
}

TEST_CASE("a saved plan gives the same answer again, from a file and from standard input") {
  const WorkingFolder folder;
  const nlohmann::json first =
      answer_to("estimate --model tinyllama-1.1b --full --gpus 2xA6000 --micro-batch 2 --save plan.json");
  const std::string name = first["recommended"]["strategy"];
  const nlohmann::json again = answer_to("estimate plan.json");
  CHECK(again["recipe"] == first["recipe"]);
  CHECK(again["strategies"].size() == 1);
  for (const auto& strategy : first["strategies"])
    if (strategy["name"] == name) CHECK(strategy == again["strategies"][0]);
  CHECK(answer_to("estimate -", read_file("plan.json"))["strategies"] == again["strategies"]);
  CHECK(answer_to("estimate --model plan.json")["strategies"] == again["strategies"]);
}

TEST_CASE("an architecture beside a stated model names no model") {
  const test::ScratchFolder scratch;
  const auto script = [&](const std::string& model) {
    const std::string text = "swift sft " + model + " --model_type qwen2_5 --tuner_type lora --dataset x\n";
    return "estimate --from " + scratch.write("train.sh", text).string() + " --gpus A6000";
  };
  CHECK(answer_to(script("--model Qwen/Qwen2.5-0.5B")).at("model").at("name") == "qwen2.5-0.5b");
  CHECK(ran(script("")).err.find("may mean") != std::string::npos);
}

TEST_CASE("--data counts the tokens of every row, and gives what --lengths gives for the same rows") {
  const test::ScratchFolder scratch;
  const std::string tokens = (scratch.path() / "tokens.jsonl").string(),
                    lengths = (scratch.path() / "lengths").string();
  std::string rows;
  for (int row = 0; row < 300; ++row) {  // 1, 2, 3 tokens in turn
    rows += R"({"input_ids": [1)";
    for (int more = 0; more < row % 3; ++more) rows += ", 2";
    rows += "]}\n";
  }
  write_file_atomically(tokens, rows);
  write_file_atomically(lengths, "1 100\n2 100\n3 100\n");
  const std::string asked = "estimate --model gpt2 --gpus T4 --seq-len 64 ";
  auto counted = answer_to(asked + "--data " + tokens).at("rows"),
       given = answer_to(asked + "--lengths " + lengths).at("rows");
  CHECK(counted.at("rows") == 300);
  CHECK(counted.at("mean_tokens") == 2);
  counted.erase("source"), given.erase("source");
  CHECK(counted == given);
  CHECK(ran(asked + "--data " + tokens + " --rows 5").err.find("contradict") != std::string::npos);
  CHECK(ran(asked + "--data x.bin").err.find("without rows") != std::string::npos);
}

TEST_CASE("--data counts rows of text that no tokenizer is at hand for, of pairs the prompt with either answer") {
  const test::ScratchFolder scratch;
  const auto file = [&](const char* name, const std::string& text) { return scratch.write(name, text).string(); };
  std::string lines;
  for (int row = 0; row < 10; ++row)
    lines += R"({"prompt": "one two", "chosen": "one two", "rejected": "one two six two"})"
             "\n";
  const std::string pairs = file("pairs.jsonl", lines),
                    asked = "estimate --model qwen2.5-0.5b --gpus A6000 --seq-len 64 ";
  const nlohmann::json dpo = answer_to(asked + "--method dpo --data " + pairs);
  CHECK(dpo.at("rows").at("rows") == 10);
  CHECK(dpo.at("rows").at("longest_tokens") == 6);
  CHECK(dpo.at("dataset").at("tokens_per_row") == 5);  // 4 and 6
  CHECK(answer_to(asked + "--lora --data " + pairs).at("dataset").at("tokens_per_row") == 8);
  const std::string alpaca = file("alpaca.json", R"([{"instruction": "one two", "input": "", "output": "six"}])");
  CHECK(answer_to(asked + "--lora --data " + alpaca).at("rows").at("mean_tokens") == 3);
  CHECK(ran(asked + "--lengths " + pairs).err.find("--data FILE counts rows of text") != std::string::npos);
  CHECK(ran(asked + "--data " + pairs + " --tokenizer " + scratch.path().string()).err.find("has neither") !=
        std::string::npos);
}

TEST_CASE("simulate says why a link of --what-if changes nothing") {
  const auto notes = [](const std::string& line) { return ran("simulate --model llama3-8b --lora " + line).out; };
  CHECK(notes("--gpus 8xH100 --strategy fsdp --what-if nvlink=900").find("it is so already (NVSwitch") !=
        std::string::npos);
  CHECK(notes("--gpus 4xA6000 --strategy ddp --what-if nvlink=900").find("what is sent moves while the GPUs compute") !=
        std::string::npos);
  CHECK(notes("--gpus 4xA6000 --strategy fsdp --what-if nvlink=900").find("changes nothing") == std::string::npos);
}

TEST_CASE("estimate names more GPUs where offload makes a plan far slower than they are") {
  const std::string asked = "estimate --model qwen3-30b-a3b --full --framework megatron-lm ";
  const std::string out = ran(asked + "--gpus 8xH100").out;
  CHECK(out.find("--offload optimizer,params") != std::string::npos);
  CHECK(out.find("Better: --gpus 16xH100") != std::string::npos);
  CHECK(ran(asked + "--gpus 8xH100 --offload optimizer,params").out.find("Better: --gpus") == std::string::npos);
}

TEST_CASE("a bare --qlora keeps the adapters of the plan that it changes") {
  const test::ScratchFolder scratch;
  const std::string plan = (scratch.path() / "plan.json").string();
  REQUIRE(ran("estimate --model tinyllama-1.1b --lora r=32,targets=q_proj --gpus A6000 --save " + plan).code == 0);
  const auto recipe = answer_to("estimate " + plan + " --qlora").at("recipe");
  CHECK(recipe.at("method") == "qlora");
  CHECK(recipe.at("lora").at("rank") == 32);
  CHECK(answer_to("estimate --from " + plan).at("recipe").at("lora").at("rank") == 32);
}

TEST_CASE("flags beside a plan override it and are listed") {
  const WorkingFolder folder;
  answer_to("estimate --model tinyllama-1.1b --full --gpus 2xA6000 --save plan.json");
  const nlohmann::json changed = answer_to("estimate plan.json --seq-len 512 --lora r=4");
  CHECK(changed["recipe"]["seq_len"] == 512);
  CHECK(changed["recipe"]["method"] == "lora");
  CHECK(changed["assumptions"][0] == "plan from plan.json, changed by --lora r=4, --seq-len 512");
}

TEST_CASE("an exported profile is what the name of its file says, and a plan may name it") {
  const WorkingFolder folder;
  CHECK(ran("profiles export default-cpu --output cpu.json").code == 0);
  const auto exported = nlohmann::json::parse(read_file("cpu.json"));
  CHECK(exported["id"] == "default-cpu");
  CHECK(exported["measured_on"].is_null());
  CHECK(exported["values"]["gemm_efficiency"]["unit"] == "share of the sgemm rate");
  CHECK(answer_to("estimate --model tinyllama-1.1b --lora --gpus A6000 --profile default-hopper")["profile"]["id"] ==
        "default-hopper");
  CHECK(ran("profiles export default-hopper --output mine.yaml").code ==
        0);  // a class of a file with many, as one of its own
  CHECK(answer_to("estimate --model tinyllama-1.1b --lora --gpus A6000 --profile mine.yaml")["profile"]["id"] ==
        "default-hopper");
  CHECK(ran("profiles export default-cpu --output nowhere/cpu.json").code == 3);
}

TEST_CASE("--framework takes the defaults of its trainer, says so, and is overridden by flags") {
  const auto recipe_of = [](const std::string& flags) {
    const Ran result =
        ran("estimate --model tinyllama-1.1b --gpus A6000 --as-given --explain " + flags + " --save plan.json");
    INFO(flags, result.err);
    return std::pair(nlohmann::json::parse(read_file("plan.json"))["recipe"], result.out);
  };
  const WorkingFolder folder;
  const auto [trl, text] = recipe_of("--lora --framework trl");
  CHECK(trl["checkpointing"] == "full");
  CHECK(trl["micro_batch"] == 8);
  CHECK(trl["packing"] == "packed");  // rows fill their sequences
  CHECK(text.find("trl's defaults: checkpointing full, bf16-mixed") != std::string::npos);
  const auto [own, own_text] =
      recipe_of("--lora --framework trl --checkpointing none --micro-batch 2 --tokens-per-row 400");
  CHECK(own["checkpointing"] == "none");
  CHECK(own["micro_batch"] == 2);
  CHECK(own["packing"] == "dynamic");
  CHECK(recipe_of("--lora --framework hf-trainer --micro-batch 1").first["precision"] == "fp32");
  CHECK(recipe_of("--qlora --framework hf-trainer --micro-batch 1").first["precision"] == "bf16-mixed");
  CHECK(recipe_of("--lora --framework torchtune").first["loss"] == "chunked");
  CHECK(recipe_of("--qlora --framework unsloth").first["loss"] == "fused");
  CHECK(recipe_of("--qlora --framework unsloth --loss plain").first["loss"] == "plain");

  const auto [unsaid, no_text] = recipe_of("--lora");
  const auto [plain, plain_text] = recipe_of("--lora --framework plain");
  CHECK(unsaid == plain);
  CHECK(plain["micro_batch"] == 1);
  CHECK(plain["checkpointing"] == "none");
  CHECK(plain_text.find("defaults") == std::string::npos);

  const auto [quantised, quantised_text] = recipe_of("--qlora");  // PEFT's k-bit preparation
  CHECK(quantised["checkpointing"] == "full");
  CHECK(quantised_text.find("prepare_model_for_kbit_training") != std::string::npos);
  CHECK(recipe_of("--lora --int8").first["checkpointing"] == "full");
  CHECK(recipe_of("--qlora --checkpointing none").first["checkpointing"] == "none");
  CHECK(recipe_of("--qlora --framework plain").first["checkpointing"] == "none");
  CHECK(recipe_of("--qlora --framework native").first["checkpointing"] == "none");
  for (const FrameworkConvention& framework : list_frameworks())
    CHECK_MESSAGE(!framework.defaults.source.empty(), framework.name);
}

TEST_CASE("Megatron takes cuDNN's attention where all cards are Hopper or later, unless a flag says another") {
  const auto attention = [](const std::string& more) {
    const auto answer = nlohmann::json::parse(
        ran("estimate --model smollm2-135m --framework megatron --precision bf16-mixed --json " + more).out);
    return answer["recipe"]["attention"].get<std::string>();
  };
  CHECK(attention("--gpus H100") == "cudnn");
  CHECK(attention("--gpus GB200") == "cudnn");
  CHECK(attention("--gpus A100") == "sdpa");
  CHECK(attention("--gpus H100 --attention flash") == "flash");
}

TEST_CASE("numbers may have an exponent; rows longer than a sequence are named") {
  const std::string usual = "estimate --model smollm2-135m --gpus A100 --lora ";
  CHECK(ran(usual + "--rows 1e4 --json").out == ran(usual + "--rows 10000 --json").out);
  CHECK(ran(usual + "--rows 1.5e0").code == 2);
  CHECK(ran(usual + "--rows seven").err.find("'seven' is not a whole number") != std::string::npos);
  const auto says = [&](const std::string& more) {
    std::string text = ran(usual + more + " --explain").out;
    std::ranges::replace(text, '\n', ' ');
    return text.find("rows of 9,000 tokens") != std::string::npos;
  };
  CHECK(says("--tokens-per-row 9000"));
  CHECK_FALSE(says("--tokens-per-row 900"));
}

TEST_CASE("days are a unit of time; a mistaken --gpu, machines in --gpus and data in place of a file are understood") {
  const auto under = [](const std::string& time) {
    const std::string line = "estimate --model smollm2-135m --lora --gpus A100 --json --overhead ";
    return nlohmann::json::parse(ran(line + time).out)["strategies"].dump();
  };
  CHECK(under("1d") == under("24h"));
  CHECK(under("2days") == under("48h"));
  CHECK(under("1d") != under("2days"));
  const auto refused = [](const std::string& line) {
    const Ran answer = ran(line);
    CHECK(answer.code == 2);
    return answer.err;
  };
  CHECK(refused("estimate --model smollm2-135m --gpu 2x3090").find("did you mean --gpus 2x3090?") != std::string::npos);
  CHECK(refused("estimate --model smollm2-135m --gpus 8x8xA100").find("are 16xA100") != std::string::npos);
}

TEST_CASE("GPUs may stand among the files of fix and diagnose") {
  const std::string file = fmt::format("{}/golden/inputs/axolotl.yaml", GPUPLAN_TEST_DIR);
  const auto named = test::run_line(fmt::format("fix '{}' --gpus 2x3090", file)),
             plain = test::run_line(fmt::format("fix '{}' 2x3090", file));
  CHECK(named.code == 0);
  CHECK(plain.out == named.out);
  CHECK(test::run_line(fmt::format("fix '{}' 2x3091", file)).err.find("unknown GPU '3091'") != std::string::npos);
}

TEST_CASE("plan finds batches of whole prompts, and answers that are to be written have no log-probs before training") {
  const std::string usual = "--model smollm2-135m --method grpo --rows 2000 --completion-len 256 ";
  for (const char* generations : {"5", "10", "12"})
    CHECK(ran("plan " + usual + "--gpus 6xH100 --generations " + generations).out.find("Train on ") == 0);
  const Ran refused = ran("estimate " + usual + "--gpus 8xH100 --ref precomputed");
  CHECK(refused.code == 2);
  CHECK(refused.err.find("do not exist before training") != std::string::npos);
}

TEST_CASE("a refused degree names the trainers that have it") {
  const std::string answer = ran("estimate --model llama3-8b --full --gpus 8xH100 --tp 4").err;
  CAPTURE(answer);
  CHECK(answer.find("hf-trainer has no tensor parallelism") == answer.rfind("hf-trainer has no tensor parallelism"));
  CHECK(answer.find("leave --tp out, or take a trainer that has it: --framework ") != std::string::npos);
  CHECK(answer.find("torchtitan") != std::string::npos);
}

TEST_CASE("cards without bf16 tensor cores train in fp16 by default, in bf16 when that is said") {
  for (const char* gpu : {"T4", "V100"}) {
    CAPTURE(gpu);
    const std::string question = fmt::format("estimate --model llama-3.2-1b --lora --gpus {}", gpu);
    const auto assumes = [&](const std::string& flags, const std::string& text) {
      return answer_to(question + flags)["assumptions"].dump().find(text) != std::string::npos;
    };
    CHECK(ran(question).out.find("; fp16-mixed, adamw-fused") != std::string::npos);
    CHECK(assumes("", "has no bf16 tensor cores; --precision overrides it"));
    CHECK(ran(question + " --precision bf16-mixed").out.find("; bf16-mixed, adamw-fused") != std::string::npos);
    CHECK(assumes(" --precision bf16-mixed", "warning: NVIDIA " + std::string(gpu)));
    CHECK(ran(question + " --attention flash").code == 2);
  }
  CHECK(ran("estimate --model llama-3.2-1b --lora --gpus A6000").out.find("bf16-mixed") != std::string::npos);
}

TEST_CASE("time and cost of the table are of the same epochs, which the heading says") {
  const std::string question = "estimate --model tinyllama-1.1b --lora --gpus A6000";
  const nlohmann::json one = answer_to(question), three = answer_to(question + " --epochs 3");
  CHECK(three["strategies"][0]["cost_usd"].get<double>() ==
        doctest::Approx(3 * one["strategies"][0]["cost_usd"].get<double>()));
  CHECK(ran(question).out.find("1 epoch") != std::string::npos);
  const std::string text = ran(question + " --epochs 3").out;
  const std::size_t heading = text.find("strategy");
  CHECK(text.substr(heading, text.find('\n', heading) - heading).find("3 epochs") != std::string::npos);
}

TEST_CASE("nothing is saved when nothing fits, and an old file stays as it was") {
  const WorkingFolder folder;
  const std::string old = R"({"gpuplan_version": "0.1.0"})";
  write_file_atomically("plan.json", old);
  const Ran result = ran("estimate --model llama2-70b --full --gpus 3090 --host-memory 64 --save plan.json");
  CHECK(result.code == 1);
  CHECK(result.err.find("was not written") != std::string::npos);
  CHECK(read_file("plan.json") == old);
}

TEST_CASE("every example in the help works") {
  const WorkingFolder folder;
  const std::filesystem::path inputs = std::filesystem::path(GPUPLAN_TEST_DIR) / "golden" / "inputs";
  for (const char* const file : {"axolotl.yaml", "full.yaml", "zero.json", "train.sh"})
    std::filesystem::copy_file(inputs / file, file);
  for (const Command& command : commands())
    for (const std::string& example : split(command.example, '\n')) {
      if (example.find_first_of("<>") != std::string::npos) continue;  // for a shell
      if (std::string_view(command.name) == "calibrate") continue;     // minutes: tests/calibrate/end_to_end.sh runs it
      if (std::string_view(command.name) == "serve") continue;         // until Ctrl-C: tests/serve
      if (std::string_view(command.name) == "run") continue;           // trains: tests/run_program
      CAPTURE(example);
      REQUIRE(example.starts_with("gpuplan "));
      const Ran result = ran(example.substr(8));
      const bool may_say_no = std::string_view(command.name) == "doctor";  // of a machine without GPUs
      CHECK_MESSAGE((result.code == 0 || (may_say_no && result.code == 1)), result.err);
    }
}

TEST_CASE("every window of a step can be drawn, also one in which a stream only waits") {
  for (const char* strategy : {"mp", "fsdp", "zero3", "ddp"})
    for (const char* window : {"--chart-from 0ms --chart-to 5ms", "--chart-from 20ms --chart-to 60ms",
                               "--chart-from 100ms --chart-to 101ms"}) {
      CAPTURE(strategy);
      CAPTURE(window);
      const Ran drawn = ran(fmt::format(
          "simulate --model llama-3.2-1b --lora --gpus 2xA6000 --strategy {} {} --explain", strategy, window));
      CHECK(drawn.code == 0);
      CHECK(drawn.out.find("Where the step goes") != std::string::npos);
    }
}

TEST_CASE("docs/gpuplan.1 is what completion man writes") {
  const std::filesystem::path file = std::filesystem::path(GPUPLAN_TEST_DIR).parent_path() / "docs/gpuplan.1";
  const std::string today = ran("completion man").out;
  if (test::is_updating()) write_file_atomically(file, today);
  CHECK(read_file(file) == today);
}

TEST_CASE("every flag is in the help and in the completion of each shell") {
  CLI::App app;
  declare_commands(app);
  const std::string bash = ran("completion bash").out, zsh = ran("completion zsh").out,
                    fish = ran("completion fish").out;
  for (const Command& command : commands()) {
    const std::string help = ran(std::string(command.name) + " --help").out;
    for (const CLI::Option* option : app.get_subcommand(command.name)->get_options())
      for (const std::string& flag : option->get_lnames()) {
        CAPTURE(flag);
        CHECK(help.find("--" + flag) != std::string::npos);
        CHECK(bash.find("--" + flag) != std::string::npos);
        CHECK(zsh.find("--" + flag) != std::string::npos);
        CHECK(fish.find("-l " + flag) != std::string::npos);
      }
  }
}

TEST_CASE("a failure to write the answer is an error of the world") {
  std::ostringstream out, err;
  out.setstate(std::ios::badbit);
  CHECK(run({"models", "llama"}, out, err) == 3);
}

TEST_CASE("an argument that would steer the terminal is refused, and fields of a plan forge no lines") {
  const WorkingFolder folder;
  for (const char* name : {"a\x1b[31m", "a\nb", "a\xe2\x80\xae", "a\xc2\x9b"})
    for (const char* flag : {"--model", "--lengths", "--from", "--save", "--gpu-spec"}) {
      std::ostringstream out, err;
      CHECK(run({"estimate", "--gpus", "2xA6000", flag, name}, out, err) == 2);
      CHECK(err.str().find("holds a control character") != std::string::npos);
      CHECK(err.str().find(name) == std::string::npos);
    }
  REQUIRE(ran("estimate --model smollm2-135m --gpus 2xA6000 --save plan.json").code == 0);
  std::string plan = read_file("plan.json");
  const std::string own = "\"name\": \"smollm2-135m\"";
  REQUIRE(plan.find(own) != std::string::npos);
  plan.replace(plan.find(own), own.size(), "\"name\": \"x\\nRecommended: mine \\u202e\"");
  write_file_atomically("plan.json", plan);
  const Ran result = ran("estimate plan.json");
  CHECK(result.out.find("\nRecommended: mine") == std::string::npos);
  CHECK((result.out + result.err).find("x\\x0aRecommended: mine \\u202e") != std::string::npos);
}

}  // namespace gpuplan
