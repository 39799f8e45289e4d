// Programs of the user's own: which settings their command and their source give, and which nobody knows.
#include <map>

#include <doctest/doctest.h>

#include "base/error.h"
#include "ecosystem/config_texts.h"
#include "models/training_method.h"

namespace gpuplan {
namespace {

using test::contains;
using test::has_note;
using Sources = std::map<std::string, std::string>;

/// The first file as it is given; the others lie where their names say.
ConfigReading reading_with(const ConfigFile& given, const Sources& sources, std::int64_t num_gpus = 0) {
  const FindConfig find = [&](const std::string& named, const std::string&) -> std::optional<ConfigFile> {
    const auto found = sources.find(named);
    return found == sources.end() ? std::nullopt : std::optional(ConfigFile{found->first, found->second});
  };
  return read_configs({given}, find, {}, {}, {}, Broken::Refused, {.num_gpus = num_gpus, .facts = {}});
}

std::string error_with(const ConfigFile& given, const Sources& sources = {}) {
  try {
    reading_with(given, sources);
  } catch (const InputError& error) { return error.what(); }
  return "";
}

const std::string kLoads =
    "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-8B', torch_dtype=torch.bfloat16)\n";
const std::string kTrains =
    "args = TrainingArguments(per_device_train_batch_size=BATCH, gradient_accumulation_steps=4, bf16=True)\n"
    "Trainer(model=model, args=args).train()\n";

}  // namespace

TEST_CASE("a module that a command starts is the user's own where its source lies there, and no trainer's") {
  const std::string own =
      "parser.add_argument('--batch_size', type=int, default=2)\nparser.add_argument('--lora_rank', default=64)\n" +
      kLoads +
      "config = SFTConfig(per_device_train_batch_size=args.batch_size, max_length=8192)\n"
      "SFTTrainer(model=model, args=config, peft_config=LoraConfig(r=args.lora_rank)).train()\n";
  for (const char* place : {"training/trl/sft.py", "src/training/trl/sft.py", "training/trl/sft/__main__.py"}) {
    CAPTURE(place);
    const ConfigReading r = reading_with({"run.sh",
                                          "cmd=(python -m training.trl.sft --batch_size 3 --max_steps 9)\n"
                                          "exec torchrun --nproc_per_node 2 \"${cmd[@]:1}\"\n"},
                                         {{place, own}});
    CHECK(r.request.recipe.micro_batch == 3);
    CHECK(r.request.recipe.lora.rank == 64);
    CHECK(r.request.recipe.seq_len == 8192);
    CHECK(r.setup.num_processes == 2);
  }
  CHECK(contains(error_with({"run.sh", "accelerate launch -m own.train\n"}), "give it too: --from own.train"));
}

TEST_CASE("a script whose parser fills a library's class takes its flags, and its own calls beside them") {
  const std::string flags =
      "--per_device_train_batch_size 2 --num_generations 4 --max_prompt_length 9216 "
      "--max_completion_length 1024 --freeze_merger True --name Qwen/Qwen3-8B\n";
  const std::string loads =
      "model = AutoModelForCausalLM.from_pretrained(own.name, torch_dtype=own.dtype)\nGRPOTrainer(model=model)\n";
  const std::string direct = "parser = HfArgumentParser((OwnArguments, GRPOConfig))\n" + loads;
  const std::string derived =
      "from trl import GRPOConfig as Base\nclass Own(Base):\n    x: int = 1\n"
      "parser = HfArgumentParser((Data, Own))\n" +
      loads;
  const std::string imported =
      "from params import Data, Own\nparser = TrlParser(dataclass_types=[Data, Own])\n" + loads;
  for (const std::string& source : {direct, derived, imported}) {
    CAPTURE(source);
    const ConfigReading r =
        reading_with({"run.sh", "deepspeed src/fit.py " + flags},
                     {{"src/fit.py", source},
                      {"params.py", "import trl\nclass Data:\n    pass\nclass Own(trl.GRPOConfig):\n    pass\n"}});
    CHECK(r.request.recipe.objective.method->name == "grpo");
    CHECK(r.setup.prompt_len == 9216);
    CHECK(r.setup.completion_len == 1024);
    CHECK(r.request.recipe.micro_batch == 2);
    CHECK(r.model == "Qwen/Qwen3-8B");
    CHECK(r.mistyped.empty());
  }
}

TEST_CASE("a script with such a parser is read with the file that its command names, or that is given beside it") {
  const std::string source =
      "parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))\n"
      "model = AutoModelForCausalLM.from_pretrained(model_args.model_name_or_path)\n"
      "SFTTrainer(model=model, peft_config=get_peft_config(model_args))\n";
  const std::string yaml =
      "model_name_or_path: Qwen/Qwen3-8B\nuse_peft: true\nlora_r: 24\nmax_length: 4096\n"
      "per_device_train_batch_size: 3\nown_field: 7\n";
  for (const char* start : {"python", "uv run python", "CUDA_VISIBLE_DEVICES=0 python", "accelerate launch"}) {
    CAPTURE(start);
    const ConfigReading r = reading_with({"run.sh", std::string(start) + " run.py --config conf/a.yaml --lora_r 16\n"},
                                         {{"run.py", source}, {"conf/a.yaml", yaml}});
    CHECK(r.request.recipe.lora.rank == 16);
    CHECK(r.request.recipe.seq_len == 4096);
    CHECK(r.request.recipe.micro_batch == 3);
  }
  const ConfigReading beside = read_configs({{"run.py", source}, {"a.yaml", yaml}}, {});
  CHECK(beside.request.recipe.lora.rank == 24);
  CHECK(contains(error_with({"run.py", source}), "has a parser of SFTConfig: its settings come from its command line"));
}

TEST_CASE("a flag of an unknown program that looks like batch or length and is not counted is refused") {
  const std::string start =
      "torchrun --nproc_per_node 8 finetune.py --per_device_train_batch_size 16 --num_train_epochs 1 ";
  CHECK(contains(error_with({"run.sh", start + "--micro_train_batch_size 1 --label_batch_size 3\n"}),
                 "finetune.py is no program that gpuplan knows, and what --micro_train_batch_size says is not known"));
  CHECK(error_with({"run.sh", start + "--eval_batch_size 1 --warmup_length 4 --data_file a.json\n"}).empty());
}

TEST_CASE("names that a script imports from modules beside it have their values") {
  const Sources sources{
      {"conf/values.py",
       "from pathlib import Path\nROOT = Path(__file__).resolve().parent.parent\nBATCH = 6\n"
       "FILE = ROOT / 'conf' / 'own.yaml'\nclass Settings:\n    length: int = 1024\nSETTINGS = Settings()\n"},
      {"conf/own.yaml", "lora: {r: 24}\n"}};
  const std::string imports = "from conf.values import (BATCH, FILE, SETTINGS as S)\n";
  const std::string loads = "def load():\n    with open(FILE) as f:\n        return yaml.safe_load(f)\n";
  const std::string own = "lora = load().get('lora', {})\ncfg = load()\n" + kLoads +
                          "model = get_peft_model(model, LoraConfig(r=int(cfg['lora'].get('r', 8))))\n"
                          "tokenizer(x, max_length=S.length)\n" +
                          kTrains;
  const ConfigReading r = reading_with({"train.py", imports + loads + own}, sources);
  CHECK(r.request.recipe.micro_batch == 6);
  CHECK(r.request.recipe.lora.rank == 24);
  CHECK(r.request.recipe.seq_len == 1024);
}

TEST_CASE("a copy of a dict gives up a key, and a key that only a run shows has no default") {
  const std::string dict =
      "LORA = {'r': 24, 'target_modules': ['q_proj']}\nlora = dict(LORA)\n"
      "targets = lora.pop('target_modules')\nBATCH = 3\n" +
      kLoads + "model = get_peft_model(model, LoraConfig(target_modules=targets, **lora))\n" + kTrains;
  const ConfigReading r = read_configs({{"train.py", dict}}, {});
  CHECK(r.request.recipe.lora.rank == 24);
  CHECK(r.request.recipe.lora.targets == std::vector<std::string>{"q_proj"});
  const std::string schedule =
      "SIZES = {4096: 2, 8192: 1}\ndef train(phase):\n    BATCH = SIZES.get(phase['length'], 32)\n";
  CHECK(
      contains(error_with({"train.py", schedule + kLoads + kTrains + "for phase in PHASES:\n    train(phase=phase)\n"}),
               "depends on"));
}

TEST_CASE("the number of GPUs that a script counts is the one that is asked about") {
  const std::string script = "BATCH = 2\n" + kLoads +
                             "args = TrainingArguments(per_device_train_batch_size=2, bf16=True, "
                             "gradient_accumulation_steps=int(32 / (2 * torch.cuda.device_count())))\n"
                             "Trainer(model=model, args=args).train()\n";
  CHECK(reading_with({"train.py", script}, {}, 4).setup.grad_accum == 4);
  CHECK(contains(error_with({"train.py", script}), "gradient_accumulation_steps: depends on"));
}

TEST_CASE("a value that a file leaves open may be said by a flag") {
  const ConfigFile script{"run.sh",
                          "trl sft --model_name_or_path m --per_device_train_batch_size $6 --use_peft true\n"};
  CHECK(contains(error_with(script), "per_device_train_batch_size: depends on $6,"));
  const ConfigReading r =
      read_configs({script}, {}, {}, {}, {}, Broken::Refused, {.num_gpus = 0, .facts = {"micro_batch"}});
  CHECK(has_note(r, "per_device_train_batch_size depends on $6,"));
}

TEST_CASE("one process that puts the whole model on one GPU uses no other") {
  const std::string map =
      "rank = int(os.getenv('LOCAL_RANK', 0))\nBATCH = 2\n"
      "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-8B', device_map={'': f'cuda:{rank}'})\n";
  const Sources sources{{"train.py", map + kTrains}};
  const auto refusal = [&](const char* start, std::int64_t num_gpus) -> std::string {
    try {
      reading_with({"run.sh", std::string(start) + " train.py\n"}, sources, num_gpus);
    } catch (const InputError& error) { return error.what(); }
    return "";
  };
  CHECK(contains(refusal("python", 4), "puts the whole model on one GPU of its one process, and 4 are asked about"));
  CHECK(refusal("python", 1).empty());
  CHECK(refusal("torchrun --nproc_per_node 4", 4).empty());
}

TEST_CASE("a function that checks a path and gives it back leaves it as it is") {
  const std::string script =
      "def checked(path):\n    if not os.path.exists(path):\n        print(path)\n    return path\n"
      "BATCH = 2\nmodel = AutoModelForCausalLM.from_pretrained(checked('Qwen/Qwen3-8B'))\n" +
      kTrains;
  CHECK(read_configs({{"train.py", script}}, {}).model == "Qwen/Qwen3-8B");
}

TEST_CASE("a parameter that the class of settings does not have stops Python") {
  const std::string args = "GRPOConfig(batch_size=4, max_completion_length=64)";
  const std::string trains = "GRPOTrainer(model=model, args=" + args + ")\n";
  CHECK(contains(error_with({"train.py", kLoads + trains}),
                 "GRPOConfig has no parameter batch_size: Python stops there"));
}

TEST_CASE("small functions that ask the environment have what the command exports, else the default") {
  const std::string source =
      "def env_str(name, default):\n    return os.getenv(name, default)\n"
      "def env_int(name, default):\n    return int(os.getenv(name, str(default)))\n"
      "def env_bool(name, default):\n    v = os.getenv(name, str(default))\n    if v in ('1', 'yes'): return True\n"
      "    return False\n" +
      kLoads +
      "lora = LoraConfig(r=8, target_modules=env_str('TARGETS', 'q_proj,v_proj').split(','))\n"
      "args = SFTConfig(per_device_train_batch_size=env_int('BATCH', 2), bf16=bool(env_int('HALF', 1)), "
      "max_length=int(os.environ.get('LEN', 512)), "
      "gradient_checkpointing=env_bool('CKPT', 1))\nSFTTrainer(model=model, args=args, peft_config=lora)\n";
  const ConfigReading alone = read_configs({{"train.py", source}}, {});
  CHECK(alone.request.recipe.micro_batch == 2);
  CHECK(alone.request.recipe.lora.targets == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(alone.request.recipe.checkpointing == Checkpointing::Full);
  const ConfigReading r =
      reading_with({"run.sh", "export BATCH=${BATCH:-5}\nLEN=4096 CKPT=0 python train.py\n"}, {{"train.py", source}});
  CHECK(r.request.recipe.micro_batch == 5);
  CHECK(r.request.recipe.seq_len == 4096);
  CHECK(r.request.recipe.checkpointing == Checkpointing::None);
}

TEST_CASE("words of a script's own command line leave the defaults that stand behind them, or above") {
  const std::string loop =
      "while (( \"$#\" )); do\n  case \"$1\" in\n    --bsz)\n      bsz=\"$2\"\n      shift 2\n      ;;\n"
      "    --epoch)\n      epoch=$2\n      shift 2\n      ;;\n  esac\ndone\n";
  const std::string start =
      "llamafactory-cli train --model_name_or_path m --stage sft --finetuning_type full "
      "--dataset a --per_device_train_batch_size ${bsz} --num_train_epochs ${epoch}\n";
  const ConfigReading r = read_configs({{"run.sh", loop + "bsz=${bsz:-1}\nepoch=${epoch:-1.5}\n" + start}}, {});
  CHECK(r.request.recipe.micro_batch == 1);
  CHECK(r.setup.epochs == 1.5);
  CHECK(read_configs({{"run.sh", "bsz=4\nepoch=1\n" + loop + start}}, {}).request.recipe.micro_batch == 4);
  CHECK(contains(error_with({"run.sh", loop + start}), "depends on $bsz,"));
}

TEST_CASE("what a command behind eval depends on is named as the script names it, with the line of the command") {
  const std::string text =
      "GPUS=$NODE_NUM\nACC=$((64 / GPUS / 2))\nCMD=\"deepspeed train.py --max_length 64 "
      "--per_device_train_batch_size 2 --num_train_epochs 1 --gradient_accumulation_steps ${ACC}\"\n"
      "echo\neval $CMD\n";
  CHECK(contains(error_with({"run.sh", text}), "run.sh:5: gradient_accumulation_steps: depends on $NODE_NUM,"));
  const std::string length =
      "LEN=3072\nif [ \"$1\" = long ]; then\n  LEN=16384\nfi\ndeepspeed train.py "
      "--per_device_train_batch_size 2 --num_train_epochs 1 --max_len ${LEN}\n";
  CHECK(contains(error_with({"run.sh", length}), "max_len: depends on $LEN,"));
}

}  // namespace gpuplan
