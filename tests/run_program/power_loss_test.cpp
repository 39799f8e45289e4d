// The power is lost in the middle of a run, after each of its calls, and what was not synced is on the disk in part and
// in any order: --resume finds a whole checkpoint, none older than the last that was saved.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <set>

#include "run_program/power_loss.h"
#include "run_program/small_run.h"

using namespace gpuplan::test;

namespace {

namespace fs = std::filesystem;

constexpr const char *kOut = "out/", *kCheckpoint = "out/checkpoint-", *kModel = "out/adapter_model.safetensors",
                     *kMetrics = "metrics.jsonl";

/// What is below a folder, by its path in there.
DiskFiles below(const DiskFiles& files, const std::string& folder) {
  DiskFiles out;
  for (const auto& [path, content] : files)
    if (path.starts_with(folder) && path != folder) out[path.substr(folder.size())] = content;
  return out;
}

/// Checkpoints by their step: folders that the program takes for whole ones.
std::map<int, DiskFiles> checkpoints_in(const DiskFiles& files) {
  std::map<int, DiskFiles> out;
  for (const auto& [path, content] : files) {
    if (!path.starts_with(kCheckpoint) || path.find('/', std::string(kOut).size()) != path.size() - 1) continue;
    const std::string digits =
        path.substr(std::string(kCheckpoint).size(), path.size() - 1 - std::string(kCheckpoint).size());
    if (digits.find_first_not_of("0123456789") != std::string::npos) continue;
    DiskFiles inside = below(files, path);
    const bool has_first_rank =
        std::ranges::any_of(inside, [](const auto& item) { return item.first.starts_with("rank-00000-of-"); });
    if (inside.contains("trainer_state.json") && has_first_rank) out[std::stoi(digits)] = std::move(inside);
  }
  return out;
}

struct Recording {
  std::vector<DiskCall> calls;
  std::map<int, DiskFiles> checkpoints;  // as they were finished
  std::vector<int> saved;                // after so many calls, the last step whose save had returned
  std::string model, metrics;            // as they are at the end
};

Recording record(const SmallRun& r, const std::string& flags) {
  fs::create_directory(r.at("disk"));
  {
    const ScopedVariables variables({{"LD_PRELOAD", GPUPLAN_FAILING_CALLS},
                                     {"GPUPLAN_FAULT_FOLDER", r.at("disk")},
                                     {"GPUPLAN_FAULT_AT", "0"},
                                     {"GPUPLAN_FAULT_RECORD", r.at("recording")}});
    const Finished f = r.run(flags);
    REQUIRE_MESSAGE(f.code == 0, f.err);
  }
  Recording out{.calls = read_recording(r.content("recording"), r.at("disk")),
                .checkpoints = {},
                .saved = {0},
                .model = r.content("disk/" + std::string(kModel)),
                .metrics = r.content("disk/" + std::string(kMetrics))};
  const LossyDisk disk(out.calls);
  int published = 0;
  for (std::size_t i = 0; i < out.calls.size(); ++i) {
    const DiskCall& call = out.calls[i];
    if (call.name == "rename" && (call.other + "/").starts_with(kCheckpoint))
      for (const auto& [step, files] : checkpoints_in(disk.whole(i + 1)))
        if (out.checkpoints.emplace(step, files).second) published = step;
    out.saved.push_back(call.name == "sync" && call.path + "/" == kOut ? published : out.saved.back());
  }
  REQUIRE(out.checkpoints.size() >= 2);
  REQUIRE(below(disk.whole(out.calls.size()), kOut).at("adapter_model.safetensors") == out.model);
  return out;
}

/// The lines of the first `count` steps.
std::string first_lines(const std::string& text, int count) {
  std::size_t end = 0;
  for (int i = 0; i < count; ++i) end = text.find('\n', end) + 1;
  return text.substr(0, end);
}

/// Which of the changes that may be lost are there: all, none, all but one, one alone, and some at random.
std::vector<std::vector<bool>> choices(std::size_t count, int num_random, std::mt19937& draw) {
  std::vector<std::vector<bool>> out{std::vector<bool>(count, true), std::vector<bool>(count, false)};
  for (std::size_t i = 0; i < count; ++i)
    for (const bool others : {true, false}) {
      out.emplace_back(count, others);
      out.back()[i] = !others;
    }
  for (int i = 0; count > 2 && i < num_random; ++i) {
    out.emplace_back(count);
    for (std::size_t j = 0; j < count; ++j) out.back()[j] = draw() % 2 == 0;
  }
  return out;
}

void check_state(const DiskFiles& files, const Recording& recording, std::size_t count) {
  const auto there = checkpoints_in(files);
  const int last = there.empty() ? 0 : there.rbegin()->first;
  CHECK_MESSAGE(last >= recording.saved[count], "a saved checkpoint is lost");
  for (const auto& [step, inside] : there) {
    CAPTURE(step);
    CHECK_MESSAGE(inside == recording.checkpoints.at(step), "a checkpoint is not whole");
  }
  const auto metrics = files.find(kMetrics);
  const std::string lines = first_lines(recording.metrics, last);
  CHECK_MESSAGE((last == 0 || (metrics != files.end() && metrics->second.starts_with(lines))),
                "lines of metrics up to the checkpoint's step are lost");
  const auto model = files.find(kModel);
  const bool is_finished = count == recording.calls.size();
  CHECK_MESSAGE((model != files.end() || !is_finished), "the trained adapter is lost");
  if (model != files.end()) CHECK_MESSAGE(model->second == recording.model, "the adapter is not whole");
}

void write_state(const DiskFiles& files, const fs::path& folder) {
  fs::remove_all(folder);
  fs::create_directory(folder);
  for (const auto& [path, content] : files) {
    if (path.ends_with('/'))
      fs::create_directory(folder / path);
    else
      std::ofstream(folder / path, std::ios::binary) << content;
  }
}

void lose_power(const std::string& flags, std::size_t num_resumed) {
  CAPTURE(flags);
  const bool is_long = std::getenv("GPUPLAN_FAULTS");
  if (is_long) num_resumed = 60;
  const SmallRun r;
  const std::string all = flags + " --max-steps 5 --save-every 2 --keep 1 --resume --output " + r.at("disk/out") +
                          " --metrics " + r.at("disk/metrics.jsonl");
  const Recording recording = record(r, all);
  const auto losses = r.losses("disk/metrics.jsonl");
  const LossyDisk disk(recording.calls);
  std::mt19937 draw(7);
  std::size_t num_states = 0;
  std::set<DiskFiles> distinct;
  for (std::size_t count = 0; count <= recording.calls.size(); ++count) {
    CAPTURE(count);
    if (count > 0) CAPTURE(recording.calls[count - 1].name + " " + recording.calls[count - 1].path);
    for (const auto& kept : choices(disk.num_unsynced(count), is_long ? 64 : 4, draw))
      for (const UnsyncedData data : {UnsyncedData::All, UnsyncedData::None, UnsyncedData::Torn, UnsyncedData::Zeros}) {
        DiskFiles files = disk.after_loss(
            count, [&](std::size_t number) { return kept[number]; }, data);
        ++num_states;
        check_state(files, recording, count);
        distinct.insert(std::move(files));
      }
  }
  MESSAGE("power loss: " << flags << ": " << recording.calls.size() << " calls, " << num_states << " states, "
                         << distinct.size() << " of them different, " << num_resumed << " resumed");
  std::vector<const DiskFiles*> states;
  for (const DiskFiles& files : distinct) states.push_back(&files);
  std::ranges::shuffle(states, draw);
  states.resize(std::min(states.size(), num_resumed));
  for (const DiskFiles* files : states) {
    write_state(*files, r.at("disk"));
    std::string listing;
    for (const auto& [path, content] : *files) listing += path + " " + std::to_string(content.size()) + "\n";
    CAPTURE(listing);
    const Finished f = r.run(all);
    CAPTURE(f.err);
    CHECK(f.code == 0);
    CHECK(r.content("disk/" + std::string(kModel)) == recording.model);
    CHECK(r.losses("disk/metrics.jsonl") == losses);
  }
}

}  // namespace

TEST_CASE("power loss: a disk keeps what was synced, and loses the rest in any order") {
  const auto call = [](const std::string& name, const std::string& path, const std::string& other = "") {
    return DiskCall{.name = name, .path = path, .other = other, .data = {}};
  };
  DiskCall write = call("write", "a.tmp");
  write.data = "1234", write.size = 4;
  const LossyDisk disk({call("create", "a.tmp"), write, call("sync", "a.tmp"), call("rename", "a.tmp", "a"),
                        call("mkdir", "b"), call("sync", "")});
  const auto all = [](std::size_t) { return true; };
  const auto none = [](std::size_t) { return false; };
  CHECK(disk.after_loss(2, all, UnsyncedData::None) == DiskFiles{{"a.tmp", ""}});
  CHECK(disk.after_loss(2, all, UnsyncedData::Torn) == DiskFiles{{"a.tmp", "12"}});
  CHECK(disk.after_loss(2, all, UnsyncedData::Zeros) == DiskFiles{{"a.tmp", std::string(4, '\0')}});
  CHECK(disk.after_loss(3, all, UnsyncedData::None) == DiskFiles{{"a.tmp", "1234"}});
  CHECK(disk.num_unsynced(5) == 3);
  CHECK(disk.after_loss(5, none, UnsyncedData::All).empty());
  CHECK(disk.after_loss(
            5, [](std::size_t number) { return number != 0; }, UnsyncedData::All) == DiskFiles{{"b/", ""}});
  CHECK(disk.after_loss(6, none, UnsyncedData::None) == DiskFiles{{"a", "1234"}, {"b/", ""}});
}

TEST_CASE("power loss: a run of one rank goes on from a whole checkpoint") { lose_power("--lora=r=3,base=fp32", 8); }

TEST_CASE("power loss: a run of two sharded ranks goes on from a whole checkpoint") {
  lose_power("--lora=r=3,base=fp32 --gpus 2xcpu --strategy fsdp", 2);
}
