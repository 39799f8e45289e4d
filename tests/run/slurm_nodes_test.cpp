#include "run/launch.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "run/files/error_text.h"

using namespace gpuplan;
using test::check_mentions;
using test::error_text;

TEST_CASE("slurm: lists of nodes are expanded as `scontrol show hostnames` does") {
  struct Row {
    std::string list;
    std::vector<std::string> nodes;
  };
  for (const Row& row :
       {Row{"node7", {"node7"}}, Row{"a,b", {"a", "b"}}, Row{"gpu[1-3]", {"gpu1", "gpu2", "gpu3"}},
        Row{"gpu[08-11]", {"gpu08", "gpu09", "gpu10", "gpu11"}}, Row{"gpu[3,1-2]", {"gpu3", "gpu1", "gpu2"}},
        Row{"gpu[001,007-008],login", {"gpu001", "gpu007", "gpu008", "login"}},
        Row{"r[1-2]n[5-6]", {"r1n5", "r1n6", "r2n5", "r2n6"}},
        Row{"n[1-2]-ib.cluster", {"n1-ib.cluster", "n2-ib.cluster"}},
        Row{"ip-10-0-1-7,ip-10-0-1-[20-21]", {"ip-10-0-1-7", "ip-10-0-1-20", "ip-10-0-1-21"}}})
    CHECK(expand_nodes(row.list, "LIST") == row.nodes);
}

TEST_CASE("slurm: counts per node are expanded") {
  CHECK(expand_counts("4", "TASKS") == std::vector<std::int64_t>{4});
  CHECK(expand_counts("2(x3),1", "TASKS") == std::vector<std::int64_t>{2, 2, 2, 1});
}

TEST_CASE("slurm: what is no list is refused by the variable's name, and what would be right") {
  for (const char* list : {"", "gpu[1-3", "gpu1-3]", "gpu[[1]]", "gpu[3-1]", "gpu[a-b]", "gpu[]", "a,,b", ",a",
                           "gpu[1-99999999999]", "gpu[1-]"}) {
    CAPTURE(list);
    const std::string text = error_text<InputError>([&] { expand_nodes(list, "SLURM_STEP_NODELIST"); });
    check_mentions(text, "SLURM_STEP_NODELIST");
    check_mentions(text, "MASTER_ADDR");
  }
  for (const char* list : {"", "x", "2(x3", "2(xx)", "2(x)"}) CHECK_THROWS_AS(expand_counts(list, "TASKS"), InputError);
}
