#include "run/rendezvous_address.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "run/environment.h"
#include "run/files/error_text.h"

using namespace gpuplan;
using test::check_mentions;
using test::Environment;
using test::error_text;
using test::Variables;

namespace {

RendezvousAddress address_in(const Variables& variables) {
  const Environment environment(variables);
  return rendezvous_address(read_launcher());
}

Variables with(Variables all, const Variables& more) {
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}

const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "16"},
                          {"LOCAL_RANK", "3"},
                          {"LOCAL_WORLD_SIZE", "8"},
                          {"TORCHELASTIC_RUN_ID", "none"},
                          {"MASTER_ADDR", "head.example"},
                          {"MASTER_PORT", "29500"}};
const Variables kSlurm{{"SLURM_JOB_ID", "4711"},
                       {"SLURM_STEP_ID", "2"},
                       {"SLURM_PROCID", "5"},
                       {"SLURM_STEP_NUM_TASKS", "16"},
                       {"SLURM_LOCALID", "5"},
                       {"SLURM_STEP_NODELIST", "gpu[03-04]"},
                       {"SLURM_JOB_NODELIST", "gpu[01-04]"}};
const Variables kMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"PMIX_NAMESPACE", "1142751233"}};

}  // namespace

TEST_CASE("rendezvous address: gpuplan's own ranks meet on this machine, at the socket that rank 0 was given") {
  const Variables own{{"GPUPLAN_RANK", "0"},   {"GPUPLAN_WORLD_SIZE", "2"}, {"GPUPLAN_PORT", "31234"},
                      {"GPUPLAN_SOCKET", "9"}, {"GPUPLAN_JOB", "77.1"},     {"MASTER_ADDR", "elsewhere"}};
  const RendezvousAddress first = address_in(own);
  CHECK(first.text() == "127.0.0.1:31234");
  CHECK((first.socket == 9 && first.job == "77.1"));
  CHECK(address_in(with(own, {{"GPUPLAN_RANK", "1"}})).socket == -1);
  // 2^32 + 9, which would be socket 9 in 32 bits
  check_mentions(error_text<InputError>([&] {
                   address_in(with(own, {{"GPUPLAN_SOCKET", "4294967305"}}));
                 }),
                 "'4294967305' in the environment is no open socket");
}

TEST_CASE("rendezvous address: torchrun's ranks meet beside its store, and another port may be set") {
  CHECK(address_in(kTorchrun).text() == "head.example:29501");
  CHECK(address_in(with(kTorchrun, {{"MASTER_PORT", "65535"}})).port == 65534);
  CHECK(address_in(with(kTorchrun, {{"GPUPLAN_PORT", "5000"}})).port == 5000);
  CHECK(address_in(with(kTorchrun, {{"MASTER_ADDR", "fd00::2"}})).text() == "[fd00::2]:29501");
  CHECK(address_in(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}})).job != address_in(kTorchrun).job);
}

TEST_CASE("rendezvous address: srun's ranks meet on the first node of their step, at a port of their job and step") {
  const RendezvousAddress place = address_in(kSlurm);
  CHECK(place.host == "gpu03");
  CHECK((place.port >= 20000 && place.port < 32768));
  CHECK(address_in(with(kSlurm, {{"SLURM_PROCID", "0"}})).port == place.port);
  CHECK(address_in(with(kSlurm, {{"SLURM_STEP_ID", "3"}})).port != place.port);
  CHECK(address_in(with(kSlurm, {{"SLURM_JOB_ID", "4712"}})).port != place.port);
  CHECK(address_in(with(kSlurm, {{"MASTER_ADDR", "gpu04"}})).host == "gpu04");
  Variables older = kSlurm;
  older.erase("SLURM_STEP_NODELIST");
  CHECK(address_in(older).host == "gpu01");
}

TEST_CASE("rendezvous address: mpirun's ranks meet on their machine; on several, MASTER_ADDR must say where") {
  CHECK(address_in(kMpi).host == "127.0.0.1");
  CHECK(address_in(kMpi).port == address_in(with(kMpi, {{"OMPI_COMM_WORLD_RANK", "0"}})).port);
  CHECK(address_in(kMpi).port != address_in(with(kMpi, {{"PMIX_NAMESPACE", "1142751234"}})).port);
  Variables hydra{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};  // no name of the job: children of one process
  CHECK(address_in(hydra).port == address_in(with(hydra, {{"PMI_RANK", "0"}})).port);
  const Variables spread = with(kMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  check_mentions(error_text<InputError>([&] { address_in(spread); }), "MASTER_ADDR");
  CHECK(address_in(with(spread, {{"MASTER_ADDR", "node1"}})).host == "node1");
}

TEST_CASE("rendezvous address: the port beside MASTER_PORT, or GPUPLAN_PORT, is that of srun and mpirun, too") {
  for (const Variables& ranks : {kSlurm, kMpi}) {
    CHECK(address_in(with(ranks, {{"MASTER_PORT", "29500"}})).port == 29501);
    CHECK(address_in(with(ranks, {{"MASTER_PORT", "65535"}})).port == 65534);
    CHECK(address_in(with(ranks, {{"MASTER_PORT", "29500"}, {"GPUPLAN_PORT", "5000"}})).port == 5000);
  }
}

TEST_CASE("rendezvous address: what is missing or no port is named") {
  Variables lost = kTorchrun;
  lost.erase("MASTER_ADDR");
  check_mentions(error_text<InputError>([&] { address_in(lost); }), "MASTER_ADDR");
  for (const char* port : {"0", "65536", "http"})
    check_mentions(error_text<InputError>([&] {
                     address_in(with(kTorchrun, {{"GPUPLAN_PORT", port}}));
                   }),
                   "GPUPLAN_PORT");
  Variables nowhere = kSlurm;
  nowhere.erase("SLURM_STEP_NODELIST"), nowhere.erase("SLURM_JOB_NODELIST");
  check_mentions(error_text<InputError>([&] { address_in(nowhere); }), "SLURM_STEP_NODELIST");
}
