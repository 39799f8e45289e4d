// `gpuplan run --engine` as a user runs it, with launchers that write down how they are called.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "hostile_names.h"
#include "run_program/process.h"
#include "schemas/schemas.h"
#include "scratch_folder.h"

namespace gpuplan::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

std::string text_of_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_program(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
  fs::permissions(file, fs::perms::owner_all);
}

/// A folder with a model's shape, a plan, and launchers on its own PATH.
class Place {
 public:
  Place() {
    fs::create_directories(path() / "bin");
    for (const char* name : {"torchrun", "accelerate", "sbatch"})
      write_program(path() / "bin" / name, "#!/bin/sh\nprintf '%s\\000' \"$@\" > \"$SEEN\"\nexit \"${CODE:-0}\"\n");
    write_program(path() / "bin" / "python3", "#!/bin/sh\necho '{\"torch\": \"2.6.0\", \"accelerate\": \"1.10.0\"}'\n");
    std::ofstream(path() / "train.py") << "\n";
    const Finished saved = run({"estimate", "--model", "smollm2-135m", "--lora", "--gpus", "2xcpu", "--strategy", "ddp",
                                "--seq-len", "32", "--precision", "bf16-mixed", "--save", "plan.json"});
    REQUIRE_MESSAGE(fs::exists(path() / "plan.json"), saved.err);
  }
  const fs::path& path() const { return scratch_.path(); }
  Finished run(const Words& arguments, const std::string& code = "0") {
    fs::remove(seen());
    Process process(command(arguments, code), path());
    return process.wait();
  }
  Words command(const Words& arguments, const std::string& code = "0") const {
    Words words{"env",
                "-C",
                path().string(),
                "PATH=" + (path() / "bin").string() + ":/usr/bin:/bin",
                "SEEN=" + seen().string(),
                "CODE=" + code,
                "GPUPLAN_PROFILE_DIR=" + path().string(),
                GPUPLAN_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }
  /// What the launcher was given; empty where it was not started.
  Words arguments() const {
    Words out;
    std::istringstream text(text_of_file(seen()));
    for (std::string word; std::getline(text, word, '\0');) out.push_back(word);
    return out;
  }
  fs::path seen() const { return path() / "seen"; }

 private:
  ScratchFolder scratch_;
};

}  // namespace

TEST_CASE("run --engine starts the launcher with the plan and the script; --dry-run starts nothing") {
  Place place;
  Finished done = place.run({"run", "plan.json", "--engine", "torchrun", "--", "train.py", "--lr", "1"});
  CHECK_MESSAGE(done.code == 0, done.err);
  CHECK(place.arguments() == Words{"--standalone", "--nproc_per_node=2", "train.py", "--lr", "1"});
  done = place.run({"run", "plan.json", "--engine", "accelerate", "--", "train.py"});
  CHECK_MESSAGE(done.code == 0, done.err);
  const std::string file = (place.path() / "gpuplan-job" / "accelerate.yaml").string();
  CHECK(fs::exists(file));
  CHECK(place.arguments() == Words{"launch", "--config_file", file, "train.py"});
  done = place.run({"run", "plan.json", "--engine", "accelerate", "--job", "other", "--dry-run", "--", "train.py"});
  CHECK(done.code == 0);
  CHECK(done.out.find("==> accelerate.yaml <==") != std::string::npos);
  CHECK(done.out.find("launch --config_file") != std::string::npos);
  CHECK(place.arguments().empty());
  CHECK_FALSE(fs::exists(place.path() / "other"));
  done = place.run({"run", "plan.json", "--engine", "accelerate", "--job", "other", "--dry-run", "--", "none.py"});
  CHECK(done.code == 1);
  CHECK(done.err.find("it would not start here: none.py: no such file") != std::string::npos);
}

TEST_CASE("run --engine: exit codes, checks, files that are not ours") {
  Place place;
  const Words words{"run", "plan.json", "--engine", "torchrun", "--", "train.py"};
  Finished done = place.run(words, "4");
  CHECK(done.code == 3);
  CHECK(done.err.find("torchrun ended with exit code 4") != std::string::npos);
  done = place.run({"run", "plan.json", "--engine", "torchrun", "--", "none.py"});
  CHECK(done.code == 3);
  CHECK(done.err.find("none.py: no such file") != std::string::npos);
  CHECK(place.arguments().empty());
  done = place.run({"run", "plan.json", "--engine", "deepspeed", "--", "train.py"});
  CHECK(done.code == 1);  // DDP is no stage of ZeRO
  done = place.run({"run", "plan.json", "--engine", "deepspeed", "--json", "--", "train.py"});
  CHECK(done.code == 1);
  const auto refusal = nlohmann::json::parse(done.out);
  CHECK(test::schema_problem("run-dry", refusal) == "");
  CHECK(refusal.at("refusal") == "deepspeed starts stages of ZeRO, and the plan is ddp");
  CHECK(done.err.find("deepspeed starts stages of ZeRO") != std::string::npos);
  done = place.run({"run", "plan.json", "--engine", "torchrun", "--json", "--", "train.py"});
  CHECK_MESSAGE(done.code == 0, done.err);
  CHECK(test::schema_problem("run-engine", nlohmann::json::parse(done.out)) == "");
  done = place.run({"run", "plan.json", "--engine", "slurm", "--", "train.py", "--hub_token", "hf_abcdefgh"});
  const fs::path batch = place.path() / "gpuplan-job" / "job.sbatch";
  CHECK((fs::status(batch).permissions() & fs::perms::mask) == fs::perms::owner_all);
  CHECK((text_of_file(batch) + done.out + done.err).find("hf_abcdefgh") == std::string::npos);
  done = place.run({"run", "plan.json", "--engine", "horovod", "--", "train.py"});
  CHECK(done.code == 2);
  done = place.run({"run", "plan.json", "--dry-run"});
  CHECK(done.code == 2);
  std::ofstream(place.path() / "gpuplan-job" / "accelerate.yaml") << "mine: true\n";
  done = place.run({"run", "plan.json", "--engine", "accelerate", "--", "train.py"});
  CHECK(done.code == 2);
  CHECK(text_of_file(place.path() / "gpuplan-job" / "accelerate.yaml") == "mine: true\n");
}

TEST_CASE("run --engine: an out-of-memory message is compared with the prediction, and metrics stay in --job") {
  Place place;
  write_program(place.path() / "bin" / "torchrun",
                "#!/bin/sh\n"
                "echo '{\"event\": \"step\", \"step\": 1, \"loss\": 1.5, \"step_seconds\": 0.1}' > "
                "\"$GPUPLAN_METRICS/rank-0.jsonl\"\necho \"${PYTHONPATH%%:*}\" > path\n"
                "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
                "capacity of 23.64 GiB of which 1.20 GiB is free. Of the allocated memory 20.00 GiB is allocated by "
                "PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.' >&2\nexit 1\n");
  const Finished done = place.run({"run", "plan.json", "--engine", "torchrun", "--job", "job", "--", "train.py"});
  CHECK(done.code == 3);
  for (const char* part : {"out of memory", "2.0 GiB", "torchrun ended with exit code 1"})
    CHECK_MESSAGE(done.err.find(part) != std::string::npos, done.err);
  const std::string path = text_of_file(place.path() / "path");  // where a script of one's own finds the callback
  CHECK(fs::exists(fs::path(path.substr(0, path.find('\n'))) / "gpuplan_metrics.py"));
  CHECK(text_of_file(place.path() / "job" / "metrics" / "rank-0.jsonl").find("\"loss\": 1.5") != std::string::npos);
}

TEST_CASE("run --engine: what is missing is told at once, with exit code 3, and nothing is started") {
  Place place;
  const Words words{"run", "plan.json", "--engine", "accelerate", "--", "train.py"};
  const auto refused = [&](const Words& asked, const std::string& said) {
    const Finished done = place.run(asked);
    CAPTURE(said);
    CHECK(done.code == 3);
    CHECK_MESSAGE(done.err.find("nothing was started: ") != std::string::npos, done.err);
    CHECK_MESSAGE(done.err.find(said) != std::string::npos, done.err);
    CHECK(place.arguments().empty());
    CHECK_FALSE(fs::exists(place.path() / "gpuplan-job"));
  };
  const std::string python = text_of_file(place.path() / "bin" / "python3");
  write_program(place.path() / "bin" / "python3", "#!/bin/sh\necho '{\"torch\": \"2.6.0\"}'\n");
  refused(words, "python3 has no accelerate (");
  write_program(place.path() / "bin" / "python3",
                "#!/bin/sh\necho '{\"torch\": \"2.6.0\", \"accelerate\": \"0.1\"}'\n");
  refused(words, "accelerate 0.1 is older than ");
  write_program(place.path() / "bin" / "python3", python);

  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  REQUIRE(bind(listener, reinterpret_cast<const sockaddr*>(&address), size) == 0);
  REQUIRE(listen(listener, 1) == 0);
  REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  refused({"run", "plan.json", "--engine", "torchrun", "--port", port, "--", "train.py"},
          "port " + port + " is taken on this machine");
  close(listener);

  refused({"run", "--model", "smollm2-135m", "--lora", "--gpus", "2xA6000", "--strategy", "ddp", "--engine", "torchrun",
           "--", "train.py"},
          "NVIDIA");  // no driver on a machine without GPUs, others than the plan's on one that has some
  fs::remove(place.path() / "bin" / "accelerate");  // nor has Python its module
  write_program(place.path() / "bin" / "python3", "#!/bin/sh\necho '{}'\n");
  refused(words, "accelerate is not on the PATH");
}

TEST_CASE("run --engine: Ctrl-C ends the launcher, with exit code 3") {
  Place place;
  write_program(place.path() / "bin" / "torchrun", "#!/bin/sh\necho > \"$SEEN\"\nexec sleep 3600\n");
  Process run(place.command({"run", "plan.json", "--engine", "torchrun", "--", "train.py"}), place.path());
  for (const double until = now() + kPatience; now() < until && !fs::exists(place.seen());) sleep_seconds(0.02);
  run.signal(SIGINT);
  CHECK(run.wait().code == 3);
  CHECK(run.num_processes() == 0);
}

TEST_CASE("1,000 hostile arguments reach the launcher as they are, and --dry-run names them all") {
  Place place;
  const Words names = hostile_names();
  for (std::size_t first = 0; first < names.size(); first += 250) {
    Words words{"run", "plan.json", "--engine", "torchrun", "--", "train.py"};
    words.insert(words.end(), names.begin() + std::ptrdiff_t(first), names.begin() + std::ptrdiff_t(first) + 250);
    const Finished done = place.run(words);
    REQUIRE_MESSAGE(done.code == 0, done.err);
    const Words expected(words.begin() + 5, words.end());
    Words got = place.arguments();
    REQUIRE(got.size() == expected.size() + 2);
    got.erase(got.begin(), got.begin() + 2);
    CHECK(got == expected);
    words.insert(words.begin() + 4, {"--dry-run", "--json"});
    const auto dry = nlohmann::json::parse(place.run(words).out);
    CHECK(test::schema_problem("run-dry", dry) == "");
    Words said = dry["commands"][0]["words"];
    said.erase(said.begin(), said.begin() + 3);
    CHECK(said == expected);
  }
}

TEST_CASE("hostile names of job folders and scripts are names and nothing more") {
  Place place;
  const Words names = hostile_names();
  for (std::size_t i = 50; i < names.size(); i += 48) {
    std::string name = names[i];
    for (char& c : name)
      if (c == '/') c = '_';
    CAPTURE(name);
    const std::string script = "x" + name + ".py";
    std::ofstream(place.path() / script) << "\n";
    std::string job = "job" + name;
    if (std::erase_if(job, [](unsigned char c) { return c < 0x20 || c == 0x7f; }) > 0) {
      const Finished refused =
          place.run({"run", "plan.json", "--engine", "accelerate", "--job=job" + name, "--", script});
      CHECK(refused.code == 2);
      CHECK(refused.err.find("holds a control character") != std::string::npos);
      CHECK(!fs::exists(place.path() / ("job" + name)));
    }
    const Finished done = place.run({"run", "plan.json", "--engine", "accelerate", "--job=" + job, "--", script});
    REQUIRE_MESSAGE(done.code == 0, done.err);
    const Words got = place.arguments();
    REQUIRE(got.size() == 4);
    CHECK(got[2] == (place.path() / job / "accelerate.yaml").string());
    CHECK(got[3] == script);
    CHECK(fs::exists(place.path() / job / "accelerate.yaml"));
  }
}

}  // namespace gpuplan::test
