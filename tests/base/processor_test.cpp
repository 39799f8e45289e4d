// The processor by what the kernel says of it, on machines that say little too.
#include <thread>

#include <doctest/doctest.h>
#include <sched.h>

#include "base/error.h"
#include "base/processor.h"
#include "scratch_folder.h"

using namespace gpuplan;
using gpuplan::test::ScratchFolder;

TEST_CASE("processor: the first paragraph of cpuinfo counts") {
  const ScratchFolder folder;
  const auto file = folder.write("cpuinfo",
                                 "processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\nflags\t\t: sse2 avx2\n\n"
                                 "processor\t: 1\nmodel name\t: Slow CPU\nflags\t\t: sse2\n");
  const ProcessorFacts facts = *find_processor_facts(file);
  CHECK(facts.name == "Fast CPU @ 3 GHz");
  CHECK(facts.flags == std::vector<std::string>{"sse2", "avx2"});
}

TEST_CASE("processor: without a model name, as on ARM, it is named by its architecture") {
  const ScratchFolder folder;
  const ProcessorFacts facts = *find_processor_facts(folder.write("cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\n"));
  CHECK(facts.name.ends_with(" processor"));
  CHECK(facts.flags.empty());
}

TEST_CASE("processor: a file that is not there is an error of the machine") {
  CHECK(!find_processor_facts("/no/such/cpuinfo"));
}

TEST_CASE("processor: ranks take equal shares of the cores, each its own; more ranks than cores take none") {
  const int num_cores = num_usable_cores();
  const auto bound = [](int part, int num_parts) {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::thread([&] {  // which takes its binding with it
      if (bind_to_share_of_cores(part, num_parts)) sched_getaffinity(0, sizeof set, &set);
    })
        .join();
    return set;
  };
  cpu_set_t all, before, after;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CPU_ZERO(&all);
  for (int part = 0; part < num_cores; ++part) {
    const cpu_set_t own = bound(part, num_cores);
    const bool is_bound = num_cores > 1 && CPU_COUNT(&before) == num_cores;  // no quota
    CHECK(CPU_COUNT(&own) == (is_bound ? 1 : 0));
    CPU_OR(&all, &all, &own);
    if (is_bound) CHECK(CPU_COUNT(&all) == part + 1);
  }
  const cpu_set_t alone = bound(0, 1), crowded = bound(0, num_cores + 1);
  CHECK(CPU_COUNT(&alone) == 0);
  CHECK(CPU_COUNT(&crowded) == 0);
  REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
}

TEST_CASE("processor: a process bound to one core may use one") {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &before)) {
      CPU_SET(core, &one);
      break;
    }
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(num_usable_cores() == 1);
  sched_setaffinity(0, sizeof before, &before);
  CHECK(num_usable_cores() >= 1);
}
