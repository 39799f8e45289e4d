// docs/limits.md as a contract: every input at its largest size is answered within the work and the memory that the
// page states, a larger one is refused with the limit, and the page states the sizes that the readers keep.
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/files.h"
#include "base/input_limits.h"
#include "base/unit_text.h"
#include "cluster/machine.h"
#include "questions/laws.h"
#include "sanitized.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// `head`, then `part` again and again, then `tail`: `bytes` in all, filled up with spaces before `tail`.
std::string filled(const std::string& head, const std::string& part, const std::string& tail, std::size_t bytes) {
  std::string out = head;
  out.reserve(bytes);
  while (!part.empty() && out.size() + part.size() + tail.size() <= bytes) out += part;
  out.resize(bytes - tail.size(), ' ');
  return out + tail;
}

const std::string kConfig =
    R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"intermediate_size":128,)"
    R"("num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":1000,)"
    R"("max_position_embeddings":4096,"rms_norm_eps":1e-5,"tie_word_embeddings":false,"torch_dtype":"bfloat16")";

/// A file of a kind, as dense as it may be, and a question that reads it.
struct Input {
  const InputLimit& limit;
  const char* file;
  std::function<std::string(std::size_t bytes)> content;
  const char* question;
};

std::string numbers_of(const char* head, const char* tail, std::size_t bytes) {
  return filled(head, "1,", tail, bytes);
}

const std::vector<Input>& inputs() {
  static const std::vector<Input> kInputs{
      {kConfigLimit, "config.json", [](std::size_t n) { return numbers_of((kConfig + ",\"x\":[").c_str(), "1]}", n); },
       "gpuplan estimate --model config.json --gpus 2xA6000 --json"},
      {kIndexLimit, "big/model.safetensors.index.json",
       [](std::size_t n) {
         std::string map;
         for (std::size_t i = 0; map.size() + 80 < n; ++i) map += fmt::format("\"t{}\":\"a.safetensors\",", i);
         return filled("{\"weight_map\":{" + map, "", "\"z\":\"a.safetensors\"}}", n);
       },
       "gpuplan models --show big --json"},
      {kPlanLimit, "plan.json", [](std::size_t n) { return numbers_of("{\"schema_version\":1,\"x\":[", "1]}", n); },
       "gpuplan estimate plan.json --json"},
      {kProfileLimit, "profile.yaml",
       [](std::size_t n) { return filled("id: big\nbased_on: default-ampere\nsamples:\n", "- {a: 1}\n", "", n); },
       "gpuplan estimate --model smollm2-135m --gpus 2xA6000 --profile profile.yaml --json"},
      {kClusterLimit, "machine.yaml",
       [](std::size_t n) {
         std::string keys;
         for (std::size_t i = 0; keys.size() + 100 < n; ++i) keys += fmt::format("k{}: 1\n", i);
         return filled(keys, "", "\n", n);
       },
       "gpuplan topology --cluster machine.yaml --json"},
      {kClusterLimit, "machine.xml",
       [](std::size_t n) { return filled("<system version=\"1\">", "<cpu numaid=\"0\"/>", "</system>\n", n); },
       "gpuplan topology --cluster machine.xml --gpu A6000 --json"},
      {kClusterLimit, "machine.txt",
       [](std::size_t n) { return filled("\tGPU0\tGPU1\nGPU0\tX\tPHB\n", "GPU1\tPHB\tX\n", "\n", n); },
       "gpuplan topology --cluster machine.txt --gpu A6000 --json"},
      {kLengthsLimit, "lengths.big", [](std::size_t n) { return filled("100\n", "7\n12\n", "\n", n); },
       "gpuplan estimate --model smollm2-135m --gpus 2xA6000 --lengths lengths.big --json"},
      {kTrainerLimit, "trainer.yaml", [](std::size_t n) { return filled("base_model: x\nlist:\n", "- 1\n", "", n); },
       "gpuplan estimate --from trainer.yaml --gpus 2xA6000 --json"},
      {kScriptLimit, "train.sh",
       [](std::size_t n) {
         return filled("torchrun sft.py --max_length 128 --packing --lora_r 8\n", "X=$((2*3)); export Y=\"$X $X\"\n",
                       "\n", n);
       },
       "gpuplan estimate --model smollm2-135m --from train.sh --gpus 2xA6000 --json"},
      {kScriptLimit, "train.py",
       [](std::size_t n) {
         return filled("SFTTrainer(args=SFTConfig(max_length=128))\n", "x = [1, 2, {'a': 3}]\n", "\n", n);
       },
       "gpuplan estimate --model smollm2-135m --from train.py --gpus 2xA6000 --json"},
      {kNotebookLimit, "train.ipynb",
       [](std::size_t n) {
         return filled(
             R"({"cells":[{"cell_type":"code","source":["SFTTrainer(args=SFTConfig(max_length=128))\n"],"outputs":[)",
             "1,", "1]}]}", n);
       },
       "gpuplan estimate --model smollm2-135m --from train.ipynb --gpus 2xA6000 --json"},
      {kPlanLimit, "trainer.json",
       [](std::size_t n) { return numbers_of("{\"zero_optimization\":{\"stage\":3},\"x\":[", "1]}", n); },
       "gpuplan estimate --model smollm2-135m --from trainer.json --gpus 2xA6000 --json"},
      {kLogLimit, "train.log",
       [](std::size_t n) {
         return filled(
             "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity "
             "of 23.64 GiB of which 1.20 GiB is free. Of the allocated memory 20.00 GiB is allocated by PyTorch, "
             "and 1.00 GiB is reserved by PyTorch but unallocated.\n",
             "{'loss': 1.2345, 'grad_norm': 0.5, 'learning_rate': 2e-05, 'epoch': 0.01}\n", "\n", n);
       },
       "gpuplan estimate --model smollm2-135m --from train.log --gpus 2xA6000 --json"},
      {kPricesLimit, "prices.yaml",
       [](std::size_t n) { return filled("prices:\n", "- {gpu: h100-sxm, vendor: x, usd_per_gpu_hour: 2}\n", "", n); },
       "gpuplan plan --model smollm2-135m --prices prices.yaml --lora r=8 --strategy ddp --micro-batch 1 --grad-accum "
       "1 --json"},
      {kHostsLimit, "hosts.big",
       [](std::size_t n) {
         std::string names;
         for (std::size_t i = 0; names.size() + 20 < n; ++i) names += fmt::format("n{}\n", i);
         return filled(names, "", "\n", n);
       },
       "gpuplan run lora.json --engine torchrun --dry-run --hosts hosts.big --json"}};
  return kInputs;
}

/// question_of() reads flags; a plan stands alone.
Question question_about(const Input& input) {
  std::string line = input.question;
  for (const char* alone : {" plan.json", " lora.json"})
    if (const std::size_t at = line.find(alone); at != std::string::npos) {
      line.erase(at, std::string(alone).size());
      Question q = question_of(line);
      q.flags.insert(q.flags.begin(), {"", alone + 1, true});
      return q;
    }
  return question_of(line);
}

void write(const std::string& file, const std::string& content) {
  if (file.starts_with("big/")) {
    std::filesystem::create_directory("big");
    std::ofstream("big/config.json") << kConfig + "}";
  }
  std::ofstream(file, std::ios::binary) << content;
}

/// For the page: what a machine takes for it is an example, the work is the same everywhere.
void print(const std::string& what, const Answered& a) {
  std::cout << fmt::format("{:<60} {:>5.1f} s {:>5} MiB, exit code {}", what, a.seconds, a.memory_bytes >> 20, a.code);
  for (int i = 0; i < kNumWorks; ++i)
    if (a.work[std::size_t(i)] > 0) std::cout << fmt::format(", {} {}", a.work[std::size_t(i)], to_string(Work(i)));
  std::cout << std::endl;
}

/// At the limit: answered, or refused for what stands in it. Above: refused with the limit.
std::string broken_limit(const Input& input) {
  const std::string refusal = fmt::format("is larger than {} MiB", input.limit.bytes / kMebibyte);
  write(input.file, input.content(input.limit.bytes));
  const Question question = question_about(input);
  const Answered at = ask(question);
  print(fmt::format("{} of {} MiB", input.file, input.limit.bytes / kMebibyte), at);
  if (std::string law = broken_law(question, at); !law.empty()) return "at the limit: " + law;
  if (at.err.find("is larger than") != std::string::npos) return "refused at the limit: " + at.err;
  write(input.file, input.content(input.limit.bytes + 1));
  const Answered above = ask(question);
  if (above.code != 2 || above.err.find(refusal) == std::string::npos)
    return fmt::format("above the limit: exit code {}: {}", above.code, above.err.substr(0, 300));
  std::filesystem::remove(input.file);
  return broken_law(question, above);
}

/// The largest numbers of what is counted.
const char* const kLargest[] = {
    "gpuplan estimate --model smollm2-135m --gpus 131072xH100 --json",
    "gpuplan simulate --model smollm2-135m --gpus 131072xH100 --strategy fsdp --json",
    "gpuplan simulate --model smollm2-135m --gpus 6400xH100 --strategy fsdp --no-fold --json",
    "gpuplan topology --gpus 4096xH100 --json",
    "gpuplan estimate --model smollm2-135m --gpus 4xA6000 --grad-accum 100000 --json",
    "gpuplan simulate --model smollm2-135m --gpus 4xA6000 --strategy ddp --straggler 0=1000 --grad-accum 5000 --json",
    "gpuplan plan --model llama-3-8b --json",
    "gpuplan plan --model mamba-370m --gpus 8xB200 --lora --min gpus --largest --json",
};
const char* const kTooLarge[] = {
    "gpuplan estimate --model smollm2-135m --gpus 131073xH100 --json",
    "gpuplan topology --gpus 4104xH100 --json",
    "gpuplan estimate --model smollm2-135m --gpus 4xA6000 --grad-accum 100001 --json",
    "gpuplan simulate --model smollm2-135m --gpus 4xA6000 --strategy ddp --straggler 0=1000 --grad-accum 100000 --json",
    "gpuplan simulate --model smollm2-135m --gpus 8192xH100 --strategy fsdp --no-fold --json",
    "gpuplan estimate --model smollm2-135m --gpus 4xA6000 --lora=r=1048577 --json",
};

std::string mesh_of(std::int64_t gpus) {
  return fmt::format("name: mesh\ngpu: A6000\ngpus_per_node: {}\nintra:\n  fabric: infinity-fabric\n  busbw_gb_s: 50\n",
                     gpus);
}

}  // namespace

namespace {

/// Minutes under sanitizers, which watch them in ./check --full.
auto large_inputs() { return doctest::skip(test::kIsSanitized && !std::getenv("GPUPLAN_ALL_ROUNDS")); }

}  // namespace

TEST_CASE("limits: every file at its largest size is answered, and a larger one is refused with the limit" *
          large_inputs()) {
  const int every = test::num_rounds(3, 3, 1);
  int num_asked = 0;
  for (const Input& input : inputs()) {
    if (num_asked++ % every != 0) continue;
    CAPTURE(std::string(input.file));
    CHECK(check_all({question_about(input)}, [&](const Question&) { return broken_limit(input); }).front() == "");
  }
}

TEST_CASE("limits: the largest numbers are answered, and larger ones are refused" * large_inputs()) {
  for (const char* const line : kLargest) {
    CAPTURE(std::string(line));
    CHECK(check_all({question_of(line)}, [](const Question& q) {
            const Answered a = ask(q);
            print(q.line(), a);
            const std::string law = broken_law(q, a);
            return law.empty() && a.code == 2 ? a.err : law;
          }).front() == "");
  }
  for (const char* const line : kTooLarge) {
    CAPTURE(std::string(line));
    CHECK(check_all({question_of(line)}, [](const Question& q) {
            const Answered a = ask(q);
            const std::string law = broken_law(q, a);
            return law.empty() && a.code != 2 ? std::string("is answered") : law;
          }).front() == "");
  }
  for (const std::int64_t gpus : {kMostInMesh, kMostInMesh + 1})
    CHECK(check_all({question_of("gpuplan topology --cluster mesh.yaml --json")}, [&](const Question& q) {
            write("mesh.yaml", mesh_of(gpus));
            const Answered a = ask(q);
            print(fmt::format("a mesh of {} GPUs", gpus), a);
            const std::string law = broken_law(q, a);
            return !law.empty()                            ? law
                   : (a.code == 2) == (gpus > kMostInMesh) ? std::string()
                                                           : "exit code wrong: " + a.err;
          }).front() == "");
}

TEST_CASE("limits: the deepest models are searched, and deeper ones are refused" * large_inputs()) {
  constexpr int kMostLayers = 1024;
  for (const int layers : {kMostLayers, kMostLayers + 1})
    for (const char* const line : {"gpuplan estimate --model deep.json --gpus 2xA6000 --json",
                                   "gpuplan plan --model deep.json --gpus 2xA6000 --lora --json"}) {
      CAPTURE(std::string(line));
      CHECK(check_all({question_of(line)}, [&](const Question& q) {
              std::string config = kConfig + "}";
              const std::string shallow = "\"num_hidden_layers\":2";
              config.replace(config.find(shallow), shallow.size(), fmt::format("\"num_hidden_layers\":{}", layers));
              write("deep.json", config);
              const Answered a = ask(q);
              print(fmt::format("{} layers, {}", layers, q.command), a);
              const std::string law = broken_law(q, a);
              return !law.empty() || (a.code == 2) == (layers > kMostLayers) ? law : "exit code wrong: " + a.err;
            }).front() == "");
    }
}

TEST_CASE("limits: a safetensors header of many tensors is read in time, and one above the format's limit is refused" *
          large_inputs()) {
  constexpr std::size_t kLongest = 100'000'000;  // the reference reader's
  for (const std::size_t bytes : {kLongest, kLongest + 1})
    CHECK(
        check_all({question_of("gpuplan estimate --model heads --gpus 2xA6000 --json")}, [&](const Question& q) {
          std::filesystem::create_directory("heads");
          std::ofstream("heads/config.json") << kConfig + "}";
          std::string tensors = "{";
          std::size_t end = 0;
          for (std::size_t i = 0; tensors.size() + 200 < bytes; ++i, end += 2)
            tensors +=
                fmt::format("\"t{}\":{{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[{},{}]}},", i, end, end + 2);
          tensors.back() = '}';
          tensors.resize(bytes, ' ');
          std::ofstream file("heads/model.safetensors", std::ios::binary);
          for (int i = 0; i < 8; ++i) file.put(char(bytes >> (8 * i) & 255));
          file << tensors << std::string(end, '\0');
          file.close();
          const Answered a = ask(q);
          print(fmt::format("a header of {} bytes", bytes), a);
          const std::string law = broken_law(q, a);
          const bool is_refused_for_size = a.err.find("a header of") != std::string::npos;
          return !law.empty() ? law : is_refused_for_size == (bytes > kLongest) ? std::string() : a.err.substr(0, 300);
        }).front() == "");
}

TEST_CASE("limits: rows of any number are read as --lengths reads them, and none is longer than a row may be" *
          large_inputs()) {
  const Question lengths =
                     question_of("gpuplan estimate --model smollm2-135m --gpus 2xA6000 --lengths rows.jsonl --json"),
                 data = question_of("gpuplan estimate --model smollm2-135m --gpus 2xA6000 --data rows.jsonl --json");
  CHECK(check_all({data}, [&](const Question& q) {
          write("rows.jsonl", filled("", "{\"input_ids\":[1]}\n", "\n", 18 * 300'000));
          const Answered by_rows = ask(q), by_lengths = ask(lengths);
          print("300,000 rows of --data", by_rows), print("300,000 rows of --lengths", by_lengths);
          if (std::string law = broken_law(q, by_rows); !law.empty()) return law;
          if (by_rows.memory_bytes > by_lengths.memory_bytes + (std::int64_t(64) << 20))
            return std::string("--data needs more memory");
          return std::string();
        }).front() == "");
  CHECK(check_all({data}, [](const Question& q) {
          const std::string head = "{\"input_ids\":[1", tail = "]}";
          for (const std::size_t bytes : {kRowLimit.bytes, kRowLimit.bytes + 1}) {
            write("rows.jsonl", filled(head, ",1", tail, bytes) + "\n{\"input_ids\":[1]}\n");
            const Answered a = ask(q);
            print(fmt::format("a row of {} bytes", bytes), a);
            if (std::string law = broken_law(q, a); !law.empty()) return law;
            const bool is_refused = a.err.find("rows.jsonl:1: is larger than 16 MiB") != std::string::npos;
            if (is_refused != (bytes > kRowLimit.bytes)) return "exit code wrong: " + a.err;
          }
          return std::string();
        }).front() == "");
  CHECK(check_all({data},
                  [](const Question& q) {  // zeros without an end: no more than a row of them is looked at
                    write("rows.jsonl", "");
                    std::filesystem::resize_file("rows.jsonl", std::uintmax_t(4) << 30);
                    const Answered a = ask(q);
                    print("4 GiB of zeros", a);
                    if (std::string law = broken_law(q, a); !law.empty()) return law;
                    if (a.memory_bytes > std::int64_t(256) << 20)
                      return fmt::format("{} bytes of memory", a.memory_bytes);
                    return a.err.find("rows.jsonl:1: is larger than 16 MiB") != std::string::npos ? std::string()
                                                                                                  : a.err;
                  })
            .front() == "");
}

TEST_CASE("limits: long names and paths are refused with one message") {
  const std::string name(100'000, 'n');
  for (const char* flag :
       {"--model", "--gpus", "--cluster", "--profile", "--framework", "--optimizer", "--from", "--save"}) {
    Question q = question_of("gpuplan estimate --model smollm2-135m --gpus 2xA6000 --json");
    q = q.with(flag, name);
    CAPTURE(std::string(flag));
    CHECK(check_all({q}, [](const Question& long_one) {
            const Answered a = ask(long_one);
            if (a.code != 2 && a.code != 3) return fmt::format("exit code {}", a.code);
            return a.code == 3 ? std::string() : broken_law(long_one, a);  // 3: the system refuses it as a file
          }).front() == "");
  }
}

TEST_CASE("docs/limits.md states the limits that are kept") {
  const std::string page = read_file(std::filesystem::path(GPUPLAN_TEST_DIR).parent_path() / "docs" / "limits.md");
  for (const InputLimit& limit : kInputLimits) {
    CAPTURE(std::string(limit.input));
    CHECK(page.find(fmt::format("| {} | {} MiB |", limit.input, limit.bytes / kMebibyte)) != std::string::npos);
  }
  for (const std::string& number :
       {fmt::format("{}", kMostGpus), fmt::format("{}", kMostInMesh), std::string("2,500,000"),
        format_grouped(kMostWork[0]), format_grouped(kMostWork[1]), format_grouped(kMostWork[2])})
    CHECK(page.find(number) != std::string::npos);
}

TEST_CASE("simulations of one question share the number of tasks") {
  const Question alone = question_of(
      "gpuplan simulate --model smollm2-135m --gpus 2xA6000 --strategy ddp --grad-accum 3000 --network analytic");
  const Question compared = alone.with("--compare", "zero1,zero2,zero3,fsdp,fsdp-grad-op,mp,zero1,zero2");
  const auto is_answered = [](const Question& q) -> std::string { return ask(q).code == 0 ? "" : "refused"; };
  const auto says_why = [](const Question& q) -> std::string {
    const Answered a = ask(q);
    return a.code == 2 && a.err.find("can be simulated for each step that is asked for") != std::string::npos ? ""
                                                                                                              : a.err;
  };
  CHECK(check_all({alone}, is_answered).front() == "");
  CHECK(check_all({compared}, says_why).front() == "");
}
