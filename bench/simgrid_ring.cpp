// The ring of ring_case.h in SimGrid S4U, as a programmer would write it there: one actor per rank, a put and a get per
// step. Built where libsimgrid-dev is installed.
//   build/release/bench/bench_simgrid_ring [ranks [layers]] --cfg=network/model:CM02 --cfg=network/crosstraffic:0
#include <simgrid/s4u.hpp>

#include <string>
#include <vector>

#include "ring_case.h"

namespace sg4 = simgrid::s4u;

namespace {

std::vector<sg4::Mailbox*> mailboxes;  // by receiver

void rank_program(std::int64_t rank, ring_case::Size size) {
  static int chunk = 0;  // what is sent does not matter
  const auto bytes = std::uint64_t(ring_case::kBytes / size.num_ranks);
  sg4::Mailbox* const to = mailboxes[std::size_t((rank + 1) % size.num_ranks)];
  sg4::Mailbox* const from = mailboxes[std::size_t(rank)];
  for (std::int64_t layer = 0; layer < size.num_layers; ++layer) {
    sg4::this_actor::sleep_for(ring_case::kComputeSeconds);
    for (std::int64_t step = 0; step < 2 * (size.num_ranks - 1); ++step) {
      const sg4::CommPtr put = to->put_async(&chunk, bytes);
      from->get<int>();
      put->wait();
    }
  }
}

void build_platform(std::int64_t num_ranks) {
  sg4::NetZone* const zone = sg4::create_full_zone("machine");
  std::vector<sg4::Host*> hosts;
  for (std::int64_t r = 0; r < num_ranks; ++r) hosts.push_back(zone->create_host("rank" + std::to_string(r), 1e9));
  for (std::int64_t r = 0; r < num_ranks; ++r) {
    sg4::Link* const link = zone->create_link("link" + std::to_string(r), ring_case::kBytesPerSecond)
                                ->set_latency(ring_case::kLatencySeconds)
                                ->seal();
    const auto next = std::size_t((r + 1) % num_ranks);
    zone->add_route(hosts[std::size_t(r)]->get_netpoint(), hosts[next]->get_netpoint(), nullptr, nullptr,
                    {sg4::LinkInRoute(link)}, false);
  }
  zone->seal();
}

}  // namespace

int main(int argc, char** argv) {
  sg4::Engine engine(&argc, argv);  // takes --cfg
  const ring_case::Size size = ring_case::read_size(argc, argv);
  const ring_case::Stopwatch watch;
  build_platform(size.num_ranks);
  for (std::int64_t r = 0; r < size.num_ranks; ++r) {
    mailboxes.push_back(sg4::Mailbox::by_name("rank" + std::to_string(r)));
    sg4::Actor::create("rank" + std::to_string(r), engine.host_by_name("rank" + std::to_string(r)), rank_program, r,
                       size);
  }
  engine.run();
  std::printf("SimGrid: %.3f s CPU (%.3f wall)  simulated %.6f s\n", watch.cpu_seconds(), watch.wall_seconds(),
              sg4::Engine::get_clock());
}
