#include "run/rendezvous.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "base/sha256.h"
#include "environment_variable.h"
#include "run/files/error_text.h"
#include "run/rendezvous_address.h"
#include "scratch_folder.h"

using namespace gpuplan;
using test::check_mentions;
using test::error_text;

namespace {

const std::string kId(256, 'a');  // as long as NCCL's
const std::string kSecret = "a secret of the ranks";

/// A port that nobody listens at, for the moment.
int free_port() { return LocalListener().port(); }

/// When a test gives up on ranks that meet, or on a rank that is told at once why not.
constexpr Seconds kPatience{300};

RendezvousAddress at(int port, const std::string& host = "127.0.0.1", const std::string& job = "job 1") {
  return {.host = host, .port = port, .job = job, .secret = kSecret};
}

void nap(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

/// Every rank a thread that starts `delay(rank)` ms late: what each got, or its error.
template <class Delay>
std::vector<std::string> meet(const RendezvousAddress& place, std::int64_t size, Seconds patience, Delay delay) {
  std::vector<std::string> out(static_cast<std::size_t>(size));
  std::vector<std::thread> ranks;
  for (std::int64_t rank = 0; rank < size; ++rank)
    ranks.emplace_back([&, rank] {
      nap(delay(rank));
      try {
        out[std::size_t(rank)] = exchange_id(
            place, rank, size, [] { return kId; }, patience);
      } catch (const EnvError& error) { out[std::size_t(rank)] = error.what(); }
    });
  for (std::thread& rank : ranks) rank.join();
  return out;
}

int connected(int port) {
  sockaddr_in to{};
  to.sin_family = AF_INET, to.sin_addr.s_addr = htonl(INADDR_LOOPBACK), to.sin_port = htons(std::uint16_t(port));
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  for (int i = 0; i < 12000 && connect(s, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0; ++i) nap(10);
  return s;
}

/// A connection to a port of this machine that says `text`, and waits for an answer or the end; what it heard.
std::string talk_to(int port, const std::string& text, bool reads = true) {
  const int s = connected(port);
  send(s, text.data(), text.size(), MSG_NOSIGNAL);
  std::string heard(4096, '\0');
  const ssize_t count = reads ? recv(s, heard.data(), heard.size(), 0) : 0;
  close(s);
  return heard.substr(0, std::size_t(std::max<ssize_t>(0, count)));
}

std::string heard_line(int connection) {
  std::string line;
  for (char c = 0; c != '\n' && recv(connection, &c, 1, 0) == 1;) line += c;
  return line;
}

void say(int connection, const std::string& text) { send(connection, text.data(), text.size(), MSG_NOSIGNAL); }

/// Overhears a rank and rank 0. The rank is let in, and then cut off.
struct Overheard {
  std::string hello, greeting, rank;
};
Overheard overhear(int port, std::int64_t rank, std::int64_t size) {
  auto listener = std::make_unique<LocalListener>();
  std::thread honest([&, place = at(listener->port())] {
    CHECK_THROWS_AS(exchange_id(
                        place, rank, size, [] { return kId; }, Seconds{0.3}),
                    EnvError);
  });
  const int guest = accept(listener->descriptor(), nullptr, nullptr), server = connected(port);
  listener.reset();  // it comes once
  Overheard out;
  say(server, out.hello = heard_line(guest));
  say(guest, out.greeting = heard_line(server));
  say(server, out.rank = heard_line(guest));
  nap(100);
  close(server), close(guest);
  honest.join();
  return out;
}

/// A rank that comes, shows the secret, and is gone at once.
void come_and_go(int port, std::int64_t rank, std::int64_t size) {
  const int s = connected(port);
  const std::string nonce(32, 'b'), hello = "gpuplan-rendezvous-2 " + nonce + "\n";
  send(s, hello.data(), hello.size(), MSG_NOSIGNAL);
  std::string heard(4096, '\0');
  const ssize_t count = recv(s, heard.data(), heard.size(), 0);
  heard.resize(std::size_t(std::max<ssize_t>(0, count)));
  const std::string both = nonce + heard.substr(21, 32);
  const std::string said = fmt::format("{} {} {}", rank, size, sha256_hex("job 1").substr(0, 16));
  const std::string line = said + " " + hmac_sha256_hex(kSecret, fmt::format("rank\n{}\n{}", both, said)) + "\n";
  send(s, line.data(), line.size(), MSG_NOSIGNAL);
  close(s);
}

/// Accepts one connection after the other, answers each with `text` and hangs up, until it ends.
class OtherProgram {
 public:
  explicit OtherProgram(std::string text) : text_(std::move(text)), thread_([this] { serve(); }) {}
  ~OtherProgram() {
    ends_ = true;
    talk_to(listener_.port(), "", false);
    thread_.join();
  }
  int port() const { return listener_.port(); }

 private:
  void serve() {
    while (!ends_) {
      const int guest = accept(listener_.descriptor(), nullptr, nullptr);
      char line[512];
      if (!ends_ && recv(guest, line, sizeof line, 0) > 0) send(guest, text_.data(), text_.size(), MSG_NOSIGNAL);
      close(guest);
    }
  }
  std::string text_;
  LocalListener listener_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace

TEST_CASE("rendezvous: all ranks get rank 0's id, whoever comes first, over IPv4 and where there is one IPv6") {
  for (const std::string host : {"127.0.0.1", "localhost", "::1"}) {
    CAPTURE(host);
    const auto alone = meet(at(free_port(), host), 1, kPatience, [](std::int64_t) { return 0; });
    if (host == "::1" && alone[0].find("cannot listen") != std::string::npos) continue;  // no IPv6 here
    const auto first_late =
        meet(at(free_port(), host), 4, kPatience, [](std::int64_t rank) { return rank == 0 ? 300 : 0; });
    for (const std::string& got : first_late) CHECK(got == kId);
    const auto others_late =
        meet(at(free_port(), host), 4, kPatience, [](std::int64_t rank) { return int(rank) * 150; });
    for (const std::string& got : others_late) CHECK(got == kId);
  }
}

TEST_CASE("rendezvous: a socket that listens already takes those who come before rank 0") {
  const LocalListener listener;
  RendezvousAddress place = at(listener.port());
  std::string got;
  std::thread other([&] {
    got = exchange_id(
        place, 1, 2, [] { return kId; }, kPatience);
  });
  nap(200);
  RendezvousAddress own = place;
  own.socket = dup(listener.descriptor());
  CHECK(exchange_id(
            own, 0, 2, [] { return kId; }, kPatience) == kId);
  other.join();
  CHECK(got == kId);
}

TEST_CASE("rendezvous: who does not come is named, to all that came") {
  const int port = free_port();
  std::vector<std::string> said(3);
  std::vector<std::thread> ranks;
  for (const std::int64_t rank : {0, 1, 2})
    ranks.emplace_back([&, rank] {
      said[std::size_t(rank)] = error_text<EnvError>([&] {
        exchange_id(
            at(port), rank, 5, [] { return kId; }, Seconds{6});  // for three threads to come
      });
    });
  for (std::thread& rank : ranks) rank.join();
  for (const std::string& text : said) {
    check_mentions(text, "3, 4 did not come");
    check_mentions(text, "127.0.0.1:" + std::to_string(port));
  }
}

TEST_CASE("rendezvous: without rank 0 the others say where they looked, how long, and why it failed") {
  const int port = free_port();
  const std::string text = error_text<EnvError>([&] {
    exchange_id(
        at(port), 1, 2, [] { return kId; }, Seconds{0.3});
  });
  check_mentions(text, "rank 1 could not reach rank 0 at 127.0.0.1:" + std::to_string(port) + " within 0.3 s");
  check_mentions(text, "refused");
  check_mentions(error_text<EnvError>([&] {
                   exchange_id(
                       at(port, "no-such-host.invalid"), 1, 2, [] { return kId; }, Seconds{0.3});
                 }),
                 "no-such-host.invalid:" + std::to_string(port));
}

TEST_CASE("rendezvous: rank 0 that fails to make an id tells the others") {
  const int port = free_port();
  std::string other;
  std::thread rank([&] {
    other = error_text<EnvError>([&] {
      exchange_id(
          at(port), 1, 2, [] { return kId; }, kPatience);
    });
  });
  CHECK_THROWS_AS(exchange_id(
                      at(port), 0, 2, []() -> std::string { throw EnvError("no network"); }, kPatience),
                  EnvError);
  rank.join();
  check_mentions(other, "rank 0 has failed");
}

TEST_CASE("rendezvous: a port that is taken is told at once, with what to set") {
  const LocalListener taken;
  const std::string text = error_text<EnvError>([&] {
    exchange_id(
        at(taken.port()), 0, 2, [] { return kId; }, kPatience);
  });
  check_mentions(text, std::to_string(taken.port()));
  check_mentions(text, "in use");
  check_mentions(text, "GPUPLAN_PORT");
}

TEST_CASE("rendezvous: something else at the port is not taken for rank 0, nor are ranks of another job") {
  const OtherProgram ssh("SSH-2.0-OpenSSH_9.2\r\n");
  check_mentions(error_text<EnvError>([&] {
                   exchange_id(
                       at(ssh.port()), 1, 2, [] { return kId; }, kPatience);
                 }),
                 "something else than gpuplan");
  const OtherProgram other("gpuplan-rendezvous-2 " + std::string(32, '0') + " " + std::string(64, '0') + "\n");
  check_mentions(error_text<EnvError>([&] {
                   exchange_id(
                       at(other.port()), 1, 2, [] { return kId; }, kPatience);
                 }),
                 "knows another secret");
  const OtherProgram rude("");  // hangs up without a word
  check_mentions(error_text<EnvError>([&] {
                   exchange_id(
                       at(rude.port()), 1, 2, [] { return kId; }, Seconds{0.3});
                 }),
                 "hung up");
}

TEST_CASE("rendezvous: strangers do not keep the ranks from meeting") {
  const int port = free_port();
  std::string first, second, answer;
  std::thread rank0([&] {
    first = exchange_id(
        at(port), 0, 2, [] { return kId; }, kPatience);
  });
  std::thread silent([&] { talk_to(port, "", false); });
  CHECK(talk_to(port, "GET / HTTP/1.1\r\n\r\n") == "");  // no answer for another program
  CHECK(talk_to(port, std::string(10000, 'x')) == "");   // nor for too much of it
  const std::string wrong_size = error_text<EnvError>([&] {
    exchange_id(
        at(port), 1, 3, [] { return kId; }, kPatience);
  });
  check_mentions(wrong_size, "or of another number");
  check_mentions(error_text<EnvError>([&] {
                   exchange_id(
                       at(port, "127.0.0.1", "job 2"), 1, 2, [] { return kId; }, kPatience);
                 }),
                 "another job");
  std::thread rank1([&] {
    second = exchange_id(
        at(port), 1, 2, [] { return kId; }, kPatience);
  });
  for (std::thread* t : {&rank0, &rank1, &silent}) t->join();
  CHECK((first == kId && second == kId));
}

TEST_CASE("rendezvous: a rank that comes twice is sent away, and one that left may come again") {
  const int port = free_port();
  const auto come = [&](std::int64_t rank) {
    return exchange_id(
        at(port), rank, 4, [] { return kId; }, kPatience);
  };
  std::vector<std::string> got(4);
  std::thread rank0([&] { got[0] = come(0); });
  std::thread rank1([&] { got[1] = come(1); });
  nap(300);
  check_mentions(error_text<EnvError>([&] { come(1); }), "rank 1 is here already");
  come_and_go(port, 2, 4);  // rank 2 is killed, and started again
  nap(100);
  std::thread rank2([&] { got[2] = come(2); });
  nap(100);
  got[3] = come(3);
  for (std::thread* t : {&rank0, &rank1, &rank2}) t->join();
  for (const std::string& id : got) CHECK(id == kId);
}

TEST_CASE("rendezvous: 10,000 strangers who know the job and the protocol, and not the secret, reach nothing") {
  const int port = free_port();
  std::string first, second;
  std::thread rank0([&] {
    first = exchange_id(
        at(port), 0, 3, [] { return kId; }, kPatience);
  });
  const std::string nonce(32, 'a'), job = sha256_hex("job 1").substr(0, 16);
  int num_leaks = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string said = fmt::format("{} 3 {}", i % 4, job);
    std::string heard;
    switch (i % 4) {
      case 0:
        heard = talk_to(port, "gpuplan-rendezvous-2 " + nonce + "\n" + said + " " + std::string(64, '0') + "\n");
        break;
      case 1: heard = talk_to(port, said + " " + hmac_sha256_hex("", said) + "\n", false); break;
      case 2: heard = talk_to(port, "gpuplan-rendezvous-2 \n", false); break;
      default:  // its own code played back
        heard = talk_to(port, "gpuplan-rendezvous-2 " + nonce + "\n", false);
    }
    num_leaks += heard.find(job) != std::string::npos || heard.find(kId.substr(0, 64)) != std::string::npos ||
                 heard.find("is here") != std::string::npos;
  }
  CHECK(num_leaks == 0);
  CHECK(first.empty());  // nobody was taken for a rank
  std::thread rank1([&] {
    exchange_id(
        at(port), 1, 3, [] { return kId; }, kPatience);
  });
  second = exchange_id(
      at(port), 2, 3, [] { return kId; }, kPatience);
  rank0.join(), rank1.join();
  CHECK((first == kId && second == kId));
}

TEST_CASE("rendezvous: what a rank or rank 0 said before is worth nothing when it is played back") {
  const int port = free_port();
  std::string first, second;
  std::thread rank0([&] {
    first = exchange_id(
        at(port), 0, 3, [] { return kId; }, kPatience);
  });
  const Overheard said = overhear(port, 1, 3);
  CHECK(said.rank.starts_with("1 3 "));
  for (const bool waits : {false, true}) {  // for the greeting, as a rank does
    const int stranger = connected(port);
    say(stranger, said.hello);
    std::string heard = waits ? heard_line(stranger) : "";
    say(stranger, said.rank);
    for (std::string line; !(line = heard_line(stranger)).empty();) heard += line;
    close(stranger);
    CHECK(heard.starts_with("gpuplan-rendezvous-2 "));  // the greeting of a stranger
    CHECK(std::ranges::count(heard, '\n') == 1);        // and then it was hung up on
    CHECK(heard != said.greeting);
  }
  const OtherProgram false_rank0(said.greeting);
  check_mentions(error_text<EnvError>([&] {
                   exchange_id(
                       at(false_rank0.port()), 2, 3, [] { return kId; }, kPatience);
                 }),
                 "knows another secret");
  CHECK(first.empty());  // rank 1 has not come
  std::thread rank1([&] {
    exchange_id(
        at(port), 1, 3, [] { return kId; }, kPatience);
  });
  second = exchange_id(
      at(port), 2, 3, [] { return kId; }, kPatience);
  rank0.join(), rank1.join();
  CHECK((first == kId && second == kId));
}

TEST_CASE("rendezvous: of more than 128 connections that say nothing the oldest are hung up on, and no others") {
  CHECK(kMostStrangers == 128);  // as docs/security.md says
  CHECK(kStrangersPatience == Seconds{5});
  CHECK(kRendezvousPatience == Seconds{120});
  constexpr std::size_t kTooMany = 5;
  const int port = free_port();
  std::string first;
  std::thread rank0([&] {
    first = exchange_id(
        at(port), 0, 2, [] { return kId; }, kPatience);
  });
  close(connected(port));  // it listens
  const auto is_closed = [](int connection) {
    char c = 0;
    return recv(connection, &c, 1, MSG_DONTWAIT) == 0;
  };
  bool is_right = false;
  for (int tries = 0; tries < 20 && !is_right; ++tries) {  // a machine under load may take five seconds for it
    std::vector<int> silent;
    while (silent.size() < kMostStrangers + kTooMany) silent.push_back(connected(port));
    char c = 0;
    CHECK(recv(silent[kTooMany - 1], &c, 1, 0) == 0);
    is_right = true;
    for (std::size_t i = 0; i < silent.size(); ++i) is_right &= is_closed(silent[i]) == (i < kTooMany);
    for (const int connection : silent) close(connection);
  }
  CHECK(is_right);
  CHECK(exchange_id(
            at(port), 1, 2, [] { return kId; }, kPatience) == kId);
  rank0.join();
}

TEST_CASE("rendezvous: ranks meet beside 2,000 connections that say nothing") {
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit before = limit;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  const int port = free_port();
  std::string first, second;
  std::thread rank0([&] {
    first = exchange_id(
        at(port), 0, 2, [] { return kId; }, kPatience);
  });
  nap(200);
  std::vector<int> idle;
  const auto most = std::min<std::size_t>(2000, std::size_t(limit.rlim_cur) - 400);
  for (std::size_t i = 0; i < most; ++i) idle.push_back(connected(port));
  second = exchange_id(
      at(port), 1, 2, [] { return kId; }, kPatience);
  rank0.join();
  CHECK((first == kId && second == kId));
  for (const int s : idle) close(s);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("rendezvous: who does not show the secret is hung up on, while ranks are waited for") {
  const int port = free_port();
  std::string first;
  std::thread rank0([&] {
    first = exchange_id(
        at(port), 0, 2, [] { return kId; }, kPatience);
  });
  const std::string half = "gpuplan-rendezvous-2 " + std::string(32, 'a') + "\n0 2";
  const std::array strangers{connected(port), connected(port)};
  send(strangers[1], half.data(), half.size(), MSG_NOSIGNAL);
  for (const int stranger : strangers) {
    std::string heard(4096, '\0');
    while (recv(stranger, heard.data(), heard.size(), 0) > 0) {}  // returns 0 when the other side has closed
    close(stranger);
  }
  CHECK(first.empty());
  CHECK(exchange_id(
            at(port), 1, 2, [] { return kId; }, kPatience) == kId);
  rank0.join();
  CHECK(first == kId);
}

TEST_CASE("rendezvous: the secret is made once with mode 600, and one that others can read is refused") {
  const test::ScratchFolder scratch;
  const test::Variable data("XDG_DATA_HOME", scratch.path().c_str()), none(kSecretVariable, nullptr),
      no_file(kSecretFileVariable, nullptr);
  const LaunchedRank rank0{.launcher = Launcher::Slurm, .rank = 0, .size = 2},
      rank1{.launcher = Launcher::Slurm, .rank = 1, .size = 2};
  check_mentions(error_text<EnvError>([&] { static_cast<void>(rendezvous_secret(rank1, Seconds{0.1})); }),
                 "the ranks' secret is not there");
  const std::string secret = rendezvous_secret(rank0, kPatience);
  CHECK(secret.size() == 64);
  CHECK(rendezvous_secret(rank1, kPatience) == secret);
  CHECK(rendezvous_secret(rank0, kPatience) == secret);
  const auto file = scratch.path() / "gpuplan/rendezvous.key";
  namespace fs = std::filesystem;
  CHECK((fs::status(file).permissions() & fs::perms::mask) == fs::perms(0600));
  fs::permissions(file, fs::perms(0644));
  check_mentions(error_text<InputError>([&] { static_cast<void>(rendezvous_secret(rank0, kPatience)); }), "chmod 600");
  fs::permissions(file, fs::perms(0600));
  if (chown(file.c_str(), 12345, 12345) == 0)
    check_mentions(error_text<InputError>([&] { static_cast<void>(rendezvous_secret(rank0, kPatience)); }),
                   "have made");
  else
    MESSAGE("skipped: only root can give a file away");
  const test::Variable is_short(kSecretVariable, "short");
  check_mentions(error_text<InputError>([&] { static_cast<void>(rendezvous_secret(rank0, kPatience)); }),
                 "at least 16");
  const test::Variable is_long(kSecretVariable, "sixteen letters!");
  CHECK(rendezvous_secret(rank1, kPatience) == "sixteen letters!");
}

TEST_CASE("rendezvous: the secret is in ~/.local/share where nothing else is set, or in the file that is named") {
  namespace fs = std::filesystem;
  const test::ScratchFolder scratch;
  const test::Variable home("HOME", scratch.path().c_str()), no_data("XDG_DATA_HOME", nullptr),
      none(kSecretVariable, nullptr), no_file(kSecretFileVariable, nullptr);
  const LaunchedRank rank0{.launcher = Launcher::Slurm, .rank = 0, .size = 2},
      rank1{.launcher = Launcher::Slurm, .rank = 1, .size = 2};
  const std::string secret = rendezvous_secret(rank0, kPatience);
  const fs::path file = scratch.path() / ".local/share/gpuplan/rendezvous.key";
  CHECK((fs::status(file).permissions() & fs::perms::mask) == fs::perms(0600));
  CHECK(rendezvous_secret(rank1, kPatience) == secret);

  const fs::path named = scratch.path() / "shared.key";
  const test::Variable elsewhere(kSecretFileVariable, named.c_str());
  check_mentions(error_text<EnvError>([&] { static_cast<void>(rendezvous_secret(rank0, Seconds{0.1})); }),
                 "shared.key: the ranks' secret is not there");  // and is not made
  CHECK(!fs::exists(named));
  scratch.write("shared.key", "a secret of many machines\n");
  fs::permissions(named, fs::perms(0640));
  check_mentions(error_text<InputError>([&] { static_cast<void>(rendezvous_secret(rank1, kPatience)); }), "chmod 600");
  fs::permissions(named, fs::perms(0600));
  for (const LaunchedRank& rank : {rank0, rank1})
    CHECK(rendezvous_secret(rank, kPatience) == "a secret of many machines");
  fs::rename(named, scratch.path() / "other.key");
  fs::create_symlink("other.key", named);
  CHECK_THROWS_AS(static_cast<void>(rendezvous_secret(rank1, kPatience)), InputError);  // no link is followed
  const test::Variable own(kSecretVariable, "the secret of the environment");
  CHECK(rendezvous_secret(rank1, kPatience) == "the secret of the environment");
}
