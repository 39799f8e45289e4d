#include "cluster/profile/profile_store.h"

#include <cstdlib>

#include <doctest/doctest.h>

#include "base/error.h"
#include "cluster/cpu_ranks.h"
#include "measured_machine.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

/// A folder of profiles for as long as this lives.
class Store {
 public:
  Store() { setenv("GPUPLAN_PROFILE_DIR", folder_.path().c_str(), 1); }
  ~Store() { setenv("GPUPLAN_PROFILE_DIR", "/nonexistent/profiles", 1); }
  void add(const std::string& id, const std::string& gpu, const std::string& date,
           Bytes memory = Bytes{85'899'345'920}) {
    ProfileDraft draft{
        .id = id, .title = id, .based_on = "default-hopper", .measured = test::two_devices(gpu, "nvswitch")};
    draft.measured.on.date = date;
    draft.measured.on.memory = memory;
    folder_.write(id + ".yaml", profile_text(draft));
  }
  void add_text(const std::string& name, const std::string& text) { folder_.write(name, text); }

 private:
  test::ScratchFolder folder_;
};

std::string chosen(const std::string& gpus, std::vector<std::string>& notes) {
  return profile_for(parse_gpus(gpus), notes)->id;
}

}  // namespace

TEST_CASE("profile store: the newest profile of such GPUs is taken, others get the shipped one") {
  Store store;
  store.add("old", "h100-sxm", "2026-10-01");
  store.add("new", "h100-sxm", "2026-11-01");
  std::vector<std::string> notes;
  CHECK(chosen("4xH100", notes) == "new");
  CHECK(chosen("4xA6000", notes) == "default-workstation");
  CHECK(notes.empty());
}

TEST_CASE("profile store: a profile in the place of a shipped one is told, any other is not") {
  Store store;
  store.add("default-hopper", "h100-sxm", "2026-11-01");
  store.add("mine", "a100-sxm-80gb", "2026-11-01");
  const auto told = [](const char* id) { return read_instead_of_shipped(*find_profile(id)); };
  CHECK(told("default-hopper") == "profile default-hopper is read from " +
                                      (profile_dir() / "default-hopper.yaml").string() + ", not the shipped one");
  CHECK(told("default-ampere") == "");
  CHECK(told("mine") == "");
}

TEST_CASE("profile store: of one day the later one, as its id ends in the time") {
  Store store;
  store.add("h100-20261121-093000", "h100-sxm", "2026-11-21");
  store.add("h100-20261121-213000", "h100-sxm", "2026-11-21");
  std::vector<std::string> notes;
  CHECK(chosen("4xH100", notes) == "h100-20261121-213000");
  CHECK(stored_profiles().front().profile->id == "h100-20261121-213000");
}

TEST_CASE("profile store: a product of the same name with other memory is another product") {
  Store store;
  store.add("small", "h100-sxm", "2026-11-01", Bytes{60'000'000'000});
  std::vector<std::string> notes;
  CHECK(chosen("1xH100", notes) == "default-hopper");
}

TEST_CASE("profile store: a file that cannot be read is passed over and said") {
  Store store;
  store.add("good", "h100-sxm", "2026-11-01");
  store.add_text("bad.yaml", "id: bad\nvalues: {\n");
  std::vector<std::string> notes;
  CHECK(chosen("1xH100", notes) == "good");
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].find("bad.yaml is not used:") != std::string::npos);
  CHECK(stored_profiles().size() == 2);
  CHECK_THROWS_AS(find_profile("bad"), InputError);
  CHECK(find_profile("good")->id == "good");
}

TEST_CASE("profile store: an unknown id names the nearest") {
  Store store;
  store.add("h100-night", "h100-sxm", "2026-11-01");
  try {
    find_profile("h100-nigth");
    FAIL("found");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("did you mean 'h100-night'") != std::string::npos);
  }
}

TEST_CASE("profile store: a CPU profile is for this processor and its cores alone") {
  const HostFacts host = read_host_facts();
  Profile profile;
  Measured m = test::two_devices("cpu", "shared-memory");
  m.on.device = host.cpu_name, m.on.num_cores = host.num_cores;
  profile.measured = std::make_shared<Measured>(m);
  CHECK(is_for(profile, parse_gpus("2xcpu")));
  CHECK_FALSE(is_for(profile, parse_gpus("1xH100")));
  m.on.num_cores += 1;
  profile.measured = std::make_shared<Measured>(m);
  CHECK_FALSE(is_for(profile, parse_gpus("2xcpu")));
}

}  // namespace gpuplan
