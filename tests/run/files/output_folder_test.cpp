#include "run/files/output_folder.h"

#include <filesystem>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "rows/file_access.h"
#include "run/files/checkpoints.h"
#include "run/files/error_text.h"
#include "run/files/failing_disk.h"
#include "run/files/tensor_files.h"
#include "scratch_folder.h"

using namespace gpuplan;
using test::check_mentions;
using test::error_text;

namespace {

namespace fs = std::filesystem;

std::string refusal(const fs::path& path) {
  return error_text<EnvError>([&] { const OutputFolder folder(path, 1); });
}

}  // namespace

TEST_CASE("output folder: one run at a time; left empty, what it made is removed, what was there stays") {
  const test::ScratchFolder scratch;
  const fs::path out = scratch.path() / "a/out";
  {
    const OutputFolder folder(out, 7);
    CHECK(fs::is_directory(out));
    check_mentions(refusal(out), "writes to this folder");
  }
  CHECK(!fs::exists(out));
  fs::create_directories(out);
  { const OutputFolder folder(out, 7); }
  CHECK(fs::is_empty(out));
  {
    const OutputFolder folder(scratch.path() / "b", 7);
    scratch.write("b/adapter.json", "{}");
  }
  CHECK(read_file(scratch.path() / "b/adapter.json") == "{}");
  CHECK(!fs::exists(scratch.path() / "b/.gpuplan.lock"));
}

TEST_CASE("output folder: the lock says whose it is, and a lock or a folder that is taken away is noticed") {
  const test::ScratchFolder scratch;
  const fs::path out = scratch.path() / "out";
  CHECK(!run_that_holds(out));
  const OutputFolder folder(out, 7);
  CHECK(run_that_holds(out) == 7);
  const HeldFolder held(out);
  folder.require_locked();
  held.require_same();
  if (mount("tmpfs", out.c_str(), "tmpfs", 0, "size=64k") == 0) {
    check_mentions(error_text<EnvError>([&] { held.require_same(); }), "no longer the folder");
    umount(out.c_str());
    held.require_same();
  } else {
    MESSAGE("skipped: nothing can be mounted here");
  }
  fs::remove(out / ".gpuplan.lock");
  check_mentions(error_text<EnvError>([&] { folder.require_locked(); }), "was removed while this run held it");
  fs::rename(out, scratch.path() / "renamed");
  check_mentions(error_text<EnvError>([&] { held.require_same(); }), "no longer the folder");
  fs::create_directory(out);
  check_mentions(error_text<EnvError>([&] { held.require_same(); }), "no longer the folder");
}

TEST_CASE("output folder: without its lock's file it is still held, and the run that holds it is named") {
  const test::ScratchFolder scratch;
  const fs::path out = scratch.path() / "out";
  const OutputFolder folder(out, 7);
  check_mentions(refusal(out), fmt::format("another run (process {} on ", getpid()));
  fs::remove(out / ".gpuplan.lock");
  check_mentions(refusal(out), out.string() + " is in use: another run writes to this folder");
  CHECK(fs::is_empty(out));
}

TEST_CASE("output folder: what is saved while it is renamed or removed never gets into the folder that has its name") {
  for (const bool is_removed : {false, true}) {
    CAPTURE(is_removed);
    const test::ScratchFolder scratch;
    const fs::path out = scratch.path() / "out", moved = scratch.path() / "moved";
    const OutputFolder folder(out, 7);
    const Checkpoints checkpoints(folder.held().path(), 1, {});
    std::vector<std::byte> state(100);
    const auto save = [&](std::int64_t step, const std::function<void(const fs::path&)>& during) {
      checkpoints.save(step, {host_blob("state", state)}, {{"step", step}}, during);
    };
    save(1, {});
    const auto replace = [&](const fs::path& making) {
      write_file_atomically(making / "before.txt", "a");
      fs::rename(out, moved);
      if (is_removed) fs::remove_all(moved);
      scratch.write("out/stranger.txt", "mine");
      write_file_atomically(making / "after.txt", "a");
    };
    if (is_removed)
      CHECK_THROWS_AS(save(2, replace), EnvError);
    else
      save(2, replace);
    CHECK(fs::exists(moved / "checkpoint-2/after.txt") == !is_removed);
    CHECK(!fs::exists(moved / "checkpoint-1"));
    for (const auto& item : fs::directory_iterator(out)) CHECK(item.path().filename() == "stranger.txt");
    CHECK(read_file(out / "stranger.txt") == "mine");
  }
}

TEST_CASE("output folder: a file in it is reached through the folder that is held, another by its name") {
  const test::ScratchFolder scratch;
  const fs::path out = scratch.path() / "out";
  fs::create_directories(out);
  fs::create_symlink("out", scratch.path() / "link");
  const HeldFolder held(out);
  for (const fs::path& in : {out / "m.jsonl", scratch.path() / "link/m.jsonl", out / "../out/m.jsonl"})
    CHECK(held.path_of(in) == held.path() / "m.jsonl");
  CHECK(held.path_of(out / "logs/m.jsonl") == held.path() / "logs/m.jsonl");
  for (const fs::path& other : {scratch.path() / "m.jsonl", scratch.path() / "output/m.jsonl", out / "../m.jsonl"})
    CHECK(held.path_of(other) == other);
}

TEST_CASE("output folder: errors below a held folder call it by its name") {
  const test::ScratchFolder scratch;
  const fs::path out = scratch.path() / "out";
  fs::create_directories(out);
  const HeldFolder held(out);
  const auto said = [&](auto error) {
    return error_text<decltype(error)>([&] {
      try {
        throw error;
      } catch (...) { held.rethrow_named(); }
    });
  };
  const std::string inside = (held.path() / "checkpoint-2").string();
  CHECK(said(EnvError(inside + ": is full")) == (out / "checkpoint-2").string() + ": is full");
  CHECK(said(PeerFailed(inside + ": rank 1 failed")) == (out / "checkpoint-2").string() + ": rank 1 failed");
  CHECK(said(InputError(inside, "is damaged")) == (out / "checkpoint-2").string() + ": is damaged");
  CHECK(said(EnvError(held.path().string() + "7: is another")) == held.path().string() + "7: is another");
}

TEST_CASE("output folder: ranks of a run that has ended are named while they are there, and leave nothing") {
  const test::ScratchFolder scratch;
  const fs::path out = scratch.path() / "out";
  fs::create_directories(out);
  {
    const RankMark first(out, 1), second(out, 2);
    check_mentions(refusal(out), "ranks of a run that has ended still write there: rank 1 (process ");
    check_mentions(refusal(out), "rank 2 (process ");
  }
  { const OutputFolder folder(out, 7); }
  CHECK(fs::is_empty(out));
}

TEST_CASE("output folder: what cannot be made, or written to for lack of room, is told at once") {
  const test::ScratchFolder scratch;
  const auto file = scratch.write("file", "");
  check_mentions(refusal(file), "cannot be made");
  check_mentions(refusal(file / "out"), "cannot be made: Not a directory");
  const test::FailingDisk disk(0);
  check_mentions(refusal(scratch.path() / "full"), "full: cannot be written to: ");
}

TEST_CASE("output folder: temporary files of killed runs are removed, and nothing else") {
  const test::ScratchFolder scratch;
  scratch.write("out/adapter_model.safetensors.gpuplan-a1B2c3", "half");
  for (const char* name : {"notes.gpuplan-ab", "model.safetensors", ".gpuplan-a1B2c3"})
    scratch.write(std::string("out/") + name, "mine");
  const OutputFolder folder(scratch.path() / "out", 7);
  CHECK(!fs::exists(scratch.path() / "out/adapter_model.safetensors.gpuplan-a1B2c3"));
  CHECK(fs::exists(scratch.path() / "out/notes.gpuplan-ab"));
  CHECK(fs::exists(scratch.path() / "out/model.safetensors"));
  CHECK(fs::exists(scratch.path() / "out/.gpuplan-a1B2c3"));
}

TEST_CASE("a link under the name that temporary files had, or at the file's own name, never leads to its target") {
  const test::ScratchFolder scratch;
  const auto victim = scratch.write("victim", "kept");
  for (const char* name : {"adapter_model.safetensors.tmp", "adapter_model.safetensors"})
    fs::create_symlink(victim, scratch.path() / name);
  const std::vector<std::byte> data(16);
  write_tensors(scratch.path(), "adapter_model", {{.name = "w", .dtype = Dtype::U8, .shape = {16}, .data = data}});
  CHECK(read_file(victim) == "kept");
  CHECK(!fs::is_symlink(scratch.path() / "adapter_model.safetensors"));
  CHECK(TensorFiles(scratch.path() / "adapter_model.safetensors").all().size() == 1);
}
