// Scripts whose settings stand in a file or a table of their own.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ecosystem/config_reader.h"

namespace gpuplan {
namespace {

using Files = std::vector<ConfigFile>;

std::string error_of(const Files& files) {
  try {
    read_configs(files, {});
  } catch (const InputError& error) { return error.what(); }
  return "";
}

const std::string kTrainer = R"(
    model = AutoModelForCausalLM.from_pretrained(config["model"]["name"])
    args = TrainingArguments(per_device_train_batch_size=config["train"].get("batch", 2),
                             gradient_accumulation_steps=config.get("accumulate", 4), bf16=True)
    Trainer(model=model, args=args).train()
)";

const ConfigFile kSettings{"my.yaml", "model:\n  name: Qwen/Qwen3-8B\ntrain:\n  batch: 6\n"};

void check_settings(const ConfigReading& r) {
  CHECK(r.model == "Qwen/Qwen3-8B");
  CHECK(r.request.recipe.micro_batch == 6);
  CHECK(r.setup.grad_accum == 4);
}

}  // namespace

TEST_CASE("a script's own file of settings is read: by the default of its option, and by the command") {
  const std::string parser = "parser.add_argument('--config', default='my.yaml')\n";
  const std::string load = "def main(args):\n    with open(args.config) as f:\n        config = yaml.safe_load(f)\n";
  check_settings(read_configs({{"train.py", parser + load + kTrainer}, kSettings}, {}));

  const std::string function = "def read(path):\n    return json.loads(Path(path).read())\n";
  const std::string position = "def main():\n    config = read(sys.argv[1])\n";
  const ConfigFile command{"a.sh", "accelerate launch --num_processes 2 train.py my.yaml\n"};
  check_settings(read_configs({command, {"train.py", function + position + kTrainer}, kSettings}, {}));
}

TEST_CASE("a file of settings that is not there is named") {
  const std::string text = "def main():\n    config = yaml.safe_load(open('my.yaml'))\n" + kTrainer;
  const std::string error = error_of({{"train.py", text}});
  CAPTURE(error);
  CHECK(error.find("depends on my.yaml (give it too: --from my.yaml)") != std::string::npos);
}

TEST_CASE("a table of the script's own is asked for the key that an option names") {
  const std::string text = R"(
MODELS = {"small": {"id": "Qwen/Qwen3-0.6B", "batch": 6, "targets": ["q_proj", "v_proj"]},
          "large": {"id": "Qwen/Qwen3-8B", "batch": 3, "targets": ["q_proj"]}}
parser.add_argument("--model", default="small")
def main(args):
    chosen = MODELS[args.model]
    model = AutoModelForCausalLM.from_pretrained(chosen["id"])
    names = [name for name in chosen["targets"] if name in present]
    model = get_peft_model(model, LoraConfig(r=8, target_modules=names))
    args = TrainingArguments(per_device_train_batch_size=chosen["batch"], bf16=True)
    Trainer(model=model, args=args).train()
)";
  const ConfigReading small = read_configs({{"train.py", text}}, {});
  CHECK(small.model == "Qwen/Qwen3-0.6B");
  CHECK(small.request.recipe.micro_batch == 6);
  CHECK(small.request.recipe.lora.targets == std::vector<std::string>{"q_proj", "v_proj"});
  const ConfigFile command{"a.sh", "python train.py --model large\n"};
  const ConfigReading large = read_configs({command, {"train.py", text}}, {});
  CHECK(large.model == "Qwen/Qwen3-8B");
  CHECK(large.request.recipe.micro_batch == 3);
}

TEST_CASE("PEFT's own table of modules is what PEFT takes where nothing is said") {
  const std::string text = R"(
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
modules = TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING["qwen3"]
model = get_peft_model(model, LoraConfig(r=8, target_modules=modules))
Trainer(model=model, args=TrainingArguments(per_device_train_batch_size=2, bf16=True)).train()
)";
  CHECK(read_configs({{"train.py", text}}, {}).request.recipe.lora.targets == std::vector<std::string>{"usual"});
}

TEST_CASE("conditions that the text decides: comparisons, and, or, whether there is a GPU, attributes by name") {
  const std::string text = R"(
kind = "bf16"
device = "cuda" if torch.cuda.is_available() else "cpu"
half = getattr(torch, "bfloat16") if kind == "bf16" and device != "cpu" else torch.float16
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", torch_dtype=half)
batch = 3 if "fp" in kind or half == torch.bfloat16 else 1
steps = None
accumulate = 5 if steps is None else 1
args = TrainingArguments(per_device_train_batch_size=batch, gradient_accumulation_steps=accumulate, bf16=True)
Trainer(model=model, args=args).train()
)";
  const ConfigReading r = read_configs({{"train.py", text}}, {});
  CHECK(r.request.recipe.micro_batch == 3);
  CHECK(r.setup.grad_accum == 5);
  CHECK(r.setup.dtype == "bf16");
}

TEST_CASE("of if, elif and else the branch that an option takes is read") {
  const auto batch_of = [](const std::string& mode) {
    const std::string text = "mode = '" + mode + R"('
if mode.lower() == "a":
    args = TrainingArguments(per_device_train_batch_size=2, bf16=True)
elif mode == "b":
    args = TrainingArguments(per_device_train_batch_size=4, bf16=True)
else:
    args = TrainingArguments(per_device_train_batch_size=6, bf16=True)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
Trainer(model=model, args=args).train()
)";
    return read_configs({{"train.py", text}}, {}).request.recipe.micro_batch;
  };
  CHECK(batch_of("A") == 2);
  CHECK(batch_of("b") == 4);
  CHECK(batch_of("c") == 6);
}

TEST_CASE("a chat template in a notebook's text is no magic") {
  const std::string cell =
      "template = \"\"\"{% for m in messages %}{{ m\n%}\"\"\"\n"
      "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-8B')\n"
      "Trainer(model=model, args=TrainingArguments(per_device_train_batch_size=7, bf16=True))\n";
  const nlohmann::json book{{"cells", {{{"cell_type", "code"}, {"source", cell}}}}};
  CHECK(read_configs({{"a.ipynb", book.dump()}}, {}).request.recipe.micro_batch == 7);
}

TEST_CASE("a DeepSpeed file counts only where the launcher's switch or file turns DeepSpeed on") {
  const std::string words =
      "--mixed_precision bf16 --deepspeed_config_file ds.json train.py --model_name_or_path "
      "Qwen/Qwen3-8B --per_device_train_batch_size 2 --num_train_epochs 1 --bf16 True\n";
  const ConfigFile engine{"ds.json", R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})"};
  const ConfigReading off = read_configs({{"a.sh", "accelerate launch --num_processes 2 " + words}}, {});
  CHECK(off.request.strategy == "ddp");
  const ConfigReading on =
      read_configs({{"a.sh", "accelerate launch --use_deepspeed --num_processes 2 " + words}, engine}, {});
  CHECK(on.request.strategy == "zero2");
}

TEST_CASE("modules that a script's flag lists with commas, and bits of its base") {
  const ConfigReading r = read_configs(
      {{"a.sh",
        "deepspeed --num_gpus 2 finetune_clm_lora.py --model_name_or_path Qwen/Qwen3-8B --do_train --lora_r 8 "
        "--load_in_bits 4 --target_modules q_proj,v_proj --per_device_train_batch_size 1 --bf16\n"}},
      {});
  CHECK(r.request.recipe.lora.targets == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(r.request.recipe.method == Method::Qlora);
}

}  // namespace gpuplan
