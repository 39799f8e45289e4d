#include "run_program/power_loss.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>

namespace gpuplan::test {
namespace {

std::string relative(const std::string& path, const std::string& folder) {
  if (path.size() <= folder.size()) return "";
  return path.substr(folder.size() + 1);
}

void change_data(std::string& content, std::int64_t offset, std::string_view data) {
  content.resize(std::max(content.size(), std::size_t(offset) + data.size()));
  content.replace(std::size_t(offset), data.size(), data);
}

}  // namespace

std::vector<DiskCall> read_recording(const std::string& text, const std::string& folder) {
  std::vector<DiskCall> calls;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    std::istringstream line(text.substr(at, end - at));
    std::array<std::string, 5> fields;
    for (std::string& field : fields) std::getline(line, field, '\t');
    DiskCall call{.name = fields[0],
                  .path = relative(fields[1], folder),
                  .other = relative(fields[2], folder),
                  .offset = std::stoll(fields[3]),
                  .size = std::stoll(fields[4]),
                  .data = {}};
    at = end + 1;
    if (call.name == "write") call.data = text.substr(at, std::size_t(call.size)), at += std::size_t(call.size);
    calls.push_back(std::move(call));
  }
  return calls;
}

LossyDisk::LossyDisk(const std::vector<DiskCall>& calls) {
  add_object(/*is_folder=*/true);
  for (std::size_t i = 0; i < calls.size(); ++i) apply(i, calls[i]);
}

int LossyDisk::add_object(bool is_folder) {
  objects_.push_back({.is_folder = is_folder, .changes = {}, .syncs = {}});
  return int(objects_.size()) - 1;
}

int LossyDisk::find(std::string_view path) const {
  int object = kRoot;
  while (!path.empty() && object != kNothing) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const auto folder = live_.find(object);
    object = kNothing;
    if (folder != live_.end())
      if (const auto found = folder->second.find(std::string(path.substr(0, slash))); found != folder->second.end())
        object = found->second;
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return object;
}

LossyDisk::Entry LossyDisk::entry_of(std::string_view path, int after) const {
  const std::size_t slash = path.rfind('/');
  const bool is_top = slash == std::string_view::npos;
  return {.folder = is_top ? kRoot : find(path.substr(0, slash)),
          .name = std::string(is_top ? path : path.substr(slash + 1)),
          .before = find(path),
          .after = after};
}

void LossyDisk::apply(std::size_t call, const DiskCall& what) {
  const int object = find(what.path);
  if (what.name == "create" || what.name == "mkdir")
    change_names(call, {entry_of(what.path, add_object(what.name == "mkdir"))});
  else if (what.name == "link")
    change_names(call, {entry_of(what.other, object)});
  else if (what.name == "remove")
    change_names(call, {entry_of(what.path, kNothing)});
  else if (what.name == "rename")
    change_names(call, {entry_of(what.path, kNothing), entry_of(what.other, object)});
  else if (what.name == "exchange")
    change_names(call, {entry_of(what.path, find(what.other)), entry_of(what.other, object)});
  else if (object == kNothing)
    return;  // a file without a name
  else if (what.name == "sync")
    sync(call, object);
  else if (what.name == "write" || what.name == "resize")
    objects_[std::size_t(object)].changes.push_back({call, what.offset, what.size, what.data});
  else
    throw std::runtime_error("a recording holds '" + what.name + "'");
}

void LossyDisk::change_names(std::size_t call, std::vector<Entry> entries) {
  for (const Entry& e : entries) {
    if (e.folder == kNothing) throw std::runtime_error("a recording names a folder that it did not make");
    if (e.after == kNothing)
      live_[e.folder].erase(e.name);
    else
      live_[e.folder][e.name] = e.after;
  }
  name_changes_.push_back({.call = call, .entries = std::move(entries)});
}

void LossyDisk::sync(std::size_t call, int object) {
  objects_[std::size_t(object)].syncs.push_back(call);
  for (NameChange& change : name_changes_) {
    const auto is_synced = [&](const Entry& e) {
      const auto& syncs = objects_[std::size_t(e.folder)].syncs;
      return !syncs.empty() && syncs.back() > change.call;
    };
    if (change.durable_from == kNever && std::ranges::all_of(change.entries, is_synced)) change.durable_from = call;
  }
}

std::size_t LossyDisk::num_unsynced(std::size_t count) const {
  return std::size_t(std::ranges::count_if(
      name_changes_, [&](const NameChange& c) { return c.call < count && c.durable_from >= count; }));
}

DiskFiles LossyDisk::whole(std::size_t count) const {
  return after_loss(
      count, [](std::size_t) { return true; }, UnsyncedData::All);
}

DiskFiles LossyDisk::after_loss(std::size_t count, const std::function<bool(std::size_t)>& is_kept,
                                UnsyncedData data) const {
  Names names;
  std::size_t number = 0;
  for (const NameChange& change : name_changes_) {
    if (change.call >= count) break;
    if (change.durable_from >= count && !is_kept(number++)) continue;
    const auto at = [&](const Entry& e) {
      const auto& folder = names[e.folder];
      const auto found = folder.find(e.name);
      return found == folder.end() ? kNothing : found->second;
    };
    // What a change moves or removes must be there. What it replaces may be another file, or none.
    const bool takes_away = change.entries.front().before != kNothing;
    if (takes_away && at(change.entries.front()) != change.entries.front().before) continue;
    for (const Entry& e : change.entries) {
      if (e.after == kNothing)
        names[e.folder].erase(e.name);
      else
        names[e.folder][e.name] = e.after;
    }
  }
  DiskFiles out;
  list(names, kRoot, "", count, data, out);
  return out;
}

std::string LossyDisk::content_of(const Object& object, std::size_t count, UnsyncedData data) const {
  std::size_t synced = 0;  // changes by calls before the last sync are there
  for (const std::size_t call : object.syncs)
    if (call < count) synced = call;
  std::string content;
  const DataChange* last = nullptr;
  for (const DataChange& change : object.changes)
    if (change.call < count) last = &change;
  for (const DataChange& change : object.changes) {
    if (change.call >= count) break;
    const bool is_there = change.call < synced;
    if (!is_there && data == UnsyncedData::None) break;
    if (change.data.empty()) {
      content.resize(std::size_t(change.size));
      continue;
    }
    std::string bytes = change.data;
    if (!is_there && data == UnsyncedData::Zeros) bytes.assign(bytes.size(), '\0');
    if (!is_there && data == UnsyncedData::Torn && &change == last) bytes.resize(bytes.size() / 2);
    change_data(content, change.offset, bytes);
  }
  return content;
}

void LossyDisk::list(const Names& names, int folder, const std::string& path, std::size_t count, UnsyncedData data,
                     DiskFiles& out) const {
  const auto found = names.find(folder);
  if (found == names.end()) return;
  for (const auto& [name, number] : found->second) {
    const Object& object = objects_[std::size_t(number)];
    out[path + name + (object.is_folder ? "/" : "")] = object.is_folder ? "" : content_of(object, count, data);
    if (object.is_folder) list(names, number, path + name + "/", count, data, out);
  }
}

}  // namespace gpuplan::test
