#include "run/files/checkpoints.h"

#include <barrier>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "run/files/error_text.h"
#include "run/files/failing_disk.h"
#include "run/files/rank_state.h"
#include "scratch_folder.h"

using namespace gpuplan;
using test::check_mentions;
using test::error_text;

namespace {

namespace fs = std::filesystem;

/// The state of a rank that tells the step and rank it is of in every word.
struct State {
  std::vector<std::int64_t> weights, moments;

  explicit State(std::size_t size = 1000) : weights(size), moments(size / 2 + 3) {}
  void set(std::int64_t value) {
    std::ranges::fill(weights, value);
    std::ranges::fill(moments, -value);
  }
  bool is(std::int64_t value) const {
    return std::ranges::count(weights, value) == std::ssize(weights) &&
           std::ranges::count(moments, -value) == std::ssize(moments);
  }
  std::vector<StateBlob> blobs() {
    return {host_blob("weights", std::as_writable_bytes(std::span(weights))),
            host_blob("moments", std::as_writable_bytes(std::span(moments)))};
  }
};

void save(const Checkpoints& checkpoints, std::int64_t step, State& state) {
  state.set(step);
  checkpoints.save(step, state.blobs(), {{"step", step}},
                   [](const fs::path& folder) { write_file_atomically(folder / "adapter.txt", "a"); });
}

/// Whether the latest checkpoint, if any, is whole and of the step its name says; that step, or 0.
std::int64_t checked_latest(const fs::path& output) {
  const Checkpoints checkpoints(output, 2, {});
  const auto step = checkpoints.latest();
  if (!step) return 0;
  State state;
  checkpoints.load(*step, state.blobs());
  CHECK(state.is(*step));
  CHECK(checkpoints.facts(*step).at("step") == *step);
  CHECK(read_file(output / fmt::format("checkpoint-{}", *step) / "adapter.txt") == "a");
  return *step;
}

/// In a process of its own: saves one step after the other until it is killed.
[[noreturn]] void save_for_ever(const fs::path& output) {
  try {
    const Checkpoints checkpoints(output, 2, {});
    State state;
    for (std::int64_t step = checkpoints.latest().value_or(0) + 1;; ++step) {
      save(checkpoints, step, state);
      if (step % 5 == 0) save(checkpoints, step, state);  // a step that is saved again
    }
  } catch (...) { _exit(1); }
}

/// Ranks in threads that tell each other whether they are well.
class RanksMeeting {
 public:
  explicit RanksMeeting(std::int64_t num_ranks) : well_(std::size_t(num_ranks)), barrier_(num_ranks) {}
  std::function<std::int64_t(bool)> of(std::int64_t rank) {
    return [this, rank](bool is_well) -> std::int64_t {
      well_[std::size_t(rank)] = is_well;
      barrier_.arrive_and_wait();
      const auto failed = std::ranges::find(well_, char(false));
      const std::int64_t first = failed == well_.end() ? -1 : failed - well_.begin();
      barrier_.arrive_and_wait();
      return first;
    };
  }

 private:
  std::vector<char> well_;
  std::barrier<> barrier_;
};

/// What each rank says that saves to its folder, where exporting is collective.
template <class FolderOf>
std::vector<std::string> errors_of_saving(std::int64_t num_ranks, FolderOf folder_of) {
  RanksMeeting meeting(num_ranks);
  std::barrier of_export(num_ranks);
  std::vector<std::string> errors(static_cast<std::size_t>(num_ranks));
  const auto rank_loop = [&](std::int64_t rank) {
    const Checkpoints checkpoints(folder_of(rank), 1, {.rank = rank, .num_ranks = num_ranks, .meet = meeting.of(rank)});
    State state;
    errors[std::size_t(rank)] = error_text<EnvError>(
        [&] { checkpoints.save(1, state.blobs(), {}, [&](const fs::path&) { of_export.arrive_and_wait(); }); });
  };
  std::vector<std::jthread> threads;
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) threads.emplace_back(rank_loop, rank);
  threads.clear();
  return errors;
}

}  // namespace

TEST_CASE("a checkpoint gives back the state, the facts and the exported files of its step") {
  const test::ScratchFolder scratch;
  const Checkpoints checkpoints(scratch.path() / "out", 0, {});
  CHECK(!checkpoints.latest());
  State state;
  for (const std::int64_t step : {10, 9, 100}) save(checkpoints, step, state);
  CHECK(checkpoints.latest() == 100);
  checkpoints.load(9, state.blobs());
  CHECK(state.is(9));
  CHECK(checked_latest(scratch.path() / "out") == 100);
  CHECK(names_in(scratch.path() / "out/checkpoint-9") ==
        std::vector<std::string>{"adapter.txt", "rank-00000-of-00001.safetensors", "trainer_state.json"});
}

TEST_CASE("only the newest checkpoints are kept, and folders of other programs are not touched") {
  const test::ScratchFolder scratch;
  scratch.write("checkpoint-7/trainer_state.json", "{}");  // of the Hugging Face Trainer
  scratch.write("checkpoint-x/notes.txt", "mine");
  const Checkpoints checkpoints(scratch.path(), 2, {});
  State state;
  for (const std::int64_t step : {1, 2, 3}) save(checkpoints, step, state);
  CHECK(names_in(scratch.path()) ==
        std::vector<std::string>{"checkpoint-2", "checkpoint-3", "checkpoint-7", "checkpoint-x"});
  CHECK(checkpoints.latest() == 3);
  CHECK(checkpoints.foreign() == scratch.path() / "checkpoint-7");
  check_mentions(error_text<EnvError>([&] { save(checkpoints, 7, state); }),
                 "checkpoint-7: is there already, and no checkpoint of gpuplan's");
  CHECK(names_in(scratch.path() / "checkpoint-7") == std::vector<std::string>{"trainer_state.json"});
}

TEST_CASE("folders that a killed run left are removed and never taken for a checkpoint") {
  const test::ScratchFolder scratch;
  const Checkpoints checkpoints(scratch.path(), 2, {});
  State state;
  save(checkpoints, 4, state);
  fs::copy(scratch.path() / "checkpoint-4", scratch.path() / "checkpoint-5.tmp");
  CHECK(checkpoints.latest() == 4);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"checkpoint-4"});
}

TEST_CASE("every rank saves and loads its own state") {
  const test::ScratchFolder scratch;
  constexpr std::int64_t kRanks = 3;
  RanksMeeting meeting(kRanks);
  std::vector<std::string> errors(kRanks);
  const auto rank_loop = [&](std::int64_t rank) {
    const Checkpoints checkpoints(scratch.path(), 1, {.rank = rank, .num_ranks = kRanks, .meet = meeting.of(rank)});
    State state;
    for (const std::int64_t step : {1, 2}) {
      state.set(10 * step + rank);
      checkpoints.save(step, state.blobs(), {{"step", step}}, {});
    }
    state.set(0);
    checkpoints.load(2, state.blobs());
    if (!state.is(20 + rank)) errors[std::size_t(rank)] = "wrong state";
  };
  std::vector<std::jthread> threads;
  for (std::int64_t rank = 0; rank < kRanks; ++rank) threads.emplace_back(rank_loop, rank);
  threads.clear();
  for (const std::string& error : errors) CHECK(error.empty());
  State state;
  const Checkpoints two(scratch.path(), 1, {.rank = 1, .num_ranks = 2, .meet = {}});
  check_mentions(error_text<InputError>([&] { two.load(2, state.blobs()); }), "no state of rank 1 of 2");
}

TEST_CASE("when one rank fails, all do, at once, and the older checkpoint stays the latest") {
  const test::ScratchFolder scratch;
  constexpr std::int64_t kRanks = 3;
  for (const std::int64_t failing : {0, 1, 2}) {
    RanksMeeting meeting(kRanks);
    std::vector<std::string> errors(kRanks);
    const auto rank_loop = [&](std::int64_t rank) {
      const Checkpoints checkpoints(scratch.path(), 1, {.rank = rank, .num_ranks = kRanks, .meet = meeting.of(rank)});
      State state;
      checkpoints.save(1, state.blobs(), {}, {});
      errors[std::size_t(rank)] = error_text<EnvError>([&] {
        checkpoints.save(2, state.blobs(), {}, [&](const fs::path&) {
          if (rank == failing) throw EnvError("the disk burns");
        });
      });
    };
    std::vector<std::jthread> threads;
    for (std::int64_t rank = 0; rank < kRanks; ++rank) threads.emplace_back(rank_loop, rank);
    threads.clear();
    for (std::int64_t rank = 0; rank < kRanks; ++rank)
      check_mentions(errors[std::size_t(rank)],
                     rank == failing ? "the disk burns" : fmt::format("rank {} could not write its state", failing));
    CHECK(names_in(scratch.path()) == std::vector<std::string>{"checkpoint-1"});
  }
}

TEST_CASE("ranks that do not share the folder say so, all of them, and nobody exports") {
  const test::ScratchFolder scratch;
  const std::vector<std::string> errors =
      errors_of_saving(2, [&](std::int64_t rank) { return scratch.path() / fmt::format("out{}", rank); });
  check_mentions(errors[0], "rank 1 does not see this folder");
  check_mentions(errors[1], "rank 1 does not see what rank 0 made");
  CHECK(names_in(scratch.path() / "out0").empty());
}

TEST_CASE("where rank 0 cannot make the folder no rank exports, which may be collective") {
  const test::ScratchFolder scratch;
  const auto file = scratch.write("file", "");
  const std::vector<std::string> errors = errors_of_saving(3, [&](std::int64_t) { return file / "out"; });
  check_mentions(errors[0], "Not a directory");
  for (const std::size_t rank : {1U, 2U}) check_mentions(errors[rank], "rank 0 could not make this folder");
}

TEST_CASE("a full disk and a rename that fails leave the older checkpoints as they were, and nothing else") {
  const test::ScratchFolder scratch;
  const Checkpoints checkpoints(scratch.path(), 2, {});
  State state;
  save(checkpoints, 1, state);
  std::string error;
  {
    const test::FailingDisk disk(4096);
    error = error_text<EnvError>([&] { save(checkpoints, 2, state); });
  }
  for (const char* part : {"rank-00000-of-00001.safetensors", "it needs 12.", "are free there"})
    check_mentions(error, part);  // 1503 x 8 bytes
  scratch.write("checkpoint-3", "a file is in the way");
  check_mentions(error_text<EnvError>([&] { save(checkpoints, 3, state); }),
                 "checkpoint-3: is there already, and no checkpoint of gpuplan's");
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"checkpoint-1", "checkpoint-3"});
  CHECK(checked_latest(scratch.path()) == 1);
}

TEST_CASE("a folder that cannot be made is told") {
  const test::ScratchFolder scratch;
  const auto file = scratch.write("file", "");
  State state;
  check_mentions(error_text<EnvError>([&] { save(Checkpoints(file / "out", 1, {}), 1, state); }), "Not a directory");
}

TEST_CASE("state that was damaged, or is of another plan, is refused with its name") {
  const test::ScratchFolder scratch;
  const Checkpoints checkpoints(scratch.path(), 2, {});
  State state, smaller(10);
  save(checkpoints, 1, state);
  check_mentions(error_text<InputError>([&] { checkpoints.load(1, smaller.blobs()); }), "[8000], expected [80]");
  auto renamed = state.blobs();
  renamed[1].name = "other";
  check_mentions(error_text<InputError>([&] { checkpoints.load(1, renamed); }), "no tensor 'other'");
  check_mentions(error_text<InputError>([&] { checkpoints.load(1, {state.blobs()[0]}); }),
                 "holds 2 pieces of state, this run has 1");
  const auto file = scratch.path() / "checkpoint-1/rank-00000-of-00001.safetensors";
  std::string bytes = read_file(file);
  bytes[bytes.size() - 100] = char(bytes[bytes.size() - 100] ^ 1);
  std::ofstream(file, std::ios::binary) << bytes;
  check_mentions(error_text<InputError>([&] { checkpoints.load(1, state.blobs()); }),
                 "'weights' is damaged: its checksum is wrong");
  std::ofstream(file, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  CHECK_THROWS_AS(checkpoints.load(1, state.blobs()), InputError);
  std::ofstream(scratch.path() / "checkpoint-1/trainer_state.json") << "{";
  CHECK_THROWS_AS(checkpoints.facts(1), InputError);
}

namespace {

enum class Taken : std::uint8_t { Refused, AsItWas, Changed };

Taken taken(const Checkpoints& checkpoints, const State& saved) {
  State state(saved.weights.size());
  try {
    static_cast<void>(checkpoints.facts(1));
    checkpoints.load(1, state.blobs());
  } catch (const InputError&) { return Taken::Refused; }
  return state.weights == saved.weights && state.moments == saved.moments ? Taken::AsItWas : Taken::Changed;
}

/// Every byte of the file altered twice, one bit and all bits of it; how often the checkpoint was taken, and how.
std::map<Taken, int> alter_every_byte(const Checkpoints& checkpoints, const fs::path& file, const State& saved) {
  std::map<Taken, int> counts;
  const std::string whole = read_file(file);
  std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);  // not cut off: that would wait for the disk
  const auto put = [&](std::size_t at, char byte) {
    out.seekp(std::streamoff(at));
    out.put(byte).flush();
  };
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int change : {1 << at % 8, 0xff}) {
      put(at, char(whole[at] ^ change));
      ++counts[taken(checkpoints, saved)];
    }
    put(at, whole[at]);
  }
  CHECK(out.good());
  CHECK(taken(checkpoints, saved) == Taken::AsItWas);
  return counts;
}

}  // namespace

TEST_CASE("every altered byte of trainer_state.json is refused, and of a rank's state every one that changes it") {
  const test::ScratchFolder scratch;
  const Checkpoints checkpoints(scratch.path(), 2, {});
  State state(60);
  state.set(1);
  const nlohmann::json facts{{"global_step", 1},
                             {"max_steps", 20},
                             {"run", {{"model", "5ff1a8f8e1c5d2aa"}, {"num_ranks", 1}, {"seq_len", 16}, {"seed", 0}}},
                             {"settings", {{"lr", 0.002}, {"schedule", "linear"}, {"clip", 1.0}}},
                             {"changes", nlohmann::json::array()}};
  checkpoints.save(1, state.blobs(), facts, {});
  const fs::path folder = scratch.path() / "checkpoint-1";
  auto of_facts = alter_every_byte(checkpoints, folder / "trainer_state.json", state);
  CHECK(of_facts[Taken::AsItWas] + of_facts[Taken::Changed] == 0);
  auto of_rank = alter_every_byte(checkpoints, rank_state_file(folder, 0, 1), state);
  CHECK(of_rank[Taken::Changed] == 0);
  CHECK(of_facts[Taken::Refused] + of_rank[Taken::Refused] > 2000);
  MESSAGE("altered: trainer_state.json " << of_facts[Taken::Refused] << " times, the rank's state "
                                         << of_rank[Taken::Refused] + of_rank[Taken::AsItWas] << " times, "
                                         << of_rank[Taken::AsItWas] << " of them without effect");
}

TEST_CASE("a file of another rank, of another save or a renamed folder is refused, though each is whole") {
  const test::ScratchFolder scratch;
  constexpr std::int64_t kRanks = 2;
  RanksMeeting meeting(kRanks);
  const auto rank_loop = [&](std::int64_t rank) {
    const Checkpoints checkpoints(scratch.path(), 0, {.rank = rank, .num_ranks = kRanks, .meet = meeting.of(rank)});
    State state;
    for (const std::int64_t step : {2, 6}) {
      state.set(10 * step + rank);
      checkpoints.save(step, state.blobs(), {}, {});
    }
  };
  std::vector<std::jthread> threads;
  for (std::int64_t rank = 0; rank < kRanks; ++rank) threads.emplace_back(rank_loop, rank);
  threads.clear();
  const Checkpoints second(scratch.path(), 0, {.rank = 1, .num_ranks = kRanks, .meet = {}});
  State state;
  second.load(6, state.blobs());
  CHECK(state.is(61));

  const fs::path of_6 = scratch.path() / "checkpoint-6", own = rank_state_file(of_6, 1, kRanks);
  const auto refusal = [&] { return error_text<InputError>([&] { second.load(6, state.blobs()); }); };
  const std::string kept = read_file(own);
  fs::copy_file(rank_state_file(of_6, 0, kRanks), own, fs::copy_options::overwrite_existing);
  check_mentions(refusal(), "does not belong to this checkpoint: it is of rank 0, wanted is 1");
  fs::copy_file(rank_state_file(scratch.path() / "checkpoint-2", 1, kRanks), own, fs::copy_options::overwrite_existing);
  check_mentions(refusal(), "does not belong to this checkpoint: it is of save ");

  std::ofstream(own, std::ios::binary) << kept;
  fs::rename(of_6, scratch.path() / "checkpoint-8");
  check_mentions(error_text<InputError>([&] { second.load(8, state.blobs()); }),
                 "was saved after step 6, and its folder is named as that of step 8");
  check_mentions(error_text<InputError>([&] { static_cast<void>(second.facts(8)); }), "after step 6");
  std::ofstream(scratch.path() / "checkpoint-8/trainer_state.json") << "{}";
  check_mentions(error_text<InputError>([&] { second.load(8, state.blobs()); }), "does not say which save it is of");
}

TEST_CASE("kill -9 at 50 random moments leaves only whole checkpoints, and none is lost") {
  const test::ScratchFolder scratch;
  std::mt19937_64 random(20261122);
  std::int64_t latest = 0;
  int num_interrupted = 0;
  double window_us = 10'000;  // grows until kills find something saved: how long a save takes is a matter of the disk
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) save_for_ever(scratch.path());
    std::this_thread::sleep_for(std::chrono::microseconds(random() % std::uint64_t(window_us)));
    kill(child, SIGKILL);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    for (const std::string& name : names_in(scratch.path())) num_interrupted += name.ends_with(".tmp");
    const std::int64_t now = checked_latest(scratch.path());
    CAPTURE(i);
    CHECK(now >= latest);
    window_us *= now > latest ? 0.8 : 1.25;
    latest = now;
  }
  CHECK(num_interrupted > 0);  // else the moments were never within a save
  CHECK(latest > 0);
  MESSAGE("saved " << latest << " checkpoints, " << num_interrupted << " kills within one");
}

TEST_CASE("a checksum sees any changed bit, swapped words and another length") {
  std::vector<std::uint64_t> words(40);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i * 0x0123456789abcdefU;
  const auto sum = [&](std::size_t bytes) { return checksum(std::as_bytes(std::span(words)).first(bytes)); };
  const std::uint64_t whole = sum(320);
  for (std::size_t bit = 0; bit < 320 * 8; ++bit) {
    words[bit / 64] ^= std::uint64_t(1) << (bit % 64);
    CHECK(sum(320) != whole);
    words[bit / 64] ^= std::uint64_t(1) << (bit % 64);
  }
  for (const std::size_t other : {1, 4, 5}) {  // also of two lanes, and of one
    std::swap(words[0], words[other]);
    CHECK(sum(320) != whole);
    std::swap(words[0], words[other]);
  }
  words[0] ^= std::uint64_t(1) << 63, words[4] ^= std::uint64_t(1) << 63;  // two signs in one lane
  CHECK(sum(320) != whole);
  for (std::size_t bytes = 0; bytes < 320; ++bytes) CHECK(sum(bytes) != sum(bytes + 1));
}
