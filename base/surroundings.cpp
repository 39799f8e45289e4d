#include "base/surroundings.h"

#include "base/files.h"

namespace gpuplan {
namespace {

std::mutex one_at_a_time;
Surroundings* given = nullptr;
// Search asks on many threads, all of them within one question.
std::atomic<std::uint64_t> data_version{0}, question_version{0};

/// Each data folder has a number, so that going back to one finds what was read there if nothing else was in between.
void note_data_folder() {
  static std::map<std::string, std::uint64_t> numbers;
  forget_data_dir();
  try {
    data_version = numbers.try_emplace(data_dir().string(), numbers.size() + 1).first->second;
  } catch (const std::exception&) { data_version = UINT64_MAX; }  // the question itself will say that there is none
}

}  // namespace

Surroundings* given_surroundings() { return given; }

WithSurroundings::WithSurroundings(Surroundings& surroundings) : only_(one_at_a_time) {
  given = &surroundings;
  ++question_version;
  note_data_folder();
}

WithSurroundings::~WithSurroundings() {
  given = nullptr;
  ++question_version;
  note_data_folder();
}

std::uint64_t version_of(StaysTrue how_long) {
  return how_long == StaysTrue::InDataFolder ? data_version : question_version;
}

}  // namespace gpuplan
