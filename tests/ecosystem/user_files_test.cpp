// Files as users have them: FSDP by the trainer's own keys, keys of old versions, scripts of their own, notebooks.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "ecosystem/config_texts.h"
#include "ecosystem/trained_parameters.h"
#include "models/adapter_kind.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/optimizers.h"
#include "models/training_method.h"
#include "planner/strategy.h"

namespace gpuplan {

using namespace test;

namespace {

ConfigReading script(const std::string& text, const StackVersions& versions = {}) {
  return read_configs({{"train.sh", text}}, {}, versions);
}
std::string script_error(const std::string& text) {
  try {
    script(text);
  } catch (const InputError& error) { return error.what(); }
  return "";
}
ConfigReading file(const std::string& name, const std::string& text) { return read_configs({{name, text}}, {}); }

StackVersions with(const char* transformers) {
  return parse_stack_versions(std::string("transformers=") + transformers);
}

/// A script of nobody's, as many people start one.
std::string own(const std::string& flags) {
  return "torchrun --nproc_per_node=4 train.py --model_name_or_path Qwen/Qwen3-8B --data_path a.json --bf16 True "
         "--per_device_train_batch_size 2 --num_train_epochs 3 " +
         flags;
}

}  // namespace

TEST_CASE("FSDP by the trainer's own words means FSDP1 up to transformers 5.9, and FSDP2 after it") {
  const std::string words =
      own("--fsdp \"full_shard auto_wrap\" --fsdp_transformer_layer_cls_to_wrap Qwen3DecoderLayer");
  const ConfigReading old = script(words, with("4.57.0")), now = script(words, with("5.15.0"));
  CHECK(old.request.strategy == "fsdp");
  CHECK(old.request.options.fsdp_version == 1);
  CHECK(now.request.options.fsdp_version == 2);
  CHECK(now.setup.fsdp_reshard == "yes");
  CHECK((old.request.options.wrap == WrapPolicy::Layer && now.request.options.wrap == WrapPolicy::Layer));
  // without auto_wrap the old releases gather the whole model at once
  CHECK(script(own("--fsdp full_shard"), with("4.57.0")).request.options.wrap == WrapPolicy::Size);
  CHECK(script(own("--fsdp full_shard"), with("5.15.0")).request.options.wrap == WrapPolicy::Layer);
}

TEST_CASE("FSDP's words: gradients alone, hybrid, and offload to the host") {
  CHECK(script(own("--fsdp \"shard_grad_op auto_wrap\""), with("4.57.0")).request.strategy == "fsdp-grad-op");
  CHECK(script(own("--fsdp \"shard_grad_op auto_wrap\""), with("5.15.0")).setup.fsdp_reshard == "no");
  CHECK(script(own("--fsdp \"hybrid_shard auto_wrap\""), with("4.57.0")).request.strategy == "hsdp");
  CHECK(script(own("--fsdp \"full_shard auto_wrap offload\"")).request.recipe.offload.params == OffloadTarget::Cpu);
  CHECK(contains(script_error(own("--fsdp \"hybrid_shard auto_wrap\"")), "these words are of FSDP1"));
  CHECK(contains(script_error("python train.py --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2 "
                              "--num_train_epochs 3 --fsdp full_shard"),
                 "FSDP works between several processes alone"));
  CHECK(script(own("--fsdp \"\"")).request.strategy == "ddp");
}

TEST_CASE(
    "fsdp_config is a mapping or a file, whose keys may begin with fsdp_; a file that is not there is asked for") {
  const std::string trl = std::string(kTrl) + "fsdp: full_shard auto_wrap\n";
  const ConfigReading r = reading_of({trl + "fsdp_config:\n  fsdp_version: 1\n  activation_checkpointing: true\n"
                                            "gradient_checkpointing: false\n"});
  CHECK(r.request.options.fsdp_version == 1);
  CHECK(r.request.recipe.checkpointing == Checkpointing::Full);
  const std::string flags = own("--fsdp full_shard --fsdp_config conf/fsdp.json");
  CHECK(contains(script_error(flags), "names conf/fsdp.json, which is not there"));
  const ConfigReading given = read_configs(
      {{"train.sh", flags}, {"fsdp.json", R"({"version": 2, "reshard_after_forward": false, "xla": false})"}}, {});
  CHECK(given.request.options.fsdp_version == 2);
  CHECK(given.setup.fsdp_reshard == "no");
}

TEST_CASE("ms-swift's keys of version 2 are read: model_id_or_path, sft_type, batch_size, dtype, targets in capitals") {
  const ConfigReading r = script(
      "NPROC_PER_NODE=8 swift sft --model_id_or_path Qwen/Qwen2-7B-Instruct --sft_type lora --dtype bf16 --batch_size "
      "2 "
      "--lora_rank 16 --lora_dropout_p 0.1 --lora_target_modules ALL --custom_train_dataset_path a.json "
      "--train_dataset_sample -1 --max_length 1024 --deepspeed default-zero2 --use_flash_attn true\n");
  CHECK(r.model == "Qwen/Qwen2-7B-Instruct");
  CHECK(r.request.recipe.micro_batch == 2);
  CHECK(r.request.recipe.lora.rank == 16);
  CHECK(r.request.recipe.lora.dropout == 0.1);
  CHECK(r.request.recipe.lora.targets == std::vector<std::string>{"all-linear"});
  CHECK(r.request.recipe.attention == AttentionKernel::Flash);
  CHECK(r.request.strategy == "zero2");
  CHECK(script("swift sft --model_type qwen2-7b-instruct --sft_type lora\n").setup.model_alias == "qwen2-7b-instruct");
}

TEST_CASE("argparse takes the beginning of a flag where one alone begins so; gpuplan takes it too") {
  CHECK(script("swift sft --model Qwen/Qwen3-8B --train_type lora --max_pixel 602112 --per_device_train_b 3\n")
            .request.recipe.micro_batch == 3);
  CHECK(
      contains(script_error("swift sft --model Qwen/Qwen3-8B --train_type lora --max_pixex 602112\n"), "unknown key"));
}

TEST_CASE("LLaMA-Factory's keys of old versions are read: prompt and answer, pure bf16, modules of freeze tuning") {
  const ConfigReading r = script(
      "deepspeed --include localhost:0,1,2 src/train_bash.py --stage sft --do_train --model_name_or_path "
      "meta-llama/Llama-2-7b-hf "
      "--finetuning_type lora --lora_target q_proj,v_proj --max_source_length 1200 --max_target_length 768 "
      "--per_device_train_batch_size 1 --fp16 --resume_lora_training False --prompt_template llama2\n");
  CHECK(r.request.recipe.seq_len == 1200 + 768);
  CHECK(r.setup.num_processes == 3);
  CHECK(reading_of({"model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: full\nlora_bf16_mode: true\n"})
            .request.recipe.precision == Precision::Bf16True);
}

TEST_CASE("QLoRA's own script: adapters on all linear layers, a 4-bit base, prompt and answer cut each") {
  const ConfigReading r = script(
      "python qlora.py --model_name_or_path huggyllama/llama-7b --lora_modules all --bf16 --bits 4 --source_max_len 16 "
      "--target_max_len 512 --per_device_train_batch_size 1 --dataset oasst1\n");
  CHECK(r.request.recipe.method == Method::Qlora);
  CHECK(r.request.recipe.lora.rank == 64);
  CHECK(r.request.recipe.lora.targets == std::vector<std::string>{"all-linear"});
  CHECK(r.request.recipe.seq_len == 528);
  CHECK(r.request.recipe.checkpointing == Checkpointing::Full);
  CHECK(r.request.recipe.optimizer->name == "paged-adamw");
}

TEST_CASE("alpaca-lora's script: a base in 8 bit, and a batch of all processes") {
  const std::string line =
      "finetune.py --base_model huggyllama/llama-7b --data_path my.json --batch_size 128 --micro_batch_size 8 "
      "--cutoff_len 512 --val_set_size 2000 --lora_target_modules '[q_proj,k_proj,v_proj,o_proj]' --lora_r 16 "
      "--train_on_inputs --group_by_length";
  const ConfigReading r = script("torchrun --nproc_per_node 2 " + line + "\n");
  const Recipe& recipe = r.request.recipe;
  CHECK(recipe.method == Method::Lora);
  CHECK(recipe.quant.kind == BaseQuant::Int8);
  CHECK(recipe.lora.rank == 16);
  CHECK(recipe.lora.targets == std::vector<std::string>{"q_proj", "k_proj", "v_proj", "o_proj"});
  CHECK(recipe.seq_len == 512);
  CHECK(recipe.precision == Precision::Fp16Mixed);
  CHECK(recipe.checkpointing == Checkpointing::Full);
  CHECK(r.step_rows == 128);
  CHECK_THROWS_WITH_AS(script("python " + line + " --adapter_name lora\n"), doctest::Contains("LLM-Adapters"),
                       InputError);
}

TEST_CASE("a script beside the launch that has the name of TRL's, and gets no flags, says itself what it trains") {
  const ConfigFile launch{"run.sh", "accelerate launch --num_processes 2 dpo.py\n"},
      own{"dpo.py",
          "from trl import DPOConfig, DPOTrainer\n"
          "model = AutoModelForCausalLM.from_pretrained(\"Qwen/Qwen2.5-7B-Instruct\", torch_dtype=torch.bfloat16)\n"
          "args = DPOConfig(output_dir=\"out\", per_device_train_batch_size=4, max_length=2048, bf16=True)\n"
          "trainer = DPOTrainer(model=model, args=args, train_dataset=ds)\n"
          "trainer.train()\n"};
  const FindConfig beside = [&](const std::string& named, const std::string&) -> std::optional<ConfigFile> {
    return named == own.name ? std::optional(own) : std::nullopt;
  };
  const ConfigReading r = read_configs({launch}, beside);
  CHECK(r.model == "Qwen/Qwen2.5-7B-Instruct");
  CHECK(r.request.recipe.micro_batch == 4);
  CHECK(r.request.recipe.seq_len == 2048);
  CHECK(r.request.recipe.objective.method->name == "dpo");
  CHECK(r.setup.num_processes == 2);
}

TEST_CASE("one process of a script of one's own may share its layers among GPUs, whosever flags it takes") {
  const std::string line =
      "train.py --base_model Qwen/Qwen2.5-7B --adapter lora --micro_batch_size 4 --lora_r 8 --sequence_len 2048\n";
  const ConfigReading alone = script("python " + line), both = script("torchrun --nproc_per_node 2 " + line);
  CHECK(alone.trainer == both.trainer);
  CHECK(has_strategy(*alone.request.recipe.framework, "mp"));
  CHECK_FALSE(has_strategy(*both.request.recipe.framework, "mp"));
}

TEST_CASE("a script of one's own that has the name of TRL's is read by its flags, which are not refused") {
  const ConfigReading r = script(
      "torchrun --nproc_per_node 8 train/sft.py --block_size=32768 --per_device_train_batch_size=1 "
      "--gradient_accumulation_steps=1 --num_train_epochs=5 --train_file_path=a --model_name=Qwen/Qwen2.5-32B-Instruct "
      "--fsdp=\"full_shard auto_wrap\" --bf16=True\n");
  CHECK(r.request.recipe.micro_batch == 1);
  CHECK(has_note(r, "is no script that gpuplan knows"));
}

TEST_CASE("words of adapters that no table knows end the reading until a flag says what is trained") {
  for (const char* flag : {"--tuner lora", "--quantization 4", "--my_lora_mode 1", "--method qlora", "--galore_dims 4"})
    CHECK_MESSAGE(!script(own(flag)).open_method.empty(), flag);
  for (const char* flag : {"--tuner full", "--quantization none", "--stage pretrain"})
    CHECK_MESSAGE(script(own(flag)).open_method.empty(), flag);
  CHECK(script(own("--use_dora True")).request.recipe.lora.is_dora);
  CHECK(script(own("--use_dora True")).request.recipe.is_adapter());
}

TEST_CASE("Python: defaults of the script's own arguments count, and are named") {
  const std::string calls =
      "model = AutoModelForCausalLM.from_pretrained(args.model)\n"
      "config = LoraConfig(r=args.rank, target_modules=['q_proj'])\n"
      "trainer = Trainer(model=model, args=TrainingArguments(per_device_train_batch_size=args.bs, bf16=True))\n";
  const ConfigReading r = file("train.py",
                               "parser = argparse.ArgumentParser()\n"
                               "parser.add_argument('--model', type=str, default='Qwen/Qwen3-8B')\n"
                               "parser.add_argument('--rank', '-r', type=int, default=64)\n"
                               "parser.add_argument('--bs', default=3, type=int)\nargs = parser.parse_args()\n" +
                                   calls);
  CHECK(r.model == "Qwen/Qwen3-8B");
  CHECK(r.request.recipe.lora.rank == 64);
  CHECK(r.request.recipe.micro_batch == 3);
  CHECK(has_note(r, "default of the script's own argument rank, 64"));
  const ConfigReading fields = file("train.py",
                                    "@dataclass\nclass Own:\n    model: str = 'Qwen/Qwen3-8B'\n"
                                    "    rank: Optional[int] = field(default=16, metadata={'help': 'r'})\n"
                                    "    bs: int = 5\n" +
                                        calls);
  CHECK(fields.request.recipe.lora.rank == 16);
  CHECK(fields.request.recipe.micro_batch == 5);
}

TEST_CASE("Python: variables of the environment, classes and dicts of settings have their values") {
  const std::string calls =
      "model = AutoModelForCausalLM.from_pretrained(NAME)\n"
      "trainer = Trainer(model=model, args=TrainingArguments(per_device_train_batch_size=BATCH, bf16=True))\n";
  const auto batch = [&](const std::string& begin, const std::string& name, const std::string& value) {
    std::string text = calls;
    text.replace(text.find("NAME"), 4, name);
    text.replace(text.find("BATCH"), 5, value);
    const ConfigReading r = file("train.py", begin + text);
    CHECK(r.model == "Qwen/Qwen3-8B");
    return r.request.recipe.micro_batch;
  };
  CHECK(batch("name = os.getenv('M', 'Qwen/Qwen3-8B')\nb = int(os.environ.get(\"B\", 6))\n", "name", "b") == 6);
  CHECK(batch("class Config:\n    name = 'Qwen/Qwen3-8B'\n    batch = 7\nconfig = Config()\n", "config.name",
              "config.batch") == 7);
  CHECK(batch("c = {'name': 'Qwen/Qwen3-8B', 'run': {'batch': 8}}\n", "c['name']", "c['run']['batch']") == 8);
  CHECK(batch("c = dict(name='Qwen/Qwen3-8B')\nc['batch'] = 9\n", "c['name']", "c.get('batch', 1)") == 9);
  CHECK(batch("size = 8\nname = f'Qwen/Qwen3-{size}B'\n", "name", "int('4')") == 4);
  CHECK(has_note(file("train.py",
                      "model = AutoModelForCausalLM.from_pretrained(os.getenv('M', 'Qwen/Qwen3-8B'))\n"
                      "Trainer(model, TrainingArguments(bf16=True))\n"),
                 "script's own variable M of the environment, Qwen/Qwen3-8B"));
}

TEST_CASE("Python: a branch that the defaults do not take is not counted, and is named") {
  const auto bits = [](const std::string& action) {
    return file("train.py",
                "p.add_argument('--qlora', action='" + action +
                    "')\nargs = p.parse_args()\nbnb = None\n"
                    "if args.qlora:\n    bnb = BitsAndBytesConfig(load_in_4bit=True)\nelse:\n    bnb = None\n"
                    "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-8B', quantization_config=bnb)\n"
                    "trainer = SFTTrainer(model, args=SFTConfig(bf16=True), peft_config=LoraConfig(r=32))\n");
  };
  CHECK(bits("store_true").request.recipe.method == Method::Lora);
  CHECK(has_note(bits("store_true"), "train.py:5: BitsAndBytesConfig is not counted"));
}

TEST_CASE("Python: a dict of LLaMA-Factory's or axolotl's settings is read as its file") {
  const std::string settings =
      "stage='sft', do_train=True, model_name_or_path='Qwen/Qwen3-8B', finetuning_type='lora',"
      " lora_target='all', lora_rank=4, cutoff_len=512, per_device_train_batch_size=2, fp16=True";
  for (const std::string& text : {"args = dict(" + settings + ")\njson.dump(args, open('train.json', 'w'), indent=2)\n",
                                  "run_exp(dict(" + settings + "))\n"}) {
    const ConfigReading r = file("train.py", text);
    CHECK(r.model == "Qwen/Qwen3-8B");
    CHECK(r.request.recipe.lora.rank == 4);
    CHECK(r.request.recipe.micro_batch == 2);
  }
  const ConfigReading r = file("run.ipynb", R"x({"cells": [{"cell_type": "code", "source": [
    "args = {'stage': 'sft', 'model_name_or_path': 'Qwen/Qwen3-8B', ", "'finetuning_type': 'lora', 'lora_rank': 4}\n",
    "json.dump(args, f)"]}, {"cell_type": "code", "source": "!llamafactory-cli train train.json"}]})x");
  CHECK(r.request.recipe.lora.rank == 4);
  CHECK(file("train.py", "c = DictDefault(base_model='Qwen/Qwen3-8B', micro_batch_size=3, sequence_len=512)\n")
            .request.recipe.micro_batch == 3);
}

TEST_CASE("options that a script sets from its own words keep what they are set to before") {
  const std::string loop =
      "M=Qwen/Qwen3-8B\nDS=$(pwd)\nL=640\nwhile [[ \"$1\" != \"\" ]]; do\n  case $1 in\n"
      "    -m | --model )\n      shift\n      M=$1\n      ;;\n    -l )\n      shift\n      L=${1}\n"
      "      ;;\n    * )\n      exit 1\n      ;;\n  esac\n  shift\ndone\n";
  const ConfigReading r =
      script(loop + "python train.py --model_name_or_path $M --model_max_length $L --per_device_train_batch_size 2\n");
  CHECK(r.model == "Qwen/Qwen3-8B");
  CHECK(r.request.recipe.seq_len == 640);
  CHECK(script("L=$2\nif [ \"$L\" == \"\" ]; then\n  L=768\nfi\npython train.py --model_name_or_path a/b "
               "--model_max_length $L --per_device_train_batch_size 2\n")
            .request.recipe.seq_len == 768);
  // another value of a branch is not known, as before
  CHECK(contains(script_error("L=640\nif [ -n \"$X\" ]; then\n  L=$Y\nfi\npython train.py --model_name_or_path a/b "
                              "--model_max_length $L --per_device_train_batch_size 2\n"),
                 "depends on"));
}

TEST_CASE("a script of nobody's: keys of other trainers count, and those of other methods end the reading") {
  const ConfigReading r =
      script(own("--lora_rank 64 --trainable q_proj,v_proj --modules_to_save embed_tokens,lm_head "
                 "--block_size 512 --torch_dtype float16 --load_in_kbits 16"));
  CHECK(r.request.recipe.seq_len == 512);
  CHECK(r.request.recipe.lora.rank == 64);
  CHECK(r.request.recipe.lora.targets == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(r.request.recipe.lora.modules_to_save == std::vector<std::string>{"embed_tokens", "lm_head"});
  CHECK(contains(script_error(own("--pre_seq_len 128")), "a method that is not modelled"));
}

TEST_CASE("a job that is handed to sbatch as its input is read") {
  const ConfigReading r = script("sbatch <<EOF\n#!/bin/bash\n#SBATCH --gpus-per-node=4\nsrun bash -c \"" +
                                 own("--gradient_accumulation_steps 5") + "\"\nEOF\n");
  CHECK(r.request.recipe.grad_accum == 5);
}

TEST_CASE("a notebook whose cells write a configuration and start a trainer is read as that command") {
  const ConfigReading r = file(
      "run.ipynb",
      R"({"cells": [{"cell_type": "code", "source": ["%%writefile conf.yaml\n", "model_name_or_path: Qwen/Qwen3-8B\n",
      "stage: sft\n", "finetuning_type: lora\n", "lora_rank: 4\n", "quantization_bit: 4\n"]},
      {"cell_type": "code", "source": "!llamafactory-cli train conf.yaml"}]})");
  CHECK(r.request.recipe.method == Method::Qlora);
  CHECK(r.request.recipe.lora.rank == 4);
}

TEST_CASE("GaLore, APOLLO and Adam-mini are read with their rank; parts of the layers alone are refused") {
  const std::string lf = "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: full\npure_bf16: true\n";
  const ConfigReading r = reading_of({lf + "use_galore: true\ngalore_rank: 64\ngalore_layerwise: true\n"});
  CHECK(r.request.recipe.optimizer->name == "galore-adamw");
  CHECK(r.request.recipe.optimizer_rank == 64);
  CHECK(r.request.recipe.optimizer_in_backward);
  CHECK(reading_of({lf + "use_apollo: true\n"}).request.recipe.optimizer_rank == 16);
  CHECK(reading_of({lf + "use_adam_mini: true\n"}).request.recipe.optimizer->name == "adam-mini");
  const std::string axolotl =
      "base_model: Qwen/Qwen3-8B\nsequence_len: 2048\nbf16: true\noptimizer: galore_adamw_8bit\n";
  CHECK(reading_of({axolotl + "optim_args:\n  rank: 256\n  scale: 0.25\noptim_target_modules: [self_attn, mlp]\n"})
            .request.recipe.optimizer_rank == 256);
  CHECK(contains(error_of({axolotl + "optim_target_modules: [mlp]\n"}), "with mlp alone is not modelled"));
  CHECK(reading_of({"model_name_or_path: Qwen/Qwen3-8B\nblock_size: 512\noptim: apollo_adamw\n"
                    "optim_args: rank=2, scale=4.0\noptim_target_modules: all-linear\n"})
            .request.recipe.optimizer_rank == 2);
}

TEST_CASE("OFT is read: LLaMA-Factory's method and PEFT's adapters") {
  const ConfigReading r =
      reading_of({"model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: oft\noft_block_size: 16\n"});
  CHECK(r.request.recipe.lora.rotation_block == 16);
  CHECK(r.request.recipe.lora.targets == std::vector<std::string>{"all-linear"});
  CHECK(
      reading_of({R"({"peft_type": "OFT", "base_model_name_or_path": "Qwen/Qwen3-8B", "r": 0, "oft_block_size": 64})"})
          .request.recipe.lora.rotation_block == 64);
}

TEST_CASE("other kinds of adapters are read from PEFT's files, ms-swift's and scripts") {
  const auto kind = [](const std::string& name, const std::string& text) {
    const LoraSpec lora = file(name, text).request.recipe.lora;
    return fmt::format("{} {} {} {}", lora.kind->name, lora.rank, lora.rotation_block, lora.factor);
  };
  const auto peft = [&](const std::string& keys) {
    return kind("adapter_config.json", R"({"base_model_name_or_path": "Qwen/Qwen3-8B", )" + keys + "}");
  };
  CHECK(peft(R"("peft_type": "VERA", "r": 64)") == "vera 64 0 0");
  CHECK(peft(R"("peft_type": "ADALORA", "r": 8, "init_r": 24, "target_r": 8)") == "adalora 24 0 0");
  CHECK(peft(R"("peft_type": "LOKR", "r": 16, "decompose_factor": 4)") == "lokr 16 0 4");
  CHECK(peft(R"("peft_type": "IA3", "feedforward_modules": ["down_proj"])") == "ia3 8 0 0");
  CHECK(peft(R"("peft_type": "BOFT", "boft_block_size": 8, "boft_n_butterfly_factor": 2)") == "boft 8 8 2");
  CHECK(peft(R"("peft_type": "BONE", "r": 32, "init_weights": true)") == "miss 32 0 0");
  CHECK(peft(R"("peft_type": "PROMPT_TUNING", "num_virtual_tokens": 50)") == "prompt 50 0 0");
  CHECK_THROWS_WITH_AS(peft(R"("peft_type": "MISS", "r": 32, "init_weights": "bat")"), doctest::Contains("form bat"),
                       InputError);

  const auto swift = [&](const std::string& keys) { return kind("swift.yaml", "model: Qwen/Qwen2.5-7B\n" + keys); };
  CHECK(swift("tuner_type: adalora\nlora_rank: 4\n") == "adalora 12 0 0");
  CHECK(swift("tuner_type: vera\nvera_rank: 128\n") == "vera 128 0 0");
  CHECK(swift("tuner_type: boft\nboft_block_size: 8\n") == "boft 8 8 0");
  CHECK(swift("tuner_type: bone\nlora_rank: 64\n") == "miss 4 0 0");  // it takes reft_rank

  const auto call = [&](const std::string& config) {
    return kind("train.py", "SFTTrainer('m', args=SFTConfig(max_length=8), peft_config=" + config + ")\n");
  };
  CHECK(call("LoHaConfig(r=32, target_modules=['q_proj'])") == "loha 32 0 0");
  CHECK(call("PromptEncoderConfig(num_virtual_tokens=30, encoder_hidden_size=512)") == "p-tuning 30 0 512");
}

TEST_CASE("layers that change from step to step are counted where the first ones are trained") {
  const auto settled = [](const std::string& name, const std::string& text) {
    const ConfigReading reading = file(name, text);
    EstimateRequest request = reading.request;
    request.model = load_model("llama-2-7b").spec;
    std::vector<std::string> notes;
    settle_trained(reading, request, notes);
    return request.recipe;
  };
  const Recipe swift = settled("swift.yaml", "model: m\ntuner_type: full\nlisa_activated_layers: 2\n");
  CHECK(fmt::format("{}", fmt::join(swift.trained, " ")) == "model.embed_tokens model.layers.0-1 model.norm lm_head");
  CHECK_FALSE(swift.trained_in_turn);
  CHECK(swift.precision == Precision::Bf16Loaded);  // it trains in the dtype of the checkpoint
  const Recipe axolotl = settled("a.yaml",
                                 "base_model: m\nsequence_len: 8\nmicro_batch_size: 1\nlisa_n_layers: 4\n"
                                 "lisa_step_interval: 20\nbf16: true\n");
  CHECK(axolotl.trained_in_turn);
  const Recipe badam = settled("b.yaml", "model_name_or_path: m\nstage: sft\nfinetuning_type: full\nuse_badam: true\n");
  CHECK(badam.trained == std::vector<std::string>{"model.layers.0"});
  CHECK(badam.optimizer->name == "badam");
  CHECK(badam.precision == Precision::Bf16True);
}

TEST_CASE("a base that HQQ quantises while it loads is read") {
  const Recipe recipe =
      file("swift.yaml", "model: Qwen/Qwen2.5-7B\ntuner_type: lora\nquant_method: hqq\nquant_bits: 4\n").request.recipe;
  CHECK(recipe.quant.kind == BaseQuant::Hqq);
  CHECK_THROWS_WITH_AS(
      file("swift.yaml", "model: Qwen/Qwen2.5-7B\ntuner_type: lora\nquant_method: hqq\nquant_bits: 8\n"),
      doctest::Contains("quantised by hqq in 8 bits"), InputError);
}

TEST_CASE("a key that methods share belongs to the method that a flag says") {
  const std::vector<ConfigFile> files{{"dpo.yaml", "max_length: 512\nbeta: 0.1\nmodel_name_or_path: m\n"}};
  CHECK_THROWS_WITH_AS(read_configs(files, {}), doctest::Contains("beta: belongs to"), InputError);
  CHECK_NOTHROW(read_configs(files, {}, {}, "dpo"));
  CHECK_THROWS_WITH_AS(read_configs(files, {}, {}, "sft"), doctest::Contains("beta: belongs to"), InputError);
}

namespace {

/// A script that starts a file's training, and the file.
ConfigReading started(const std::string& command, const std::string& file) {
  return read_configs({{"train.sh", command + " --config sft.yaml\n"}, {"sft.yaml", file}}, {});
}

}  // namespace

TEST_CASE("a TRL file of a script of one's own may have further keys, which one warning names") {
  const std::string file = std::string(kTrl) + "prompt_method: cot\ndata_curriculum: random\n";
  const ConfigReading r = reading_of({file});
  REQUIRE(r.mistyped.size() == 1);
  CHECK(contains(r.mistyped[0], "of a script of one's own, and not counted: data_curriculum, prompt_method"));
  CHECK(r.request.recipe.seq_len == 2048);
  // rewards have names of their own where answers are trained on
  const std::string grpo = "model_name_or_path: m\nnum_generations: 8\nmax_completion_length: 512\n";
  CHECK(contains(read_configs({{"a.yaml", grpo + "reward_func_names: [f1]\n"}}, {}, {}, "grpo").mistyped.at(0),
                 "not counted: reward_func_names"));
  CHECK(contains(error_of({std::string(kTrl) + "reward_func_names: [f1]\n"}), "names a second model"));
  // a slip of a key that counts is none of one's own
  CHECK(contains(error_of({std::string(kTrl) + "gradient_acumulation_step: 8\n"}),
                 "did you mean 'gradient_accumulation_steps'?"));
  CHECK(contains(error_of({std::string(kTrl) + "loadin4bit: true\n"}), "did you mean 'load_in_4bit'?"));
  // the program itself stops
  CHECK(contains(started("accelerate launch --num_processes 2 src/mine/sft.py", file).mistyped.at(0),
                 "not counted: data_"));
  CHECK_THROWS_WITH_AS(started("trl sft", file), doctest::Contains("TRL configuration stops at it"), InputError);
}

TEST_CASE("a key of one's own that speaks of adapters leaves open what is trained, but where the file says it") {
  const std::string file = std::string(kTrl) + "tuner: lora\n";
  CHECK(reading_of({file}).open_method == "tuner");
  CHECK(reading_of({file + "use_peft: false\n"}).open_method.empty());
}

TEST_CASE(
    "an attention that transformers does not know counts as none that is said, where a script of one's own reads") {
  const std::string file = std::string(kTrl) + "attn_implementation: flash-attention-3\n";
  const ConfigReading r = reading_of({file});
  REQUIRE(r.mistyped.size() == 1);
  CHECK(contains(r.mistyped[0], "transformers has no such attention"));
  CHECK(r.request.recipe.attention == reading_of({kTrl}).request.recipe.attention);
  CHECK(contains(started("accelerate launch --num_processes 2 mine.py", file).mistyped.at(0), "no such attention"));
  CHECK_THROWS_WITH_AS(started("trl sft", file), doctest::Contains("is not modelled"), InputError);
}

TEST_CASE("a checkpoint is resumed by its path") {
  for (const char* text : {"stage: sft\nfinetuning_type: full\nmodel_name_or_path: m\n", kTrl,
                           "base_model: m\nmicro_batch_size: 1\n", "model: m\ntuner_type: full\n"}) {
    CAPTURE(text);
    CHECK(reading_of({std::string(text) + "resume_from_checkpoint: saves/checkpoint-1500\n"}).setup.resumes == true);
    CHECK(reading_of({std::string(text) + "resume_from_checkpoint: false\n"}).setup.resumes == false);
  }
}

TEST_CASE("axolotl's bf16: auto gives way to fp16, and fp16 to bf16: true") {
  const std::string file = "base_model: m\nmicro_batch_size: 1\nfp16: true\nbf16: ";
  CHECK(reading_of({file + "auto\n"}).request.recipe.precision == Precision::Fp16Mixed);
  CHECK(reading_of({file + "false\n"}).request.recipe.precision == Precision::Fp16Mixed);
  CHECK(reading_of({file + "true\n"}).request.recipe.precision ==
        reading_of({"base_model: m\nbf16: true\n"}).request.recipe.precision);
  CHECK(contains(error_of({std::string(kTrl) + "bf16: true\nfp16: true\n"}), "[E05]"));
}

TEST_CASE("torchtune's data may be a list, and its length and packing stand there") {
  const std::string file =
      "model: {_component_: torchtune.models.llama3.llama3_8b}\ndataset:\n"
      "- {_component_: torchtune.datasets.instruct_dataset, source: a, packed: true, max_seq_len: 4096}\n";
  const ConfigReading r =
      reading_of({file + "- {_component_: torchtune.datasets.chat_dataset, source: b, packed: true}\n"});
  CHECK(r.mistyped.empty());
  CHECK(r.request.recipe.packing == Packing::Packed);
  CHECK(r.request.recipe.seq_len == 4096);
  CHECK(contains(error_of({file + "- {source: b, packed: false}\n"}), "says otherwise"));
  const ConfigReading one = reading_of(
      {"model: {_component_: torchtune.models.llama3.llama3_8b}\ndataset: {packed: false, max_seq_len: 4096}\n"
       "optimizer: {_component_: torch.optim.AdamW, foreach: false}\n"});
  CHECK(one.mistyped.empty());
  CHECK(one.request.recipe.packing == Packing::Dynamic);
  CHECK(one.request.recipe.seq_len == 4096);
}

TEST_CASE("verl's fine-tuning ends at its steps, and keeps weights and states in model_dtype") {
  const std::string file = "model: {partial_pretrain: m}\ntrainer: {total_training_steps: 60, total_epochs: 10}\n";
  CHECK(reading_of({file}).setup.max_steps == 60);
  CHECK(reading_of({file}).request.recipe.precision == Precision::Bf16Mixed);
  const std::string bf16 =
      "model: {partial_pretrain: m, fsdp_config: {model_dtype: bf16}}\ntrainer: {total_epochs: 1}\n";
  CHECK(reading_of({bf16}).request.recipe.precision == Precision::Bf16True);
}

TEST_CASE("Megatron-SWIFT's keys of version 3 are read") {
  const ConfigReading r = script(
      "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --train_type lora --max_epochs 3 --max_length 4096 --save o "
      "--num_workers 4 --no_initialization false --attention_backend flash --global_batch_size 128\n");
  CHECK(r.request.dataset.epochs == 3);
  CHECK(r.request.recipe.method == Method::Lora);
  CHECK(
      contains(script_error("NPROC_PER_NODE=8 megatron sft --model a --transformer_impl local\n"), "are not modelled"));
}

TEST_CASE("1 and 0 are true and false on a command line too") {
  const std::string text = "accelerate launch grpo.py --model_name_or_path Qwen/Qwen3-4B --num_generations 8 ";
  CHECK(script(text + "--use_vllm 1 --vllm_mode colocate\n").setup.engine == "vllm");
  CHECK(script(text + "--use_vllm 0\n").setup.engine == "hf");
}

TEST_CASE("OpenRLHF's programs stop at flags that they do not know, and pack rows where they are asked to") {
  const std::string text = "deepspeed --module openrlhf.cli.train_dpo --pretrain Qwen/Qwen2.5-0.5B --max_len 1024 ";
  CHECK(contains(script_error(text + "--deepspeed_config a.json\n"), "deepspeed_config: unknown key"));
  CHECK(contains(script_error(text + "--model_name_or_path a\n"), "OpenRLHF command line stops at it"));
  CHECK(script(text + "--packing_samples\n").request.recipe.packing == Packing::Packed);
  CHECK(script(text).request.recipe.packing == Packing::Dynamic);
  CHECK(script(text + "--max_epochs 3\n").request.dataset.epochs == 3);
}

TEST_CASE("rows are packed where a script joins them, and not where transformers' collators pad them") {
  CHECK(script(own("--model_max_length 512")).request.recipe.packing == Packing::Dynamic);
  CHECK(script(own("--block_size 512")).request.recipe.packing == Packing::Packed);
  CHECK(script("python run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 2 --output_dir o\n")
            .request.recipe.packing == Packing::Packed);
}

}  // namespace gpuplan
