// Ranks that stop answering, and programs that say anything to the ports of a run.
#include <atomic>
#include <optional>
#include <set>
#include <thread>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run_program/pretend_machine.h"

using namespace gpuplan::test;

namespace {

constexpr const char* kTwoCpus = " --gpus 2xcpu --strategy fsdp";
constexpr int kStopped = -2;  // instead of an errno (tests/fakes/failing_calls.cpp)

/// What a stranger may say: nothing, another protocol, noise, more than anybody reads.
std::vector<std::string> strange_words() {
  std::string noise;
  std::uint32_t random = 1;
  for (int i = 0; i < 4096; ++i) noise += char((random = random * 1664525 + 1013904223) >> 24);
  return {"",
          "\n",
          "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
          std::string("\x16\x03\x01\x02\x00", 5),
          noise,
          std::string(1 << 20, 'a')};
}

/// Connects to every port that a run listens at, again and again, until it ends.
class Strangers {
 public:
  explicit Strangers(const Process& run) : thread_([this, &run] { knock(run); }) {}
  ~Strangers() { end(); }
  void end() {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
  }
  const std::set<Process::Port>& ports() const { return ports_; }
  int num_visits() const { return visits_; }

 private:
  void knock(const Process& run) {
    const std::vector<std::string> words = strange_words();
    for (std::size_t turn = 0; !ends_; ++turn) {
      for (const Process::Port& port : run.ports()) ports_.insert(port);
      for (const Process::Port& port : ports_) visit(port.number, words[turn % words.size()]);
      sleep_seconds(0.002);
    }
  }
  void visit(int port, const std::string& words) {
    sockaddr_in to{};
    to.sin_family = AF_INET, to.sin_addr.s_addr = htonl(INADDR_LOOPBACK), to.sin_port = htons(std::uint16_t(port));
    sockaddr_in6 to6{};
    to6.sin6_family = AF_INET6, to6.sin6_addr = in6addr_loopback, to6.sin6_port = to.sin_port;
    if (!say(AF_INET, reinterpret_cast<const sockaddr*>(&to), sizeof to, words))
      say(AF_INET6, reinterpret_cast<const sockaddr*>(&to6), sizeof to6, words);
  }
  bool say(int family, const sockaddr* to, socklen_t size, const std::string& words) {
    const int guest = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    connect(guest, to, size);  // to this machine: at once, or refused
    const bool is_said = send(guest, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
    visits_ += is_said;
    close(guest);
    return is_said;
  }
  std::atomic<bool> ends_{false};
  std::atomic<int> visits_{0};
  std::set<Process::Port> ports_;  // read by others after the end
  std::thread thread_;
};

}  // namespace

TEST_CASE("strangers: noise at every port of a run changes nothing") {
  for (const std::string gpus : {"2xA6000", "2xcpu"}) {
    CAPTURE(gpus);
    const SmallRun r;
    std::optional<PretendMachine> machine;
    if (gpus != "2xcpu") machine.emplace(r);
    const std::string flags = "--full --max-steps 6 --strategy fsdp --gpus " + gpus;
    REQUIRE(r.run(flags + " --metrics " + r.at("alone.jsonl")).code == 0);
    std::set<Process::Port> ports;
    int visits = 0;
    Finished f;
    // a run whose ports were open for less than a turn of the strangers, which had no processor then, shows nothing
    constexpr int kMostRuns = 8;
    for (int i = 0; i < kMostRuns && visits == 0; ++i) {
      const std::string metrics = fmt::format("noise{}.jsonl", i);
      Process run(r.command(flags + " --metrics " + r.at(metrics)), r.path());
      Strangers strangers(run);
      f = run.wait();
      strangers.end();
      ports = strangers.ports(), visits = strangers.num_visits();
      CHECK_MESSAGE(f.code == 0, f.err);
      CHECK(r.losses(metrics) == r.losses("alone.jsonl"));
    }
    for (const Process::Port& port : ports) {
      CAPTURE(port.number);
      if (machine)
        CHECK(port.is_local);  // nobody of another machine is to come
      else
        CHECK(port.program != "gpuplan");  // mpirun alone: its ranks meet in shared memory
    }
    CHECK(visits > 0);
    CHECK(!ports.empty());
    MESSAGE(gpus << ": " << visits << " visits to " << ports.size() << " ports in " << f.seconds << " s");
  }
}

TEST_CASE("strangers: a rank that stops answering while it writes a checkpoint is named") {
  const SmallRun r;
  for (const int rank : {0, 1}) {
    CAPTURE(rank);
    std::filesystem::remove_all(r.at("out"));
    std::filesystem::create_directory(r.at("out"));
    const ScopedVariables variables({{"LD_PRELOAD", GPUPLAN_FAILING_CALLS},
                                     {"GPUPLAN_FAULT_FOLDER", r.at("out")},
                                     {"GPUPLAN_FAULT_AT", rank == 0 ? "30" : "4"},
                                     {"GPUPLAN_FAULT_ERRNO", std::to_string(kStopped)},
                                     {"GPUPLAN_FAULT_RANK", std::to_string(rank)}});
    const Finished f = r.run(std::string("--full --max-steps 4 --save-every 2 --output ") + r.at("out") + kTwoCpus);
    CHECK(f.code == 3);
    check_has(f.err, "rank " + std::to_string(rank));
    check_has(f.err, "has not answered");
    MESSAGE("a rank that stops in a save: noticed after " << f.seconds << " s");
  }
}
