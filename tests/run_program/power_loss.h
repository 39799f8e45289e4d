// What a disk may hold after the power is lost in the middle of recorded calls (tests/fakes/failing_calls.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan::test {

/// One call that changed files. Paths are relative to the recorded folder, which itself is "".
struct DiskCall {
  std::string name, path, other;
  std::int64_t offset = 0, size = 0;
  std::string data;
};
std::vector<DiskCall> read_recording(const std::string& text, const std::string& folder);

/// Content by path; a folder's path ends in '/'.
using DiskFiles = std::map<std::string, std::string>;

/// What of the data that was not synced is on the disk.
enum class UnsyncedData { All, None, Torn, Zeros };

/// The files and names that a sequence of calls makes, some of them lost. What POSIX promises and no more: a file's
/// data is on the disk after its fsync, a change of names after an fsync of the folder in which it was made; each
/// change that is not yet there may be there all the same, or not, in any order, but for changes that build on others:
/// what was never created cannot be renamed.
class LossyDisk {
 public:
  explicit LossyDisk(const std::vector<DiskCall>& calls);

  /// Everything that the first `count` calls did.
  DiskFiles whole(std::size_t count) const;
  /// How many changes of names among them may be lost.
  std::size_t num_unsynced(std::size_t count) const;
  /// The disk after them when of the unsynced changes of names those are there for which `is_kept` says so.
  DiskFiles after_loss(std::size_t count, const std::function<bool(std::size_t)>& is_kept, UnsyncedData data) const;

 private:
  static constexpr int kNothing = -1, kRoot = 0;
  static constexpr std::size_t kNever = std::size_t(-1);
  struct Entry {
    int folder = kNothing;
    std::string name;
    int before = kNothing, after = kNothing;
  };
  struct NameChange {
    std::size_t call = 0, durable_from = kNever;
    std::vector<Entry> entries;  // together or not at all
  };
  struct DataChange {
    std::size_t call = 0;
    std::int64_t offset = 0, size = 0;  // of a new length where there is no data
    std::string data;
  };
  struct Object {
    bool is_folder = false;
    std::vector<DataChange> changes;
    std::vector<std::size_t> syncs;  // calls
  };
  using Names = std::map<int, std::map<std::string, int>>;  // by folder

  int add_object(bool is_folder);
  int find(std::string_view path) const;
  Entry entry_of(std::string_view path, int after) const;
  void apply(std::size_t call, const DiskCall& what);
  void change_names(std::size_t call, std::vector<Entry> entries);
  void sync(std::size_t call, int object);
  std::string content_of(const Object& object, std::size_t count, UnsyncedData data) const;
  void list(const Names& names, int folder, const std::string& path, std::size_t count, UnsyncedData data,
            DiskFiles& out) const;

  std::vector<Object> objects_;
  std::vector<NameChange> name_changes_;
  Names live_;  // while the calls are read
};

}  // namespace gpuplan::test
