// Names, degrees and limits of strategies.
#include <set>
#include <string_view>

#include <doctest/doctest.h>

#include "base/error.h"
#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

TEST_CASE("parallelism that no strategy offers yet is refused by its name, not taken for another") {
  for (const char* text : {"5d", "5D", "5-d"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(canonical_strategy(text), doctest::Contains("not supported yet"), InputError);
  }
}

TEST_CASE("degrees are told from strategies") {
  for (const char* text : {"pp", "tp", "cp", "tensor-parallel", "Context-Parallel", "Pipeline", "1F1B", "3d"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(canonical_strategy(text), doctest::Contains("is a degree that goes with a strategy"),
                         InputError);
  }
}

TEST_CASE("other spellings of the field map to the table's names, whatever the case and the separators") {
  for (const auto& [text, name] :
       std::initializer_list<std::pair<const char*, const char*>>{{"FULL_SHARD", "fsdp"},
                                                                  {"SHARD_GRAD_OP", "fsdp-grad-op"},
                                                                  {"NO_SHARD", "ddp"},
                                                                  {"HYBRID_SHARD", "hsdp"},
                                                                  {"fsdp2", "fsdp"},
                                                                  {"ZeRO-3", "zero3"},
                                                                  {"deepspeed_zero2", "zero2"},
                                                                  {"naive", "mp"},
                                                                  {"device_map", "mp"},
                                                                  {"DDP", "ddp"},
                                                                  {"Distributed Data Parallel", "ddp"},
                                                                  {"Single", "single"}})
    CHECK(canonical_strategy(text) == name);
  for (const std::string_view name : strategy_names()) CHECK(canonical_strategy(name) == name);
}

TEST_CASE("an unknown strategy is refused with the nearest name") {
  try {
    canonical_strategy("fdsp");
    FAIL("accepted");
  } catch (const InputError& error) {
    CHECK(error.where() == "--strategy");
    CHECK(std::string(error.what()).find("fsdp") != std::string::npos);
  }
}

TEST_CASE("ties are broken in the order of the table: simplest first") {
  const std::vector<std::string_view> expected{"single", "ddp",   "zero1", "zero2", "fsdp-grad-op",
                                               "fsdp",   "zero3", "hsdp",  "mp"};
  CHECK(std::vector(strategy_names().begin(), strategy_names().end()) == expected);
  const ClusterSpec four = plain_cluster(4);
  int before = -1;
  for (const std::string_view name : strategy_names()) {
    const int simplicity = make_strategy(name, four, {}).simplicity;
    CHECK(simplicity > before);
    before = simplicity;
  }
}

TEST_CASE("degrees: all ranks replicate, shard, or form a pipeline; HSDP shards inside a node, or half a machine") {
  const ClusterSpec eight = plain_cluster(8), two_nodes = plain_cluster(8, {std::int64_t(80) << 30}, 4);
  CHECK(make_strategy("single", eight, {}).mesh == Mesh{});
  CHECK(make_strategy("ddp", eight, {}).mesh == Mesh{{Axis::DpReplicate, 8}});
  CHECK(make_strategy("zero2", eight, {}).mesh == Mesh{{Axis::DpShard, 8}});
  CHECK(make_strategy("fsdp", eight, {}).mesh == Mesh{{Axis::DpShard, 8}});
  CHECK(make_strategy("mp", eight, {}).mesh == Mesh{{Axis::Pp, 8}});
  CHECK(make_strategy("hsdp", eight, {}).mesh == Mesh{{Axis::DpReplicate, 2}, {Axis::DpShard, 4}});
  CHECK(make_strategy("hsdp", two_nodes, {}).mesh == Mesh{{Axis::DpReplicate, 2}, {Axis::DpShard, 4}});
  CHECK(make_strategy("hsdp", eight, {.shard_size = 2}).mesh == Mesh{{Axis::DpReplicate, 4}, {Axis::DpShard, 2}});
}

TEST_CASE("a shard size has to divide the ranks; of 1 it is DDP") {
  const ClusterSpec eight = plain_cluster(8);
  for (const std::int64_t bad : {0, -2, 3, 16})
    CHECK_THROWS_AS(make_strategy("fsdp", eight, {.shard_size = bad}), InputError);
  const Strategy one = make_strategy("fsdp", eight, {.shard_size = 1}), ddp = make_strategy("ddp", eight, {});
  CHECK(one.engine == ddp.engine);
  CHECK(one.layout == ddp.layout);
  CHECK(one.mesh == ddp.mesh);
}

TEST_CASE("FSDP's version and resharding are what the options say; other engines ignore them") {
  const ClusterSpec four = plain_cluster(4);
  CHECK(make_strategy("fsdp", four, {}).engine == ShardingEngine::Fsdp2);
  CHECK(make_strategy("fsdp", four, {.fsdp_version = 1}).engine == ShardingEngine::Fsdp1);
  CHECK(make_strategy("zero3", four, {.fsdp_version = 1}).engine == ShardingEngine::Zero);
  CHECK(make_strategy("fsdp", four, {.reshards = false}).layout == make_strategy("fsdp-grad-op", four, {}).layout);
  CHECK(make_strategy("zero3", four, {.reshards = false}).layout.reshards_after_forward);
}

TEST_CASE("what changes one thing of a strategy is found in the table") {
  CHECK(strategy_that_reshards("fsdp-grad-op") == "fsdp");
  for (const StrategyRow& row : strategy_rows())
    if (row.layout.reshards_after_forward) CHECK(strategy_that_reshards(row.name) == row.name);
  CHECK(strategy_that_reshards("auto") == "auto");
  CHECK(simplest_strategy(1) == "single");
  CHECK(simplest_strategy(4) == "ddp");
  for (const Counterparts& row : counterparts())
    for (const std::string_view name : row.strategies)
      if (!name.empty()) CHECK(canonical_strategy(name) == name);
}

TEST_CASE("engines have their rows in order, and read what frameworks say of them under different keys") {
  std::set<std::string_view> keys;
  for (std::size_t i = 0; i < kEngines.size(); ++i) {
    CHECK(std::size_t(kEngines[i].engine) == i);
    keys.insert(kEngines[i].key);
  }
  CHECK(keys.size() == kEngines.size());
}

TEST_CASE("why a strategy is not possible, in one sentence") {
  const auto why = [](const char* name, const Recipe& r, std::int64_t gpus = 4, const StrategyOptions& options = {}) {
    const ClusterSpec cluster = plain_cluster(gpus);
    return why_not_applicable(make_strategy(name, cluster, options), cluster, r, ModelSpec{.num_hidden_layers = 4});
  };
  Recipe plain;
  for (const std::string_view name : strategy_names()) CHECK(why(std::string(name).c_str(), plain) == "");
  for (const std::string_view name : strategy_names())
    if (name != "single") CHECK(why(std::string(name).c_str(), plain, 1).starts_with("needs at least 2 GPUs"));
  CHECK(why("ddp", plain, 1) == "needs at least 2 GPUs");
  CHECK(why("fsdp", plain, 1) == "needs at least 2 GPUs, or --offload on one");
  CHECK(why("hsdp", plain, 4, {.shard_size = 4}) == "needs a shard group smaller than all GPUs");
  CHECK(why("hsdp", plain, 3) == "needs a shard group smaller than all GPUs");  // 3 does not halve
  CHECK(why("mp", plain, 8) == "8 GPUs for 6 layers and ends");
  Recipe offload;
  offload.offload.optimizer = OffloadTarget::Cpu;
  CHECK(why("ddp", offload) == "no optimizer offload");
  CHECK(why("fsdp", offload) == "FSDP offloads parameters and optimizer together");
  CHECK(why("zero1", offload) == "");
  CHECK(why("zero2", offload, 1) == "");  // ZeRO-Offload works on one GPU
  offload.offload.params = OffloadTarget::Cpu;
  CHECK(why("zero2", offload) == "no parameter offload");
  CHECK(why("fsdp", offload) == "");
  offload.offload.params = offload.offload.optimizer = OffloadTarget::Nvme;
  CHECK(why("fsdp", offload) == "only ZeRO-3 offloads to NVMe");
  CHECK(why("zero3", offload) == "");
  Recipe qlora;
  qlora.method = Method::Qlora;
  qlora.quant.kind = BaseQuant::Nf4;
  CHECK(why("fsdp", qlora) == "FSDP2 cannot shard 4-bit bitsandbytes weights correctly: use --fsdp-version 1");
  CHECK(why("fsdp", qlora, 4, {.fsdp_version = 1}) == "");
  Recipe eight_bit;
  eight_bit.optimizer = "adamw-8bit";
  CHECK(why("fsdp", eight_bit) == "adamw-8bit cannot step FSDP2's shards (bitsandbytes): use --fsdp-version 1");
  CHECK(why("fsdp", eight_bit, 4, {.fsdp_version = 1}) == "");
  CHECK(why("zero3", eight_bit) == "");
  Recipe torchao;  // whose states of a DTensor are DTensors, on the host too
  torchao.optimizer = "adamw-torchao-8bit";
  CHECK(why("fsdp", torchao) == "");
  torchao.offload.params = OffloadTarget::Cpu;
  CHECK(why("fsdp", torchao) == "");
  eight_bit.offload.params = OffloadTarget::Cpu;
  CHECK(why("fsdp", eight_bit, 4, {.fsdp_version = 1}) == "adamw-8bit steps on the GPU alone (bitsandbytes)");
  CHECK(why("zero3", eight_bit) == "");  // the optimizer stays
  eight_bit.offload.optimizer = OffloadTarget::Cpu;
  CHECK(why("zero3", eight_bit) == "adamw-8bit steps on the GPU alone (bitsandbytes)");
  eight_bit.framework = "native";  // states of its own
  CHECK(why("zero3", eight_bit) == "");
  qlora.quant.kind = BaseQuant::Int8;
  CHECK(why("zero3", qlora) == "an 8-bit base cannot be sharded (bitsandbytes)");
  CHECK(why("ddp", qlora) == "");
  const auto under_axolotl = [&](BaseQuant base, const char* versions) {
    qlora.quant.kind = base;
    qlora.framework = resolve_framework("axolotl", {.given = parse_stack_versions(versions), .date = {}});
    return why("fsdp", qlora);
  };
  CHECK(under_axolotl(BaseQuant::Nf4, "axolotl=0.11") !=
        "");  // its patches of FSDP2 came with 0.12, those of int8 with 0.15
  CHECK(under_axolotl(BaseQuant::Nf4, "axolotl=0.12") == "");
  CHECK(under_axolotl(BaseQuant::Int8, "axolotl=0.14") == "an 8-bit base cannot be sharded (bitsandbytes)");
  CHECK(under_axolotl(BaseQuant::Int8, "axolotl=0.15") == "");
}
