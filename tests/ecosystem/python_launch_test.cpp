// The literal arguments of Python scripts and notebooks; nothing is executed.
#include "ecosystem/python_launch.h"

#include <algorithm>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "ecosystem/config_reader.h"
#include "ecosystem/config_texts.h"
#include "ecosystem/python_source.h"
#include "models/stack.h"

namespace gpuplan {

using namespace test;

namespace {

ConfigReading python(const std::string& text) { return read_configs({{"train.py", text}}, {}); }

std::string python_error(const std::string& text, const std::string& name = "train.py") {
  try {
    read_configs({{name, text}}, {});
  } catch (const InputError& error) { return error.what(); }
  return "";
}

constexpr const char* kUnsloth = R"(
max_seq_length = 1024
bits = True
model, tok = FastLanguageModel.from_pretrained("Qwen/Qwen3-8B", max_seq_length, load_in_4bit = bits, dtype = None)
model = FastLanguageModel.get_peft_model(model, r = 4 * 8, lora_alpha = 16, target_modules = ["q_proj", "v_proj",],
    use_gradient_checkpointing = "unsloth", random_state = 3407)
trainer = SFTTrainer(model = model, packing = False, max_seq_length = max_seq_length, args = TrainingArguments(
    per_device_train_batch_size = 2, gradient_accumulation_steps = 4, fp16 = not is_bfloat16_supported(),
    bf16 = is_bfloat16_supported(), optim = "adamw_8bit", learning_rate = 2e-4, report_to = "none"))
)";

}  // namespace

TEST_CASE("Unsloth: its two calls and the trainer's arguments are the question") {
  const ConfigReading r = python(kUnsloth);
  const Recipe& recipe = r.request.recipe;
  CHECK(r.model == "Qwen/Qwen3-8B");
  CHECK(recipe.method == Method::Qlora);
  CHECK(recipe.lora.rank == 32);
  CHECK(recipe.lora.targets == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(recipe.seq_len == 1024);
  CHECK(recipe.micro_batch == 2);
  CHECK(r.setup.grad_accum == 4);
  CHECK(r.setup.activation_offload == true);
  CHECK(r.setup.precision_by_card == true);
  CHECK_FALSE(r.setup.bf16.has_value());
}

TEST_CASE("settings that are assigned to a trainer's configuration count as if its call had them") {
  const std::string setup =
      "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B')\n"
      "args = DPOConfig(output_dir='a', max_length=2048)\n";
  const std::string train = "trainer = DPOTrainer(model=model, args=args)\n";
  const ConfigReading r =
      python(setup + "args.per_device_train_batch_size = 4\nsetattr(args, 'max_length', 512)\n" + train);
  CHECK(r.request.recipe.micro_batch == 4);
  CHECK(r.request.recipe.seq_len == 512);
  CHECK(python(setup + "other.per_device_train_batch_size = 4\n" + train).request.recipe.micro_batch == 8);
  // in a branch that may not be taken the value is not known
  CHECK(python_error(setup + "if fast:\n    args.per_device_train_batch_size = 4\n" + train)
            .find("per_device_train_batch_size") != std::string::npos);
}

TEST_CASE("classes of one family for a task are read as AutoModelFor... of it") {
  const ConfigReading r = python(
      "model = DebertaV2ForSequenceClassification.from_pretrained('microsoft/deberta-v3-base', num_labels=4)\n"
      "trainer = Trainer(model=model, args=TrainingArguments(per_device_train_batch_size=16))\n");
  CHECK(r.model == "microsoft/deberta-v3-base");
  CHECK(r.request.recipe.objective.method->name == "classify");
  CHECK(r.request.recipe.objective.labels == 4);
}

TEST_CASE("notebooks: code cells are read, magic and shell lines are not") {
  nlohmann::json cells = nlohmann::json::array();
  cells.push_back({{"cell_type", "markdown"}, {"source", "SFTTrainer(DPOTrainer("}});
  cells.push_back({{"cell_type", "code"}, {"source", {"!pip install 'x\n", "%time\n"}}});
  cells.push_back({{"cell_type", "code"}, {"source", kUnsloth}});
  const std::string text = nlohmann::json{{"cells", cells}}.dump();
  CHECK(read_configs({{"a.ipynb", text}}, {}).request.recipe.lora.rank == 32);
  CHECK(contains(python_error("[1]", "a.ipynb"), "is no notebook"));
}

TEST_CASE("transformers, PEFT and TRL: model, quantisation, adapters and settings") {
  const ConfigReading r = python(R"(
bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                         bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=bnb, dtype=torch.bfloat16,
                                             attn_implementation="flash_attention_2")
peft_config = LoraConfig(r=64, target_modules="all-linear", task_type="CAUSAL_LM")
trainer = SFTTrainer(model=model, args=SFTConfig(max_length=2048, packing=True), peft_config=peft_config)
)");
  const Recipe& recipe = r.request.recipe;
  CHECK(recipe.method == Method::Qlora);
  CHECK(recipe.lora.rank == 64);
  CHECK(recipe.lora.alpha == 8);  // PEFT's default
  CHECK(recipe.quant.double_quant);
  CHECK(recipe.seq_len == 2048);
  CHECK(r.setup.attention == "flash");
  const ConfigReading full = python(
      "Trainer(model=AutoModelForCausalLM.from_pretrained('m', torch_dtype='bfloat16'), "
      "args=TrainingArguments(bf16=True, per_device_train_batch_size=4))");
  CHECK(full.request.recipe.method == Method::Full);
  CHECK(full.request.recipe.micro_batch == 4);
}

TEST_CASE("what a run alone would show is named where it is needed") {
  CHECK(contains(python_error("SFTTrainer(args=SFTConfig(max_length=int(x)))"), "depends on int(...)"));
  CHECK(contains(python_error("n = 1\nif x:\n    n = 2\nSFTTrainer(args=SFTConfig(max_length=n))"), "depends on n"));
  CHECK(contains(python_error("SFTTrainer(args=training_args)"), "its settings come from its command line"));
  CHECK(has_note(python("SFTTrainer(args=SFTConfig(max_length=8, **more))"), "what **more adds"));
  CHECK(python("a = {'max_length': 8}\nSFTTrainer(args=SFTConfig(**a))").request.recipe.seq_len == 8);
}

TEST_CASE("other trainings are refused by the call that shows them") {
  CHECK(contains(python_error("NashMDTrainer(args=NashMDConfig())"), "train.py:1: NashMDTrainer"));
  CHECK(contains(python_error("AutoModelForMultipleChoice.from_pretrained('m')"), "classification"));
  CHECK(contains(python_error("XLoraConfig()\nSFTConfig()"), "mixing of trained adapters"));
  CHECK(contains(python_error("print(1)"), "sets up no training"));
}

TEST_CASE("a command without flags that tell is read together with its script") {
  const ConfigFile command{"run.sh", "torchrun --nproc_per_node 4 code/train.py"};
  const ConfigReading r = read_configs({command, {"train.py", kUnsloth}}, {});
  CHECK(r.setup.num_processes == 4);
  CHECK(r.request.recipe.lora.rank == 32);
  try {
    read_configs({command}, {});
    CHECK(false);
  } catch (const InputError& error) { CHECK(contains(error.what(), "give it too: --from train.py")); }
}

TEST_CASE("a training loop of its own is read by its calls, as far as they reach") {
  const std::string head = R"(
def loaders(accelerator, batch_size: int = 16):
    rows = tokenizer(texts, truncation=True, max_length=128)
    labels = tokenizer(targets, max_length=3)
    train = DataLoader(rows, shuffle=True, batch_size=batch_size)
    return train, DataLoader(rows, batch_size=64)
def training(config, args):
    accelerator = Accelerator(mixed_precision=args.mixed_precision, gradient_accumulation_steps=int(config["passes"]))
    batch_size = int(config["batch_size"])
    train, test = loaders(accelerator, batch_size)
    model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased")
    optimizer = bnb.optim.AdamW8bit(model.parameters(), lr=1e-5)
    for batch in train:
        accelerator.backward(model(**batch).loss)
    served = AutoModelForCausalLM.from_pretrained(config.served)
def main():
    parser.add_argument("--mixed_precision", default=)";
  const std::string tail = R"()
    training({"batch_size": 16, "passes": 4}, parser.parse_args())
)";
  const ConfigReading r = python(head + "None" + tail);
  CHECK(r.model == "bert-base-cased");
  CHECK(r.request.recipe.framework->name == "hf-loop");
  CHECK(r.request.recipe.objective.method->name == "classify");
  CHECK(r.request.recipe.micro_batch == 16);  // of the first DataLoader
  CHECK(r.request.recipe.seq_len == 128);     // of the first call of the tokenizer that says it
  CHECK(r.setup.grad_accum == 4);             // what the call in main gives to the parameter
  CHECK(r.request.recipe.optimizer->name == "adamw-8bit");
  CHECK(r.request.recipe.precision == Precision::Fp32);  // None: the launcher's, which says nothing
  CHECK(python(head + "'bf16'" + tail).request.recipe.precision == Precision::Bf16Mixed);
  CHECK(python("def step(batch):\n    loss.backward()\nmodel = AutoModelForCausalLM.from_pretrained('a')\n"
               "for batch in DataLoader(rows, batch_size=3):\n    step(batch)\n")
            .request.recipe.micro_batch == 3);
  // without a DataLoader the batch is not known, and without backward nothing is trained
  CHECK(contains(python_error("model = AutoModelForCausalLM.from_pretrained('a')\nloss.backward()\n"),
                 "sets up no training"));
  CHECK(
      contains(python_error("model = timm.create_model('resnet50')\nDataLoader(rows, batch_size=4)\nloss.backward()\n"),
               "sets up no training"));
}

TEST_CASE("a name that a function assigns is its own") {
  const std::string model = "AutoModelForCausalLM.from_pretrained('a')\n";
  const auto batch = [&](const std::string& text) {
    return python(model + text + "DataLoader(rows, batch_size=n)\nloss.backward()\n").request.recipe.micro_batch;
  };
  CHECK(batch("n = 8\ndef tokenise(rows):\n    n = len(rows)\n    return n\n") == 8);
  CHECK(batch("def tokenise(rows):\n    n = 4\n") == 4);  // as far as is known it is the same
  CHECK(contains(python_error(model + "n = 8\nif x:\n    n = 4\nDataLoader(rows, batch_size=n)\nloss.backward()\n"),
                 "depends on n"));
}

TEST_CASE("notebooks keep the indentation of their lines, behind %%capture too") {
  nlohmann::json cells = nlohmann::json::array();
  cells.push_back({{"cell_type", "code"}, {"source", "%%capture\nn = 8\ndef f(rows):\n    n = len(rows)\n"}});
  cells.push_back(
      {{"cell_type", "code"},
       {"source", "AutoModelForCausalLM.from_pretrained('a')\nDataLoader(r, batch_size=n)\nloss.backward()"}});
  cells.push_back({{"cell_type", "code"}, {"source", "%%html\nDataLoader(r, batch_size=4)\nloss.backward()"}});
  const std::string text = nlohmann::json{{"cells", cells}}.dump();
  CHECK(read_configs({{"a.ipynb", text}}, {}).request.recipe.micro_batch == 8);
}

TEST_CASE("a parameter that calls give different values is not known") {
  const auto error_of_calls = [](const std::string& calls) {
    return python_error(
        "AutoModelForCausalLM.from_pretrained('a')\ndef run(n):\n    DataLoader(rows, batch_size=n)\n    "
        "loss.backward()\n" +
        calls);
  };
  CHECK(error_of_calls("run(4)\n").empty());
  CHECK(contains(error_of_calls("run(4)\nrun(8)\n"), "batch_size: depends on n"));
  CHECK(contains(error_of_calls("run(4)\nrun(len(rows))\n"), "batch_size: depends on n"));
}

TEST_CASE("the trainer says what the head of the model is for") {
  const auto method = [](const std::string& trainer, const std::string& head) {
    return python("model = AutoModelFor" + head + "Classification.from_pretrained('a')\n" + trainer +
                  "Trainer(model=model, args=" + trainer + "Config(per_device_train_batch_size=2))\n")
        .request.recipe.objective.method->name;
  };
  CHECK(method("Reward", "Sequence") == "reward");
  CHECK(method("PRM", "Token") == "process-reward");
  CHECK(python("t = BCOTrainer(model='a', args=BCOConfig(per_device_train_batch_size=2))\n")
            .request.recipe.objective.method->name == "apo-zero-unpaired");
}

TEST_CASE("a loss of pairs brings no reference to a method without one; TPO without its cross-entropy reads a pair") {
  const auto method = [](const std::string& trainer, const std::string& setting) {
    return python("t = " + trainer + "Trainer(model='a', args=" + trainer + "Config(" + setting + "))\n")
        .request.recipe.objective.method->name;
  };
  CHECK(method("DPO", "loss_type='hinge'") == "hinge");
  for (const char* loss : {"bco_pair", "sppo_hard", "aot", "discopop", "sigmoid_norm"})  // of the same log-probs
    CHECK(method("DPO", fmt::format("loss_type='{}'", loss)) == "dpo");
  CHECK(method("DPO", "loss_type=['robust']") == "dpo");
  CHECK(method("CPO", "loss_type='hinge'") == "cpo");
  CHECK(method("CPO", "loss_type='simpo'") == "simpo");
  CHECK(method("TPO", "loss_type='ipo'") == "tpo");
  CHECK(method("TPO", "tpo_alpha=0.5, tpo_l_gamma=0.5, loss_type='tpo-l'") == "tpo");
  CHECK(method("TPO", "tpo_alpha=0.0") == "simpo");
}

TEST_CASE("parameters of a function that Fire calls have the values of the command, lists among them") {
  const std::string command =
      "python tune.py --base llama-7b --length 256 --adapter lora --names '[\"q_proj\", \"up_proj\"]' --rank 32\n";
  const std::string script = R"(
import fire
def train(base: str = "", length: int = 128, batch: int = 4, adapter: str = "lora", names: List[str] = None, rank: int = 8):
    model = AutoModelForCausalLM.from_pretrained(base, torch_dtype=torch.float16)
    model = prepare_model_for_int8_training(model)
    if adapter == "lora":
        config = LoraConfig(r=rank, target_modules=names, task_type="CAUSAL_LM")
    elif adapter == "prefix-tuning":
        config = PrefixTuningConfig(num_virtual_tokens=30)
    trainer = Trainer(model=model, args=TrainingArguments(per_device_train_batch_size=batch, fp16=True))
if __name__ == "__main__":
    fire.Fire(train)
)";
  const auto read = [&](const std::string& text) { return read_configs({{"a.sh", text}, {"tune.py", script}}, {}); };
  const ConfigReading r = read(command);
  CHECK(r.model == "llama-7b");
  CHECK(r.request.recipe.lora.targets == std::vector<std::string>{"q_proj", "up_proj"});
  CHECK(r.request.recipe.lora.rank == 32);
  CHECK(r.request.recipe.micro_batch == 4);
  CHECK(r.setup.prepares_kbit == true);
  CHECK_THROWS_WITH(read("python tune.py --base llama-7b --adapter prefix-tuning\n"),
                    doctest::Contains("belongs to prefix tuning"));
}

TEST_CASE("a model that is loaded again behind its training, by a value of the run, leaves the name as it was") {
  const ConfigReading r = python(R"(
name = "google/flan-t5-large"
model = AutoModelForSeq2SeqLM.from_pretrained(name, torch_dtype=torch.bfloat16 if config.get("bf16") else torch.float16)
def tokenize(rows): return tokenizer(rows["text"], max_length=512, truncation=True)
trainer = Trainer(model=model, args=TrainingArguments(per_device_train_batch_size=8, num_train_epochs=config["epochs"]))
model = AutoModelForSeq2SeqLM.from_pretrained(peft_config.base_model_name_or_path)
)");
  CHECK(r.model == "google/flan-t5-large");
  CHECK(r.request.recipe.seq_len == 512);
  CHECK(r.request.recipe.micro_batch == 8);
}

TEST_CASE("adapters of a folder that are trained on are refused, those that are only asked are not") {
  const auto script = [](const char* more) {
    return std::string(
               "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-8B')\n"
               "model = PeftModel.from_pretrained(model, 'init', ") +
           more + ")\nTrainer(model=model, args=TrainingArguments(per_device_train_batch_size=2)).train()\n";
  };
  CHECK(contains(python_error(script("is_trainable=True")), "adapters that are loaded and trained on"));
  CHECK(python_error(script("subfolder='a'")).empty());
}

TEST_CASE("a list of targets is read of flags of a script that nobody knows") {
  const std::string flags =
      "python tune.py --base_model llama-7b --micro_batch_size 4 --lora_r 8 --target_modules '[\"q_proj\", "
      "\"up_proj\"]'\n";
  const ConfigReading r = read_configs({{"a.sh", flags}}, {});
  CHECK(r.request.recipe.lora.targets == std::vector<std::string>{"q_proj", "up_proj"});
}

TEST_CASE("a script's own options have the values of the command that starts it") {
  const ConfigFile command{"run.sh",
                           "torchrun --nproc_per_node 2 src/grpo.py --per_device_batch 4 --grpo_beta 0.001\n"};
  const ConfigFile source{"src/grpo.py", R"(
parser.add_argument("--per_device_batch", type=int, default=1)
parser.add_argument("--grpo_beta", type=float, default=0)
parser.add_argument("--resume", default=None)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.bfloat16)
trainer = GRPOTrainer(model=model, args=GRPOConfig(per_device_train_batch_size=args.per_device_batch, num_generations=4,
                      beta=args.grpo_beta, resume_from_checkpoint=args.resume, bf16=True))
)"};
  const ConfigReading r = read_configs({command, source}, {});
  CHECK(r.request.recipe.micro_batch == 4);
  CHECK(r.request.recipe.objective.method->name == "grpo");
  CHECK(r.setup.regularises == 0.001);
  CHECK(r.setup.num_processes == 2);
}

TEST_CASE("weights that a script loads without a word on their type are fp32 before transformers 5") {
  const ConfigFile script{"train.py",
                          "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B-Instruct')\n"
                          "DPOTrainer(model=model, args=DPOConfig(output_dir='out'))\n"};
  const auto precision = [&](const char* versions) {
    return read_configs({script}, {}, parse_stack_versions(versions)).request.recipe.precision;
  };
  CHECK(precision("trl=0.16.0,transformers=4.50") == Precision::Fp32);
  CHECK(precision("trl=0.16.0,transformers=5.0") == Precision::Bf16True);
  const ConfigReading today = read_configs({script}, {});
  CHECK(today.request.recipe.precision == Precision::Bf16Loaded);
  CHECK(std::ranges::any_of(
      today.notes, [](const std::string& note) { return contains(note, "dtype (before transformers 5.0.0: fp32)"); }));
}

TEST_CASE("hostile sources end with a message, or with what can be read") {
  CHECK(contains(python_error("x = (1\n"), "train.py:1: the bracket ( is not closed"));
  CHECK(contains(python_error("x = 'a\n"), "the quote ' is not closed"));
  CHECK(contains(python_error("x = )\n"), "closes none"));
  const std::string deep(20000, '[');
  CHECK(python("x = " + deep + std::string(20000, ']') + "\nSFTTrainer(args=SFTConfig(max_length=8))")
            .request.recipe.seq_len == 8);
}

TEST_CASE("PEFT's preparation of a quantised base switches checkpointing on, unless it is told not to") {
  const auto checkpointing = [](const std::string& preparation, const std::string& base) {
    return python("model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-8B', " + base + ")\n" + preparation +
                  "\nmodel = get_peft_model(model, LoraConfig(r=8))\n"
                  "Trainer(model=model, args=TrainingArguments(per_device_train_batch_size=1))\n")
        .request.recipe.checkpointing;
  };
  const std::string prepare = "model = prepare_model_for_kbit_training(model";
  CHECK(checkpointing(prepare + ")", "load_in_4bit=True") == Checkpointing::Full);
  CHECK(checkpointing(prepare + ", use_gradient_checkpointing=False)", "load_in_4bit=True") == Checkpointing::None);
  CHECK(checkpointing(prepare + ")", "dtype=torch.bfloat16") == Checkpointing::None);
  CHECK(checkpointing("", "load_in_4bit=True") == Checkpointing::None);
}

}  // namespace gpuplan
