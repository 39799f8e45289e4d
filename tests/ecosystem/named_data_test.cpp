#include "ecosystem/named_data.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files.h"
#include "cluster/gpu_list.h"
#include "ecosystem/row_count.h"
#include "scratch_folder.h"

using namespace gpuplan;

namespace {

const FindConfig kNothing = [](const std::string&, const std::string&) { return std::nullopt; };

/// The question of one file on two GPUs whose data lies in `folder`.
EstimateRequest asked(const std::string& file, const std::filesystem::path& folder, std::vector<std::string>& notes,
                      GivenData given = {}, Dataset data = {}) {
  const ConfigReading reading = read_configs({{"file.yaml", file}}, kNothing);
  EstimateRequest r = reading.request;
  data.epochs = r.dataset.epochs;
  r.dataset = data;
  r.cluster = parse_gpus("2xA6000");
  r.strategy = "ddp";
  const FindPath find = [&](const std::string& named, const std::string&) -> std::optional<std::filesystem::path> {
    return is_file(folder / named) ? std::optional(folder / named) : std::nullopt;
  };
  settle_data(reading, find, given, r, notes);
  return r;
}

const std::string kLlamaFactory =
    "model_name_or_path: meta-llama/Llama-3.1-8B\nfinetuning_type: lora\ncutoff_len: 2048\n"
    "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\n";

}  // namespace

TEST_CASE("public sets are unique, and their tokens have a tokenizer and a length of rows that can be") {
  std::vector<std::string> names;
  int num_counted = 0;
  for (const NamedData& set : named_data()) {
    CAPTURE(set.name);
    names.push_back(set.name);
    names.insert(names.end(), set.also.begin(), set.also.end());
    CHECK_FALSE(set.source.empty());
    const bool has_tokens = set.tokens > 0 || set.tokens_per_row > 0;
    CHECK(has_tokens != set.tokenizer.empty());
    num_counted += set.tokens > 0 ? 1 : 0;
    if (set.tokens == 0) continue;
    const double bytes_per_token = double(set.bytes) / double(set.tokens);
    CHECK(bytes_per_token > 2);
    CHECK(bytes_per_token < 10);
  }
  CHECK(num_counted >= 15);
  for (const std::string& name : names) CHECK_MESSAGE(std::ranges::count(names, name) == 1, name);
  CHECK(find_named_data("OPENAI/gsm8k")->rows == 7473);
}

TEST_CASE("a training split in a folder of a set's name is that set's, as verl's scripts write it") {
  const test::ScratchFolder scratch;
  const auto rows = [&](const std::string& set) {
    std::vector<std::string> notes;
    return asked(kLlamaFactory + "dataset: " + set + "\n", scratch.path(), notes).dataset.rows;
  };
  CHECK(rows("/home/me/data/gsm8k/train.parquet") == 7473);
  CHECK(rows("gsm8k/train.parquet") == 7473);
  CHECK(rows("\"['$HOME/data/gsm8k/train.parquet']\"") == 7473);  // a list of Hydra
  CHECK(rows("gsm8k/test.parquet") != 7473);
  CHECK(rows("mine/train.parquet") != 7473);
}

TEST_CASE("rows of JSON lines, of a list and of CSV are counted as their readers count them") {
  test::ScratchFolder folder;
  const auto count = [&](const char* name, const std::string& text) {
    write_file_atomically(folder.path() / name, text);
    return count_rows(folder.path() / name)->rows;
  };
  CHECK(count("a.jsonl", "{\"a\": 1}\n\n{\"a\": 2}\n{\"a\": 3}") == 3);
  CHECK(count("lines.json", "{\"a\": [1, 2]}\n{\"a\": 2}\n") == 2);
  CHECK(count("b.json", "[{\"a\": \"x, [y]\"}, {\"a\": [1, 2]}]\n") == 2);
  CHECK(count("empty.json", "[ ]") == 0);
  CHECK(count("c.csv", "question,answer\na,\"two\nlines\"\nb,c\n") == 2);
  CHECK_FALSE(count_rows(folder.path() / "d.parquet"));
}

TEST_CASE("tokens of a local file are those of its texts, not of its keys, however JSON writes them") {
  test::ScratchFolder folder;
  const auto tokens = [&](const char* name, const std::string& text) {
    write_file_atomically(folder.path() / name, text);
    return count_rows(folder.path() / name)->tokens;
  };
  CHECK(tokens("a.jsonl", R"({"instruction": "two words", "id": 7})") == 2);
  CHECK(tokens("b.json", R"([{"a_long_key": "two"}, {"b": ["words", "here"]}])") == 3);
  CHECK(tokens("c.jsonl", R"({"text": "12345 and 6"})") == 5);  // 123, 45, and, a space, 6
  CHECK(tokens("d.jsonl", R"({"text": "it's a\n\"b\""})") > 4);
  CHECK(tokens("e.jsonl", "{\"text\": \"\u4f60\u597d\"}") == tokens("f.jsonl", R"({"text": "\u4f60\u597d"})"));
  CHECK(tokens("g.csv", "one two\nthree\n") == 5);  // two line ends
  CHECK(tokens("h.jsonl", R"({"text": "\u)") == 0);
}

TEST_CASE("max_samples and max_steps set how much is trained on") {
  test::ScratchFolder folder;
  std::vector<std::string> notes;
  // 500 of each of the two sets, but identity has 91
  EstimateRequest r =
      asked(kLlamaFactory + "dataset: alpaca_en_demo,identity\nmax_samples: 500\n", folder.path(), notes);
  CHECK(r.dataset.rows == 591);
  CHECK(r.dataset.tokens_per_row == 143);  // (500 x 162,026 / 999 + 91 x 3,546 / 91) / 591 = 143.2
  // a share is of both, and rounded up; a number of rows is one
  const std::string some = kLlamaFactory + "dataset: alpaca_en_demo,identity\nmax_samples: 500\n";
  CHECK(asked(some + "val_size: 0.1\n", folder.path(), notes).dataset.rows == 591 - 60);
  CHECK(asked(some + "val_size: 100\n", folder.path(), notes).dataset.rows == 491);
  // 100 steps of 2 sequences x 4 passes x 2 GPUs
  r = asked(kLlamaFactory + "dataset: my_own\nmax_steps: 100\nnum_train_epochs: 3\n", folder.path(), notes);
  CHECK(r.dataset.rows == 1600);
  CHECK(r.dataset.epochs == 1);
  // a limit above what is assumed says nothing
  r = asked(kLlamaFactory + "dataset: my_own\nmax_samples: 1000000\n", folder.path(), notes);
  CHECK(r.dataset.rows == Dataset{}.rows);
  // neither: nothing is known
  r = asked(kLlamaFactory + "dataset: my_own\nmax_steps: -1\n", folder.path(), notes);
  CHECK(r.dataset.rows == Dataset{}.rows);
}

TEST_CASE("steps of an epoch end each of them before its rows do") {
  test::ScratchFolder folder;
  std::vector<std::string> notes;
  const std::string file =
      "model: {_component_: torchtune.models.llama3.llama3_8b}\nbatch_size: 2\nepochs: 3\n"
      "gradient_accumulation_steps: 4\ntokenizer: {max_seq_len: 512}\nmax_steps_per_epoch: ";
  // 100 steps of 2 sequences x 4 passes x 2 GPUs
  EstimateRequest r = asked(file + "100\n", folder.path(), notes);
  CHECK(r.dataset.rows == 1600);
  CHECK(r.dataset.epochs == 3);
  CHECK(asked(file + "100000\n", folder.path(), notes).dataset.rows == Dataset{}.rows);
  CHECK(asked(file + "null\n", folder.path(), notes).dataset.rows == Dataset{}.rows);
}

TEST_CASE("max_samples is the most rows of a set, and no count of one that is not known") {
  test::ScratchFolder folder;
  std::vector<std::string> notes;
  const EstimateRequest r =
      asked(kLlamaFactory + "stage: dpo\ndataset: dpo_en_demo\nmax_samples: 1000\n", folder.path(), notes);
  CHECK(r.dataset.rows == 300);  // dpo_en_demo.json of hiyouga/LLaMA-Factory @ff6d4d12
  CHECK(r.dataset.tokens_per_row == 692);
  const ConfigReading reading =
      read_configs({{"file.yaml", kLlamaFactory + "dataset: away\nmax_samples: 777\n"}}, kNothing);
  EstimateRequest unknown = reading.request;
  unknown.cluster = parse_gpus("A6000");
  const FindPath find = [](const std::string&, const std::string&) { return std::nullopt; };
  CHECK_FALSE(settle_data(reading, find, {}, unknown, notes).has_rows);
  CHECK(unknown.dataset.rows == 777);
}

TEST_CASE("the sets of a mixture count by their shares, and splits beside the training's are named") {
  test::ScratchFolder folder;
  std::vector<std::string> notes;
  const std::string set = "  - id: HuggingFaceH4/ultrachat_200k\n    columns: [messages]\n";
  const std::string file = "model_name_or_path: a\nmax_length: 2048\ndtype: bfloat16\ndataset_mixture:\n  datasets:\n" +
                           set + "    split: train_sft\n    weight: 0.5\n" + set +
                           "    split: test_sft\n    weight: 1.0\n" + "  seed: 0\n";
  CHECK(asked(file, folder.path(), notes).dataset.rows == 103922);  // half of 207,843
  CHECK(asked(file, folder.path(), notes).dataset.tokens_per_row == 1188);
  CHECK(asked(file + "  test_split_size: 1000\n", folder.path(), notes).dataset.rows == 102922);
  CHECK(std::ranges::any_of(notes, [](const std::string& note) {
    return note.starts_with("HuggingFaceH4/ultrachat_200k@test_sft: how many rows this split has is not known");
  }));
}

TEST_CASE("sets that are keys of a mapping count by their shares, of the splits for training that are named") {
  test::ScratchFolder folder;
  std::vector<std::string> notes;
  const std::string file =
      "model_name_or_path: a\nmax_seq_length: 2048\ntorch_dtype: bfloat16\ndataset_text_field: text\ndataset_mixer:\n"
      "  HuggingFaceH4/ultrachat_200k: ";
  const std::string splits = "dataset_splits:\n- train_sft\n- test_sft\n";
  CHECK(asked(file + "1.0\n" + splits, folder.path(), notes).dataset.rows == 207843);
  CHECK(asked(file + "0.5\n" + splits, folder.path(), notes).dataset.rows == 103922);
}

TEST_CASE("prompts of a set whose prompts were counted have their mean length, where nothing says another") {
  test::ScratchFolder folder;
  std::vector<std::string> notes;
  const std::string file =
      "method: grpo\nmodel_name_or_path: Qwen/Qwen2.5-7B\nnum_generations: 4\nmax_completion_length: "
      "256\ndataset_name: ";
  const auto prompt_of = [&](const std::string& set) {
    return asked(file + set + "\n", folder.path(), notes).rollout.mean_prompt;
  };
  CHECK(prompt_of("openai/gsm8k") == 57);  // 428,286 / 7,473 = 57.3
  CHECK(prompt_of("my_own") == 0);
}

TEST_CASE("rows that are held out for evaluation are not trained on, where the trainer evaluates") {
  const auto rows_of = [](const ConfigFile& file) {
    const ConfigReading reading = read_configs({file}, kNothing);
    EstimateRequest r = reading.request;
    r.cluster = parse_gpus("2xH100");
    std::vector<std::string> notes;
    settle_data(
        reading, [](const std::string&, const std::string&) { return std::nullopt; }, {}, r, notes);
    return std::pair{r.dataset.rows, r.eval_batch};
  };
  const std::string axolotl =
      "base_model: meta-llama/Llama-3.1-8B\nadapter: lora\nlora_r: 8\nlora_alpha: 16\nsequence_len: "
      "2048\neval_batch_size: 4\ndatasets:\n"
      "  - {path: tatsu-lab/alpaca, type: alpaca}\n";
  CHECK(rows_of({"a.yaml", axolotl}) == std::pair{std::int64_t{52'002}, std::int64_t{0}});
  CHECK(rows_of({"a.yaml", axolotl + "val_set_size: 0.05\n"}) == std::pair{std::int64_t{49'401}, std::int64_t{4}});
  // the trainer's own batch of evaluation: a micro batch; not under a kernel that spares its logits
  const std::string usual =
      axolotl.substr(0, axolotl.find("eval_batch_size")) + axolotl.substr(axolotl.find("datasets"));
  CHECK(rows_of({"a.yaml", usual + "val_set_size: 0.05\nmicro_batch_size: 2\n"}).second == 2);
  CHECK(rows_of({"a.yaml", usual + "micro_batch_size: 2\n"}).second == 0);
  CHECK(rows_of({"a.yaml", usual + "val_set_size: 0.05\nplugins:\n  - "
                                   "axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n"})
            .second == 0);
  // where a batch of evaluation is stated too, but for one of more rows than a micro batch
  const std::string cut = axolotl +
                          "val_set_size: 0.05\nmicro_batch_size: 4\nplugins:\n  - "
                          "axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n";
  CHECK(rows_of({"a.yaml", cut}).second == 0);
  CHECK(rows_of({"a.yaml", cut + "cut_cross_entropy: false\n"}).second == 4);
  CHECK(rows_of({"a.yaml", axolotl + "val_set_size: 0.05\nplugins: [axolotl.integrations.liger.LigerPlugin]\n"
                                     "liger_fused_linear_cross_entropy: true\n"})
            .second == 4);
  const std::string swift =
      "swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type lora --dataset tatsu-lab/alpaca --split_dataset_ratio "
      "0.01";
  CHECK(rows_of({"a.sh", swift + "\n"}).first == 52'002 - 521);
  CHECK(rows_of({"a.sh", swift + " --eval_strategy no\n"}).first == 52'002);
}

TEST_CASE("an evaluation without a batch of its own has Hugging Face's 8 rows, where there is one") {
  const auto batch_of = [](const std::string& text) {
    return read_configs({{"a.yaml", text}}, kNothing).request.eval_batch;
  };
  const std::string trl =
      "model_name_or_path: Qwen/Qwen2.5-7B\nmax_length: 2048\npacking: true\nper_device_train_batch_size: 2\n";
  const std::string factory =
      "model_name_or_path: Qwen/Qwen2.5-7B\nstage: sft\nfinetuning_type: lora\ncutoff_len: 2048\nval_size: 0.1\n";
  for (const std::string& text : {trl, factory}) {
    CAPTURE(text);
    CHECK(batch_of(text) == 0);
    CHECK(batch_of(text + "eval_strategy: \"no\"\n") == 0);
    CHECK(batch_of(text + "eval_strategy: steps\neval_steps: 100\n") == 8);
    CHECK(batch_of(text + "eval_strategy: epoch\nper_device_eval_batch_size: 1\n") == 1);
  }
}

TEST_CASE("steps of a training on answers are those of the trainer: sequences are answers, rows are prompts") {
  const auto rows_of = [](const std::string& line, const char* gpus) {
    const ConfigReading reading = read_configs({{"run.sh", line + "\n"}}, kNothing);
    EstimateRequest r = reading.request;
    r.cluster = parse_gpus(gpus);
    r.strategy = "fsdp";
    std::vector<std::string> notes;
    settle_data(
        reading, [](const std::string&, const std::string&) { return std::nullopt; }, {}, r, notes);
    CHECK(r.dataset.epochs == 1);
    return r.dataset.rows;
  };
  // TRL: an optimizer step has 8 x 4 x 2 answers, 8 of a prompt
  const auto trl = [&](const std::string& more) {
    return rows_of(
        "trl grpo --model_name_or_path Qwen/Qwen2.5-7B-Instruct --dataset_name my_own --per_device_train_batch_size 8 "
        "--gradient_accumulation_steps 4 --num_generations 8 --max_completion_length 512 --max_steps 500 " +
            more,
        "2xH100");
  };
  CHECK(trl("") == 500 * 64 / 8);
  CHECK(trl("--num_iterations 2") == 500 * 64 / 8 / 2);  // trained on twice, a half of the prompts
  // verl: a step generates for 1,024 prompts and updates four times
  CHECK(rows_of("python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=1024 "
                "data.train_files=a.parquet data.max_prompt_length=512 data.max_response_length=512 "
                "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.actor.ppo_mini_batch_size=256 "
                "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 actor_rollout_ref.rollout.n=5 "
                "trainer.n_gpus_per_node=8 trainer.total_epochs=15 trainer.total_training_steps=100",
                "8xH100") == 100 * 1024);
}

TEST_CASE("open-instruct's episodes are answers, and OmegaConf's reference to another key is its value") {
  const ConfigReading open_instruct =
      read_configs({{"run.sh",
                     "python open_instruct/grpo_fast.py --model_name_or_path Qwen/Qwen2.5-7B --beta 0.0 "
                     "--num_samples_per_prompt_rollout 16 --num_unique_prompts_rollout 8 --response_length 512 "
                     "--total_episodes 64000 --deepspeed_stage 3 --num_learners_per_node 8 --vllm_num_engines 8\n"}},
                   kNothing);
  EstimateRequest r = open_instruct.request;
  r.cluster = parse_gpus("8xH100");
  r.strategy = "zero3";
  std::vector<std::string> notes;
  settle_data(
      open_instruct, [](const std::string&, const std::string&) { return std::nullopt; }, {}, r, notes);
  CHECK(r.dataset.rows == 64000 / 16);
  // examples/configs/grpo_math_1B.yaml of NeMo RL says so
  const ConfigReading nemo =
      read_configs({{"grpo.yaml",
                     "grpo:\n  num_prompts_per_step: 32\n  num_generations_per_prompt: 16\npolicy:\n"
                     "  model_name: Qwen/Qwen2.5-1.5B\n  train_global_batch_size: 512\n  train_micro_batch_size: 4\n"
                     "  max_total_sequence_length: 640\n  dtensor_cfg:\n    enabled: true\n  generation:\n"
                     "    backend: vllm\n    vllm_cfg:\n      max_model_len: ${policy.max_total_sequence_length}\n"
                     "cluster:\n  gpus_per_node: 8\n  num_nodes: 1\n"}},
                   kNothing);
  CHECK(nemo.setup.engine_context == 640);
}

TEST_CASE("a local file is counted, by LLaMA-Factory's list of sets too") {
  test::ScratchFolder folder;
  std::vector<std::string> notes;
  std::string rows;
  std::string text;
  for (int i = 0; i < 11; ++i) text += "The quick brown fox jumps over the lazy dog. ";
  for (int i = 0; i < 40; ++i) rows += "{\"instruction\": \"" + text + "\"}\n";
  write_file_atomically(folder.path() / "train.jsonl", rows);
  EstimateRequest r = asked(
      "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 2048\ndatasets:\n  - path: train.jsonl\n    type: alpaca\n",
      folder.path(), notes);
  CHECK(r.dataset.rows == 40);
  CHECK(r.dataset.tokens_per_row == 110);  // nine words and a full stop, eleven times
  make_folders(folder.path() / "data");
  write_file_atomically(folder.path() / "data" / "dataset_info.json", R"({"mine": {"file_name": "x.json"}})");
  write_file_atomically(folder.path() / "data" / "x.json", R"([{"text": "a"}, {"text": "b"}])");
  r = asked(kLlamaFactory + "dataset: mine\n", folder.path(), notes);
  CHECK(r.dataset.rows == 2);
}

TEST_CASE("a flag replaces what it says of the data and nothing else") {
  test::ScratchFolder folder;
  folder.write("mine.jsonl", "{\"text\": \"one two three\"}\n{\"text\": \"four\"}\n");
  std::vector<std::string> notes;
  const std::string file = kLlamaFactory + "dataset: mine.jsonl\n",
                    limited = kLlamaFactory + "dataset: away\nmax_samples: 777\n";
  const Dataset read = asked(file, folder.path(), notes).dataset;
  CHECK(read.rows == 2);
  const Dataset with_rows = asked(file, folder.path(), notes, {.rows = true}, {.rows = 500}).dataset;
  CHECK(with_rows.rows == 500);
  CHECK(with_rows.tokens_per_row == read.tokens_per_row);
  const Dataset with_tokens =
      asked(limited, folder.path(), notes, {.tokens_per_row = true}, {.tokens_per_row = 70}).dataset;
  CHECK(with_tokens.rows == 777);
  CHECK(with_tokens.tokens_per_row == 70);
}

TEST_CASE("a pair of answers is two sequences, each the prompt with one of them") {
  test::ScratchFolder folder;
  const auto per_row = [&](const char* name, const std::string& line) {
    const auto counted = count_rows(folder.write(name, line + "\n" + line + "\n"));
    REQUIRE(counted);
    CHECK(counted->rows == 2);
    return counted->tokens_per_answer / 2;
  };
  const std::string prompt = "one two three four", good = "five six", bad = "seven eight nine ten";
  CHECK(per_row("a.jsonl", R"({"prompt": ")" + prompt + R"(", "chosen": ")" + good + R"(", "rejected": ")" + bad +
                               R"("})") == doctest::Approx(4 + 3));
  const auto message = [](const char* role, const std::string& text) {
    return std::string(R"({"role": ")") + role + R"(", "content": ")" + text + R"("})";
  };
  const std::string user = message("u", prompt);  // a role is a word too
  CHECK(per_row("b.jsonl", R"({"chosen": [)" + user + ", " + message("a", good) + R"(], "rejected": [)" + user + ", " +
                               message("a", bad) + "]}") == doctest::Approx(4 + 3 + 2));
  CHECK(per_row("c.jsonl", R"({"prompt": [)" + user + R"(], "chosen": [)" + message("a", good) + R"(], "rejected": [)" +
                               message("a", bad) + "]}") == doctest::Approx(4 + 3 + 2));
  CHECK(per_row("d.jsonl", R"({"text": "one two"})") == 0);
}

TEST_CASE("TRL's KTO makes two rows of each pair; its DPO reads both at once, and rows with a label stay one") {
  test::ScratchFolder folder;
  std::string pairs, labelled;
  for (int i = 0; i < 10; ++i) {
    pairs += R"({"prompt": "one two", "chosen": "five", "rejected": "one two six"})"
             "\n";
    labelled += R"({"prompt": "one two", "completion": "five", "label": true})"
                "\n";
  }
  folder.write("pairs.jsonl", pairs);
  folder.write("labelled.jsonl", labelled);
  const auto data_of = [&](const std::string& method, const std::string& file) {
    std::vector<std::string> notes;
    const ConfigReading reading = read_configs(
        {{"train.sh", "trl " + method + " --model_name_or_path m --dataset_name " + file + " --num_train_epochs 1"}},
        kNothing);
    EstimateRequest r = reading.request;
    r.cluster = parse_gpus("2xA6000");
    r.strategy = "ddp";
    const FindPath find = [&](const std::string& named, const std::string&) -> std::optional<std::filesystem::path> {
      return is_file(folder.path() / named) ? std::optional(folder.path() / named) : std::nullopt;
    };
    settle_data(reading, find, {}, r, notes);
    REQUIRE(notes.size() == 1);
    CHECK((notes.front().find("two of each pair") != std::string::npos) == (method == "kto" && file == "pairs.jsonl"));
    return std::pair{r.dataset.rows, r.dataset.tokens_per_row};
  };
  // prompts of 2, answers of 1 and 3
  CHECK(data_of("kto", "pairs.jsonl") == std::pair<std::int64_t, std::int64_t>{20, 4});
  CHECK(data_of("dpo", "pairs.jsonl") == std::pair<std::int64_t, std::int64_t>{10, 4});
  CHECK(data_of("kto", "labelled.jsonl").first == 10);
}

TEST_CASE("a path that says how files are read alone leaves the data to the key that names them") {
  const auto sets_of = [](const std::string& datasets) {
    return read_configs({{"dpo.yaml", "model_name_or_path: m\nuse_peft: true\ndatasets:\n" + datasets}}, kNothing)
        .setup.data_sets.value_or(std::vector<std::string>{});
  };
  using Names = std::vector<std::string>;
  CHECK(sets_of("- path: json\n  data_files: a.jsonl\n") == Names{"a.jsonl"});
  CHECK(sets_of("- path: json\n  data_files: [a.jsonl, b.jsonl]\n- path: my/set\n") ==
        Names{"a.jsonl", "b.jsonl", "my/set"});
  CHECK(sets_of("- path: csv\n  data_files: {train: a.csv, test: b.csv}\n") == Names{"a.csv"});
  CHECK(sets_of("- path: my/set\n  data_files: part.jsonl\n") == Names{"my/set"});
}

TEST_CASE("rows have lengths, and pairs that of the longer answer") {
  using Lengths = std::map<std::int64_t, std::int64_t>;
  test::ScratchFolder folder;
  const auto count = [&](const char* name, const std::string& text) { return *count_rows(folder.write(name, text)); };
  const CountedRows pairs = count("a.jsonl",
                                  "{\"prompt\": \"one two\", \"chosen\": \"five\", \"rejected\": \"one two six\"}\n"
                                  "{\"prompt\": \"one\", \"chosen\": \"one two six\", \"rejected\": \"five\"}\n");
  CHECK(pairs.longer_of == Lengths{{4, 1}, {5, 1}});
  CHECK(pairs.rows_of == Lengths{{5, 1}, {6, 1}});
  CHECK(pairs.answers_of == Lengths{{2, 1}, {3, 1}, {4, 1}, {5, 1}});
  const CountedRows list = count("b.json",
                                 "[\n  {\"instruction\": \"one two\",\n   \"input\": \"\", \"output\": \"six\"},\n"
                                 "  {\"messages\": [{\"role\": \"u\", \"content\": \"one two six\"}]}\n]\n");
  CHECK(list.rows_of == Lengths{{3, 1}, {4, 1}});
  CHECK(list.longer_of.empty());
  CHECK(count("c.csv", "question,answer\none two,six\none,six").rows_of == Lengths{{4, 1}, {3, 1}});  // a comma is one
}

TEST_CASE("a script's load_dataset names the data: files by format, splits and their parts") {
  const auto sets = [](const std::string& loads) {
    const ConfigReading r =
        read_configs({{"train.py", loads + "args = DPOConfig(output_dir='o', max_length=512)\n"
                                           "trainer = DPOTrainer(model='Qwen/Qwen2.5-0.5B', args=args)\n"}},
                     kNothing);
    return r.setup.data_sets.value_or(std::vector<std::string>{});
  };
  using Names = std::vector<std::string>;
  CHECK(sets("ds = load_dataset('json', data_files='pairs.jsonl')['train']\n") == Names{"pairs.jsonl"});
  CHECK(sets("FILE = 'pairs.jsonl'\nds = load_dataset('json', data_files={'train': FILE, 'test': 'b.jsonl'}, "
             "split='train[:50]')\n") == Names{"pairs.jsonl#50"});
  CHECK(sets("ds = datasets.load_dataset('csv', data_files=['a.csv', 'b.csv'])\n") == Names{"a.csv", "b.csv"});
  CHECK(sets("ds = Dataset.from_json('pairs.jsonl')\n") == Names{"pairs.jsonl"});
  CHECK(sets("a = load_dataset('openai/gsm8k', 'main', split='test')\n"
             "b = load_dataset('openai/gsm8k', 'main', split='train[10%:30%]')\n") == Names{"openai/gsm8k#20%"});
  CHECK(sets("a = load_dataset('first', split='train')\nb = load_dataset('second', split='train')\n") ==
        Names{"first"});
  CHECK(sets("a = load_dataset('first')\nb = load_dataset('second')\nc = concatenate_datasets([a, b])\n") ==
        Names{"first", "second"});
  CHECK(sets("a = load_dataset(name_of(x))\nb = load_dataset('c', split='train[100:]')\n").empty());
}

TEST_CASE("rows of a script's preference data are counted, and what may leave fewer is told") {
  test::ScratchFolder folder;
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += "{\"prompt\": \"one two\", \"chosen\": \"five\", \"rejected\": \"six\"}\n";
  folder.write("pairs.jsonl", lines);
  const ConfigReading reading =
      read_configs({{"train.py",
                     "ds = load_dataset('json', data_files='pairs.jsonl', split='train[:80%]').filter(lambda x: x)\n"
                     "args = DPOConfig(output_dir='o', max_length=512)\n"
                     "trainer = DPOTrainer(model='Qwen/Qwen2.5-0.5B', args=args)\n"}},
                   kNothing);
  CHECK(std::ranges::any_of(reading.notes, [](const std::string& note) {
    return note.find("filter may leave fewer: --rows says them") != std::string::npos;
  }));
  EstimateRequest r = reading.request;
  r.cluster = parse_gpus("2xA6000");
  r.strategy = "ddp";
  std::vector<std::string> notes;
  const FindPath find = [&](const std::string& named, const std::string&) -> std::optional<std::filesystem::path> {
    return is_file(folder.path() / named) ? std::optional(folder.path() / named) : std::nullopt;
  };
  CHECK(settle_data(reading, find, {}, r, notes).has_rows);
  CHECK(r.dataset.rows == 8);
  CHECK(r.dataset.tokens_per_row == 3);  // the prompt's two words and one of either answer
}

TEST_CASE(
    "the longest row decides how long padded sequences are, and not those that are packed, padded to full length or "
    "generated") {
  const RowLengths about{.rows_of = {{100, 60}, {751, 4}}, .is_about = true}, exact{.rows_of = {{751, 4}}};
  CHECK(about.at_most() == 896);  // 751 + 75 + 64 = 890, in whole 64s
  CHECK(exact.at_most() == 768);
  CHECK(about.num_longer_than(100) == 4);
  std::vector<std::string> notes;
  EstimateRequest r;
  r.recipe.seq_len = 4096;
  const auto bounded = [&](Packing packing, const RowLengths& rows) {
    EstimateRequest one = r;
    one.recipe.packing = packing;
    bound_sequences(one, rows, notes);
    return one.recipe.seq_len;
  };
  CHECK(bounded(Packing::Packed, about) == 4096);
  CHECK(bounded(Packing::Padded, about) == 4096);
  CHECK(bounded(Packing::Dynamic, {}) == 4096);
  CHECK(notes.empty());
  CHECK(bounded(Packing::Dynamic, about) == 896);
  REQUIRE(notes.size() == 1);
  CHECK(notes.front().find("has about 751") != std::string::npos);
  r.recipe.seq_len = 512;  // rows are cut
  CHECK(bounded(Packing::Dynamic, about) == 512);
}

TEST_CASE("files on this machine say how long rows are, of pairs the longer answer with its prompt") {
  test::ScratchFolder folder;
  write_file_atomically(folder.path() / "pairs.jsonl",
                        "{\"prompt\": \"a b c\", \"chosen\": \"d e f g\", \"rejected\": \"h\"}\n");
  const ConfigReading reading =
      read_configs({{"file.yaml",
                     "base_model: Qwen/Qwen2.5-0.5B\nrl: dpo\nsequence_len: 4096\nmicro_batch_size: 1\n"
                     "gradient_accumulation_steps: 1\ndatasets:\n- path: pairs.jsonl\n"}},
                   kNothing);
  EstimateRequest r = reading.request;
  r.cluster = parse_gpus("2xA6000");
  r.strategy = "ddp";
  std::vector<std::string> notes;
  const FindPath find = [&](const std::string& named, const std::string&) {
    return std::optional(folder.path() / named);
  };
  const SettledData data = settle_data(reading, find, {}, r, notes);
  CHECK(data.lengths.is_about);
  CHECK(data.lengths.longest() == 7);  // "a b c" and "d e f g"
  CHECK(settle_data(reading, find, {.rows = false, .tokens_per_row = true}, r, notes).lengths.rows_of.empty());
}
