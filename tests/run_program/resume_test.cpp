// kill -9 at random moments: nothing is damaged, nothing is done twice, and the losses are those of a run that was
// never killed.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <random>

#include "run_program/small_run.h"
#include "sanitized.h"

using namespace gpuplan::test;

namespace {

std::vector<std::int64_t> steps_of(const std::vector<nlohmann::json>& lines) {
  std::vector<std::int64_t> out;
  for (const auto& line : lines) out.push_back(line.at("step").get<std::int64_t>());
  return out;
}

/// Kills runs of `flags` until `num_kills` of them were still running, resuming each time, and to the end after every
/// few.
void kill_and_resume(const std::string& flags, int num_kills, std::uint32_t seed) {
  const SmallRun r;
  std::mt19937 draw(seed);
  const Finished whole = r.run(flags + " --metrics " + r.at("whole.jsonl"));
  REQUIRE(whole.code == 0);
  const auto expected = r.losses("whole.jsonl");
  const std::string resumed = flags + " --save-every 2 --keep 2 --output " + r.at("out") + " --resume";
  int kills = 0;
  double longest_wait = 0.9 * whole.seconds;  // shrinks where runs end first: the first one may have met a busy machine
  for (int tries = 0; kills < num_kills && tries < 10 * num_kills; ++tries) {
    Process run(r.command(resumed), r.path());
    sleep_seconds(longest_wait * double(draw() % 1000) / 1000);
    const bool was_running = run.is_running();
    if (!was_running) longest_wait *= 0.8;
    run.signal(SIGKILL);
    if (!was_running) CHECK(run.wait().code == 0);
    kills += was_running;
    run.wait();
    for (int i = 0; flags.find("--gpus") != std::string::npos && i < 1000 && run.num_processes() > 0; ++i)
      sleep_seconds(0.05);
    CHECK(run.num_processes() == 0);
    if (was_running && tries % 4 != 3 && kills < num_kills) continue;
    const Finished last = r.run(resumed);
    CAPTURE(last.err);
    CHECK(last.code == 0);
    CHECK(r.losses() == expected);
    CHECK(steps_of(r.metrics()) == steps_of(r.metrics("whole.jsonl")));
    std::filesystem::remove_all(r.at("out"));
  }
  CHECK(kills == num_kills);
}

/// Launchers end of these: out of memory, a closed pipe, and what schedulers send as a warning and at the end.
constexpr int kEnds[] = {SIGKILL, SIGPIPE, SIGUSR1, SIGTERM, SIGUSR2};

/// Ends launchers at random moments and starts the run again at once, as `until ...; do :; done`, systemd and Slurm's
/// requeue do: never a wrong loss, never a hang, and where the folder is still held that is said.
void restart_at_once(const std::string& flags, int num_ends, std::uint32_t seed) {
  const SmallRun r;
  std::mt19937 draw(seed);
  const Finished whole = r.run(flags + " --metrics " + r.at("whole.jsonl"));
  REQUIRE(whole.code == 0);
  const auto expected = r.losses("whole.jsonl");
  const std::string resumed = flags + " --save-every 2 --output " + r.at("out") + " --resume";
  for (int n = 0; n < num_ends;) {
    std::vector<std::unique_ptr<Process>> ended;  // and not waited for
    for (int k = 0; k < 3; ++k, ++n) {
      std::filesystem::create_directories(r.path() / std::to_string(k));
      ended.push_back(std::make_unique<Process>(r.command(resumed), r.path() / std::to_string(k)));
      sleep_seconds(whole.seconds * double(draw() % 1000) / 1000);
      ended.back()->signal(kEnds[std::size_t(n) % std::size(kEnds)]);
      sleep_seconds(2 * double(draw() % 4) / 4);
    }
    Finished last;
    for (int tries = 0; tries < 100; ++tries) {
      last = r.run(resumed);
      const bool is_held = last.err.find("writes to this folder") != std::string::npos ||
                           last.err.find("still write there") != std::string::npos;
      if (last.code != 3 || !is_held) break;
    }
    CAPTURE(last.err);
    CHECK(last.code == 0);
    CHECK(r.losses() == expected);
    CHECK(steps_of(r.metrics()) == steps_of(r.metrics("whole.jsonl")));
    for (const auto& process : ended) {
      const Finished f = process->wait();
      CAPTURE(f.err);
      CHECK(f.code != -1);  // it hung
      CHECK(f.code != 4);
      CHECK(f.err.find("must be one folder") == std::string::npos);
      CHECK(f.err.find("sees another") == std::string::npos);
      CHECK(process->num_processes() == 0);
    }
    std::filesystem::remove_all(r.at("out"));
  }
}

}  // namespace

TEST_CASE("resume: launchers that are ended and started again at once") {
  const bool is_long = std::getenv("GPUPLAN_FAULTS");  // 27 times under each
  std::vector<std::string> all{"2xcpu --strategy ddp", "2xcpu --strategy fsdp"};
  if (is_long)
    for (const char* const strategy : {"zero1", "zero2", "zero3", "fsdp-grad-op", "mp"})
      all.push_back(std::string("2xcpu --strategy ") + strategy);
  if (is_long) all.push_back("4xcpu --strategy hsdp --shard-size 2");
  for (const std::string& ranks : all) {
    CAPTURE(ranks);
    restart_at_once("--full --max-steps 24 --gpus " + ranks, is_long ? 27 : 3, 4);
  }
}

namespace {

namespace fs = std::filesystem;

/// A message must hold one of these; the folders alone stand in every hint.
constexpr const char* kNamed[] = {"sees another latest checkpoint",
                                  "sees another content of trainer_state.json",
                                  "sees another run that holds",
                                  "sees another data",
                                  "trainer_state.json: ",
                                  "rank-00001-of-00002.safetensors: ",
                                  "holds no state of rank 1",
                                  "belongs to another program",
                                  "is another program's"};

void flip_byte(const fs::path& file, std::int64_t from_end) {
  std::fstream data(file, std::ios::binary | std::ios::in | std::ios::out);
  data.seekg(-from_end, std::ios::end);
  const auto at = data.tellg();
  const char byte = char(data.get());
  data.seekp(at);
  data.put(char(byte ^ 1));
}

}  // namespace

TEST_CASE("resume: ranks that see different folders, checkpoints or files are named before the first step") {
  const SmallRun r;
  const std::string flags = "--full --gpus 2xcpu --strategy ddp --max-steps 8 --save-every 2";
  REQUIRE(r.run(flags + " --output " + r.at("first")).code == 0);
  REQUIRE(r.run(flags + " --seed 2 --output " + r.at("second")).code == 0);
  r.scratch().write("other.bin", r.content("tokens.bin") + "ab");
  struct View {
    std::string name;
    std::function<void(const fs::path& own, const fs::path& other)> stage;
    const char* other_flags = "";
    const char* said = nullptr;  // what it must be called; else one of kNamed
  };
  const char *const kStep = "sees another latest checkpoint",
                    *const kState = "sees another content of trainer_state.json",
                    *const kRun = "sees another run that holds --output";
  const auto replace = [&](const fs::path& folder, const char* what) {
    fs::remove_all(folder / what);
    fs::copy(r.at("second") + "/" + what, folder / what, fs::copy_options::recursive);
  };
  const fs::path state = "checkpoint-6/trainer_state.json", rank = "checkpoint-6/rank-00001-of-00002.safetensors";
  const std::vector<View> views{
      {"one checkpoint less", [&](auto, auto other) { fs::remove_all(other / "checkpoint-6"); }, "", kStep},
      {"one checkpoint more", [&](auto own, auto) { fs::remove_all(own / "checkpoint-6"); }, "", kStep},
      {"two checkpoints less",
       [&](auto, auto other) { fs::remove_all(other / "checkpoint-6"), fs::remove_all(other / "checkpoint-4"); }, "",
       kStep},
      {"none",
       [&](auto, auto other) {
         for (const char* c : {"checkpoint-2", "checkpoint-4", "checkpoint-6"}) fs::remove_all(other / c);
       },
       "", kStep},
      {"rank 0 sees none",
       [&](auto own, auto) {
         for (const char* c : {"checkpoint-2", "checkpoint-4", "checkpoint-6"}) fs::remove_all(own / c);
       },
       "", kStep},
      {"another run's checkpoint", [&](auto, auto other) { replace(other, "checkpoint-6"); }, "", kState},
      {"rank 0 sees another run's", [&](auto own, auto) { replace(own, "checkpoint-6"); }, "", kState},
      {"a changed state", [&](auto, auto other) { flip_byte(other / state, 20); }},
      {"rank 0 sees a changed state", [&](auto own, auto) { flip_byte(own / state, 20); }},
      {"a torn state", [&](auto, auto other) { fs::resize_file(other / state, 100); }},
      {"an empty state", [&](auto, auto other) { fs::resize_file(other / state, 0); }},
      {"no state", [&](auto, auto other) { fs::remove(other / state); }},
      {"no state of its own", [&](auto, auto other) { fs::remove(other / rank); }},
      {"a torn state of its own", [&](auto, auto other) { fs::resize_file(other / rank, 5000); }},
      {"another run's state of its own",
       [&](auto, auto other) {
         fs::copy_file(fs::path(r.at("second")) / rank, other / rank, fs::copy_options::overwrite_existing);
       }},
      {"a changed state of its own", [&](auto, auto other) { flip_byte(other / rank, 9); }},
      {"a checkpoint under another name",
       [&](auto, auto other) { fs::rename(other / "checkpoint-6", other / "checkpoint-7"); }},
      {"another folder", [&](auto, auto other) { fs::remove(other / ".gpuplan.lock"); }, "", kRun},
      {"no folder", [&](auto, auto other) { fs::remove_all(other); }},
      {"other data", [&](auto, auto) {}, " --data DATA"},
      {"another run in the lock",
       [&](auto, auto other) {
         fs::remove(other / ".gpuplan.lock"), std::ofstream(other / ".gpuplan.lock") << "17 process 1 on x\n";
       },
       "", kRun},
  };
  const std::size_t every = std::size_t(num_rounds(4, 4, 1));
  for (std::size_t i = 0; i < views.size(); i += every) {
    const View& view = views[i];
    CAPTURE(view.name);
    fs::remove_all(r.at("own")), fs::remove_all(r.at("other")), fs::remove(r.at("metrics.jsonl"));
    fs::copy(r.at("first"), r.at("own"), fs::copy_options::recursive);
    fs::copy(r.at("first"), r.at("other"), fs::copy_options::recursive);
    r.scratch().write("own/.gpuplan.lock", "");  // one file under both names, as if both were one folder
    fs::create_hard_link(r.at("own") + "/.gpuplan.lock", r.at("other") + "/.gpuplan.lock");
    view.stage(r.at("own"), r.at("other"));
    std::string other_flags = view.other_flags;
    if (!other_flags.empty()) other_flags = " --data " + r.at("other.bin");
    const Finished f = r.run_ranks(
        {flags + " --resume --output " + r.at("own"), flags + " --resume --output " + r.at("other") + other_flags});
    CAPTURE(f.err);
    CHECK((f.code == 2 || f.code == 3));
    const auto is_said = [&](const char* phrase) { return f.err.find(phrase) != std::string::npos; };
    const bool is_named = view.said ? is_said(view.said) : std::ranges::any_of(kNamed, is_said);
    CHECK(is_named);
    CHECK(!fs::exists(r.at("metrics.jsonl")));
  }
}

TEST_CASE("resume: kills of a single rank") {
  kill_and_resume("--full --max-steps 24 --micro-batch 2", num_rounds(15, 15, 40), 1);
}
TEST_CASE("resume: 5 kills of two ranks, replicated") {
  kill_and_resume("--full --gpus 2xcpu --strategy ddp --max-steps 24", 5, 2);
}
TEST_CASE("resume: 5 kills of two ranks, sharded") {
  kill_and_resume("--lora=r=3,base=fp32 --gpus 2xcpu --strategy fsdp --max-steps 24", 5, 3);
}

TEST_CASE("resume: what the checkpoint was not written with is refused by name") {
  const SmallRun r;
  auto config = nlohmann::json::parse(r.content("model/config.json"));
  config["rms_norm_eps"] = 1e-6;
  r.scratch().write("other/config.json", config.dump());
  struct Saved {
    std::string flags;
    std::vector<std::pair<std::string, std::string>> others;  // and what they are told to differ in
  };
  const std::string lora = "--lora=r=3,base=fp32", full = "--full ", two = full + "--gpus 2xcpu --strategy ";
  const std::vector<Saved> all{{full,
                                {{full + "--micro-batch 2", "micro_batch"},
                                 {full + "--grad-accum 2", "grad_accum"},
                                 {full + "--seq-len 12", "seq_len"},
                                 {full + "--seed 2", "seed"},
                                 {full + "--no-shuffle", "shuffles"},
                                 {full + "--packing padded", "packing"},
                                 {full + "--optimizer adamw-8bit", "optimizer"},
                                 {full + "--precision bf16-mixed", "precision"},
                                 {full + "--strategy zero2 --offload optimizer", "offload"},
                                 {full + "--model " + r.at("other"), "model"},
                                 {two + "ddp", "num_ranks"}}},
                               {lora,
                                {{"--lora=r=3,alpha=4,base=fp32", "lora_alpha"},
                                 {"--lora=r=2,alpha=6,base=fp32", "rank"},
                                 {lora + ",targets=q_proj", "lora_targets"},
                                 {"--qlora=r=3", "method"}}},
                               {"--qlora=r=3", {{"--qlora=r=3,double=no", "quantisation"}}},
                               {two + "zero1", {{two + "zero2", "strategy"}, {two + "ddp", "sharded_over"}}}};
  for (const Saved& saved : all) {
    std::filesystem::remove_all(r.at("out"));
    const std::string more = " --max-steps 5 --save-every 2 --output " + r.at("out");
    CHECK(r.run(saved.flags + more).code == 0);
    for (const auto& [flags, name] : saved.others) {
      CAPTURE(flags);
      const Finished other = r.run(flags + more + " --resume");
      CHECK(other.code == 2);
      check_has(other.err, "was written with another " + name + ":");
    }
  }
  const Finished nowhere = r.run("--full --resume");
  CHECK(nowhere.code == 2);
  check_has(nowhere.err, "--output");
}

TEST_CASE("resume: weights and data are known by what they hold, wherever they lie") {
  const SmallRun r;
  REQUIRE(r.run("--full --max-steps 1 --output " + r.at("base")).code == 0);
  const std::string flags = "--lora=r=2,base=fp32 --init none --max-steps 6 --save-every 2 --output " + r.at("out");
  const auto resumed = [&](const std::string& model, const std::string& data) {
    std::filesystem::remove_all(r.at("out/checkpoint-4"));
    return r.run(flags + " --resume --model " + model + " --data " + data);
  };
  REQUIRE(r.run(flags + " --model " + r.at("base") + " --data " + r.at("tokens.bin")).code == 0);
  std::filesystem::rename(r.at("base"), r.at("moved"));
  const Finished moved = resumed(r.at("moved") + "/", r.at("model/../tokens.bin"));
  CHECK_MESSAGE(moved.code == 0, moved.err);

  std::string tokens = r.content("tokens.bin");
  std::swap(tokens[0], tokens[2]);  // the same size
  r.scratch().write("other.bin", tokens);
  const Finished other_data = resumed(r.at("moved"), r.at("other.bin"));
  CHECK(other_data.code == 2);
  check_has(other_data.err, "checkpoint-2 was written with another data");

  std::string weights = r.content("moved/model.safetensors");
  weights.back() = char(weights.back() ^ 1);
  r.scratch().write("moved/model.safetensors", weights);
  const Finished other_weights = resumed(r.at("moved"), r.at("tokens.bin"));
  CHECK(other_weights.code == 2);
  check_has(other_weights.err, "another weights");
}

TEST_CASE("resume: what turns data into tokens, and the letters of trainer_state.json, are part of what a run is") {
  const SmallRun r;
  std::string rows;
  for (int i = 0; i < 64; ++i) {
    rows += "{\"input_ids\":[" + std::to_string(i);
    for (int k = 1; k < (i % 2 == 0 ? 12 : 20); ++k) rows += "," + std::to_string((i + k) % 101);
    rows += "]}\n";
  }
  r.scratch().write("rows.jsonl", rows);  // 64 examples padded, and as many packed
  const std::string flags = "--full --max-steps 5 --save-every 2 --output " + r.at("out");
  REQUIRE(r.run(flags + " --data " + r.at("rows.jsonl") + " --packing padded").code == 0);
  const Finished packed = r.run(flags + " --resume --data " + r.at("rows.jsonl") + " --packing packed");
  CHECK(packed.code == 2);
  check_has(packed.err, "was written with another packing");

  const std::string facts = r.content("out/checkpoint-4/trainer_state.json");
  for (std::size_t at = 0; at < facts.size(); at += 1 + facts.size() / 7) {
    std::string changed = facts;
    changed[at] = char(changed[at] ^ 1);
    r.scratch().write("out/checkpoint-4/trainer_state.json", changed);
    const Finished f = r.run(flags + " --resume --data " + r.at("rows.jsonl") + " --packing padded");
    CAPTURE(f.err);
    CHECK(f.code == 2);
  }
  std::string renamed = facts;
  renamed.replace(renamed.find("settings"), 8, "settingz");
  r.scratch().write("out/checkpoint-4/trainer_state.json", renamed);
  const Finished f = r.run(flags + " --resume --lr 1e-3 --data " + r.at("rows.jsonl") + " --packing padded");
  CHECK(f.code == 2);
  check_has(f.err, "trainer_state.json");
  r.scratch().write("out/checkpoint-4/trainer_state.json", facts);
  CHECK(r.run(flags + " --resume --data " + r.at("rows.jsonl") + " --packing padded").code == 0);
}

TEST_CASE("resume: ranks that share layers, or are stages, end where they would have ended; others are told") {
  const SmallRun r({.hidden = 48, .ffn = 52, .layers = 4, .heads = 8, .kv_heads = 4, .vocab = 104});
  const std::string two = "--lora=r=3,base=fp32 --gpus 2xcpu --strategy single --grad-accum 4 --save-every 2",
                    tp = two + " --tp 2", pp = two + " --pp 2";
  for (const auto& [saved, others] :
       {std::pair{tp + " --sp", std::vector<std::pair<std::string, std::string>>{{pp, "another pp: null"}}},
        std::pair{pp, std::vector<std::pair<std::string, std::string>>{
                          {tp, "another tp: null"}, {pp + " --virtual-stages 2", "another virtual_stages: 1"}}}}) {
    CAPTURE(saved);
    for (const char* const folder : {"whole", "parts"}) std::filesystem::remove_all(r.at(folder));
    CHECK(r.run(saved + " --max-steps 4 --output " + r.at("whole")).code == 0);
    fs::copy(r.at("whole"), r.at("parts"), fs::copy_options::recursive);
    fs::remove(r.at("parts/adapter_model.safetensors"));
    for (const auto& [flags, name] : others) {
      CAPTURE(flags);
      const Finished other = r.run(flags + " --max-steps 4 --resume --output " + r.at("parts"));
      CHECK(other.code == 2);
      check_has(other.err, name);
    }
    CHECK(r.run(saved + " --max-steps 4 --resume --output " + r.at("parts")).code == 0);
    CHECK(r.content("whole/adapter_model.safetensors") == r.content("parts/adapter_model.safetensors"));
  }
}

TEST_CASE("resume: every byte of the tokenizer and of its configuration is part of what a run on text is") {
  const SmallRun r;
  const fs::path folder = fs::path(GPUPLAN_TEST_DIR) / "run/data/tokenizer";
  fs::copy(folder / "tokenizer.model", r.at("model/tokenizer.model"));
  r.scratch().write("model/tokenizer_config.json", R"({"add_bos_token": true})");
  std::string rows;
  for (int i = 0; i < 40; ++i)
    rows += R"({"text": "the quick fox jumps over the lazy dog"})"
            "\n";
  r.scratch().write("text.jsonl", rows);
  const std::string flags =
      "--full --max-steps 5 --save-every 2 --data " + r.at("text.jsonl") + " --output " + r.at("out");
  const Finished whole = r.run(flags);
  if (whole.err.find("libsentencepiece-dev") != std::string::npos) {
    MESSAGE("skipped: gpuplan was built without SentencePiece");
    return;
  }
  REQUIRE_MESSAGE(whole.code == 0, whole.err);
  const std::string model = r.content("model/tokenizer.model");
  const auto resume_with = [&](const std::string& of_model, const std::string& configuration) {
    r.scratch().write("model/tokenizer.model", of_model);
    r.scratch().write("model/tokenizer_config.json", configuration);
    return r.run(flags + " --resume");
  };
  for (const char* const configuration : {R"({"add_bos_token": false})", R"({"add_bos_token": true })", "{}"}) {
    CAPTURE(configuration);
    const Finished f = resume_with(model, configuration);
    CHECK(f.code == 2);
    check_has(f.err, "was written with another");
  }
  for (std::size_t at = 0; at < model.size(); at += 1 + model.size() / 12) {
    CAPTURE(at);
    std::string changed = model;
    changed[at] = char(changed[at] ^ 1);
    const Finished f = resume_with(changed, R"({"add_bos_token": true})");
    CAPTURE(f.err);
    CHECK(f.code == 2);
  }
  const Finished same = resume_with(model, R"({"add_bos_token": true})");
  CHECK_MESSAGE(same.code == 0, same.err);
}

TEST_CASE("resume: one input that changed, drawn at random, is refused, or changes no loss") {
  const SmallRun r;
  REQUIRE(r.run("--full --max-steps 1 --output " + r.at("base")).code == 0);
  const std::string flags = "--lora=r=2,base=fp32 --init none --gpus 2xcpu --strategy zero2 --save-every 2 --model " +
                            r.at("base") + " --output " + r.at("out") + " --data " + r.at("tokens.bin");
  REQUIRE(r.run(flags + " --max-steps 6").code == 0);
  const auto expected = r.losses();
  for (const char* const name : {"out", "base", "tokens.bin", "metrics.jsonl"})
    fs::copy(r.at(name), r.at(std::string("kept-") + name), fs::copy_options::recursive);
  const std::vector<std::string> settings{
      "--lr 1e-3",        "--seed 2",   "--micro-batch 2",   "--grad-accum 2", "--seq-len 12",          "--no-shuffle",
      "--packing padded", "--clip 0.5", "--schedule cosine", "--warmup 3",     "--precision bf16-mixed"};
  std::mt19937 draw(5);
  int num_refused = 0;
  const int num_draws = std::getenv("GPUPLAN_FAULTS") ? 200 : 8;
  for (int n = 0; n < num_draws; ++n) {
    for (const char* const name : {"out", "base", "tokens.bin", "metrics.jsonl"}) {
      fs::remove_all(r.at(name));
      fs::copy(r.at(std::string("kept-") + name), r.at(name), fs::copy_options::recursive);
    }
    fs::remove_all(r.at("out/checkpoint-6"));
    std::vector<fs::path> files{r.at("tokens.bin")};
    for (const char* const folder : {"base", "out/checkpoint-4"})
      for (const auto& item : fs::directory_iterator(r.at(folder)))
        if (item.is_regular_file() && item.file_size() > 0) files.push_back(item.path());
    std::sort(files.begin(), files.end());
    std::string changed, changed_file;
    if (const std::size_t which = draw() % (files.size() + 3); which < files.size()) {
      flip_byte(files[which], 1 + std::int64_t(draw() % fs::file_size(files[which])));
      changed_file = files[which].string();
    } else {
      changed = " " + settings[draw() % settings.size()];
    }
    const Finished f = r.run(flags + " --max-steps 6 --resume" + changed);
    CAPTURE(n);
    CAPTURE(changed);
    CAPTURE(changed_file);
    CAPTURE(f.err);
    CHECK((f.code == 0 || f.code == 2));
    if (f.code == 0) CHECK(r.losses() == expected);
    num_refused += f.code == 2;
  }
  MESSAGE(num_draws << " resumes with one input changed: " << num_refused << " refused");
  CHECK(num_refused > num_draws / 2);
}

TEST_CASE("resume: a changed setting is refused unless it is named, and then it stays on record") {
  const SmallRun r;
  const std::string flags = "--full --max-steps 6 --save-every 2 --output " + r.at("out");
  REQUIRE(r.run(flags).code == 0);
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"lr", "1e-3"},
                                                                                    {"schedule", "cosine"},
                                                                                    {"warmup", "3"},
                                                                                    {"weight-decay", "0.1"},
                                                                                    {"clip", "0.5"},
                                                                                    {"max-steps", "8"}}) {
    CAPTURE(name);
    const std::string changed = flags + " --resume --" + name + " " + value;
    const Finished refused = r.run(changed);
    CHECK(refused.code == 2);
    check_has(refused.err, "--allow-changed " + name);
    const Finished other = r.run(changed + " --allow-changed " + (name == "lr" ? "clip" : "lr"));
    CHECK(other.code == 2);
  }
  const Finished allowed = r.run(flags + " --resume --lr 1e-3 --clip 0.5 --save-every 5 --allow-changed lr,clip");
  CHECK_MESSAGE(allowed.code == 0, allowed.err);
  check_has(allowed.out, "from step 5 on, --lr was 0.002 and is now 0.001");
  const auto facts = nlohmann::json::parse(r.content("out/checkpoint-5/trainer_state.json"));
  CHECK(facts.at("changes").size() == 2);
  CHECK(facts.at("changes")[0] == nlohmann::json{{"after_step", 4}, {"setting", "lr"}, {"was", 0.002}, {"is", 0.001}});
  CHECK(r.run(flags + " --resume --lr 1e-3 --allow-changed lr,batch").code == 2);
}
