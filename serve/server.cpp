#include "serve/server.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <utility>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "base/child_process.h"
#include "base/error.h"
#include "base/files.h"
#include "base/narrow.h"

namespace gpuplan {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using Error = boost::system::error_code;
template <class T>
using Awaitable = asio::awaitable<T>;

constexpr std::uint32_t kMostHeaderBytes = 16 << 10;
constexpr std::size_t kMostAnswerBytes = 128 << 20;
constexpr std::int64_t kMostConnections = 64;
constexpr std::int64_t kMostWaiting = 16;             // questions, for each that is answered at once
constexpr auto kPatience = std::chrono::seconds(20);  // for a request, and between two

/// The process that answers one question, ended with this.
class Answering {
 public:
  Answering(asio::io_context& context, const std::vector<std::string>& command, const std::string& question)
      : output_(context) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw EnvError("no pipe for an answer");
    const int input = memfd_create("gpuplan-question", MFD_CLOEXEC);
    const bool is_written = input >= 0 && write_all(input, question) == 0 && lseek(input, 0, SEEK_SET) == 0;
    try {
      if (!is_written) throw EnvError("no memory for a question");
      child_ = start_child(
          {.name = command.front(), .command = command, .input = input, .output = ends[1], .death_signal = SIGKILL});
    } catch (const EnvError&) {
      for (const int end : ends) close(end);
      if (input >= 0) close(input);
      throw;
    }
    close(input);
    close(ends[1]);
    output_.assign(ends[0]);
  }
  ~Answering() {
    end();
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {}
  }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;

  void end() { kill(child_, SIGKILL); }
  asio::posix::stream_descriptor& output() { return output_; }

 private:
  asio::posix::stream_descriptor output_;
  pid_t child_ = -1;
};

class Server {
 public:
  Server(asio::io_context& context, const ServeOptions& options)
      : context_(context),
        options_(options),
        acceptor_(context) {
    Error error;
    const auto address = asio::ip::make_address(options.host, error);
    if (error)
      throw InputError("--host", fmt::format("'{}' is no address of this machine", options.host),
                       "127.0.0.1, or an address such as 192.168.1.5");
    const tcp::endpoint endpoint(address, narrow<std::uint16_t>(options.port));
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error)
      throw EnvError(fmt::format("{}:{} cannot be listened on: {}", options.host, options.port, error.message()));
    const std::string shown = address.is_v6() ? fmt::format("[{}]", options.host) : options.host;
    callers_ = {.hosts = {fmt::format("{}:{}", shown, port())}, .token = options.token};
    if (address.is_loopback()) callers_.hosts.push_back(fmt::format("localhost:{}", port()));
  }

  std::int64_t port() const { return acceptor_.local_endpoint().port(); }

  Awaitable<void> accept() {
    for (;;) {
      Error error;
      tcp::socket socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (error == asio::error::operation_aborted) co_return;
      if (error || num_connections_ >= kMostConnections) {  // of descriptors, too
        if (error) co_await pause(std::chrono::milliseconds(100));
        continue;
      }
      asio::co_spawn(context_, converse(beast::tcp_stream(std::move(socket))), asio::detached);
    }
  }

 private:
  Awaitable<void> pause(std::chrono::milliseconds time) {
    asio::steady_timer timer(context_, time);
    Error ignored;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }

  static HttpRequest request_in(const http::request<http::string_body>& read) {
    const auto header = [&](beast::string_view name) {
      const auto range = read.equal_range(name);
      std::string value;  // one that is sent twice matches nothing
      for (auto it = range.first; it != range.second; ++it)
        value += (value.empty() ? "" : ", ") + std::string(it->value());
      return value;
    };
    return {.method = std::string(read.method_string()),
            .target = std::string(read.target()),
            .host = header("Host"),
            .origin = header("Origin"),
            .fetch_site = header("Sec-Fetch-Site"),
            .content_type = header("Content-Type"),
            .cookie = header("Cookie"),
            .body = read.body()};
  }

  Awaitable<void> converse(beast::tcp_stream stream) {
    ++num_connections_;
    beast::flat_buffer buffer(kMostHeaderBytes + kMostQuestionBytes);
    try {
      for (bool is_open = true; is_open;) is_open = co_await answer_one(stream, buffer);
    } catch (const std::exception&) {}  // of this connection alone
    Error ignored;
    stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
    --num_connections_;
  }

  /// Reads a request and answers it. False where the connection is at its end.
  Awaitable<bool> answer_one(beast::tcp_stream& stream, beast::flat_buffer& buffer) {
    http::request_parser<http::string_body> parser;
    parser.header_limit(kMostHeaderBytes);
    parser.body_limit(kMostQuestionBytes);
    stream.expires_after(kPatience);
    Error error;
    co_await http::async_read(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
    if (error == http::error::body_limit || error == http::error::header_limit) {
      HttpReply too_long{.status = 413, .body = "the question is too long\n"};
      co_await write(stream, std::move(too_long), 11, false, false);
      co_return false;
    }
    if (error) co_return false;
    const auto& read = parser.get();
    stream.expires_never();
    HttpReply reply = co_await reply_for(stream, request_in(read));
    co_await write(stream, std::move(reply), read.version(), read.keep_alive(), read.method() == http::verb::head);
    co_return read.keep_alive();
  }

  Awaitable<HttpReply> reply_for(beast::tcp_stream& stream, HttpRequest request) {
    auto decided = reply_to(request, callers_);
    if (auto* const reply = std::get_if<HttpReply>(&decided)) co_return std::move(*reply);
    HttpQuestion& question = std::get<HttpQuestion>(decided);
    if (num_waiting_ >= kMostWaiting * options_.num_answers)
      co_return HttpReply{.status = 503, .body = "too many questions at once\n"};
    ++num_waiting_;
    while (num_answering_ >= options_.num_answers) co_await pause(std::chrono::milliseconds(5));
    --num_waiting_;
    ++num_answering_;
    HttpReply reply{.status = 500, .body = "the program that answers could not be started\n"};
    try {
      reply = co_await answer(stream, std::move(question.json));
      if (question.asks_output && reply.status == 200) reply = output_reply(reply.body);
    } catch (const std::exception&) {}  // no processes, no memory
    --num_answering_;
    co_return reply;
  }

  Awaitable<HttpReply> answer(beast::tcp_stream& stream, std::string question) {
    const auto answering = std::make_shared<Answering>(context_, options_.command, question);
    const auto is_late = std::make_shared<bool>(false);
    asio::steady_timer timer(context_, std::chrono::milliseconds(std::int64_t(1000 * options_.answer_seconds)));
    timer.async_wait([=](Error error) {
      if (error) return;
      *is_late = true;
      answering->end();
    });
    // Nobody waits for the answer where the other side has closed the connection.
    tcp::socket& socket = stream.socket();
    const int descriptor = socket.native_handle();
    socket.async_wait(tcp::socket::wait_read, [answering, descriptor](Error error) {
      char next = 0;
      if (!error && recv(descriptor, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0) answering->end();
    });
    std::string out;
    Error error;
    co_await asio::async_read(answering->output(), asio::dynamic_buffer(out, kMostAnswerBytes),
                              asio::redirect_error(asio::use_awaitable, error));
    timer.cancel();
    socket.cancel();
    if (*is_late)
      co_return HttpReply{.status = 504, .body = fmt::format("no answer within {} s\n", options_.answer_seconds)};
    if (out.empty() || error != asio::error::eof)
      co_return HttpReply{.status = 500, .body = "the program that answers ended without an answer\n"};
    co_return HttpReply{.type = "application/json", .body = std::move(out)};
  }

  Awaitable<void> write(beast::tcp_stream& stream, HttpReply reply, unsigned version, bool keeps_alive, bool is_head) {
    http::response<http::string_body> response{http::status(reply.status), version};
    response.set(http::field::content_type, reply.type);
    response.set(http::field::cache_control, "no-store");
    response.set(http::field::x_frame_options, "DENY");
    response.set("X-Content-Type-Options", "nosniff");
    response.set("Referrer-Policy", "no-referrer");
    response.set("Cross-Origin-Resource-Policy", "same-origin");
    response.set("Cross-Origin-Opener-Policy", "same-origin");
    response.set("Content-Security-Policy",
                 "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
                 "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    if (!reply.set_cookie.empty()) response.set(http::field::set_cookie, reply.set_cookie);
    response.keep_alive(keeps_alive);
    response.content_length(reply.body.size());
    if (!is_head) response.body() = std::move(reply.body);
    stream.expires_after(kPatience);
    http::response_serializer<http::string_body> serializer{response};
    if (is_head)
      co_await http::async_write_header(stream, serializer, asio::use_awaitable);
    else
      co_await http::async_write(stream, serializer, asio::use_awaitable);
  }

  asio::io_context& context_;
  const ServeOptions& options_;
  tcp::acceptor acceptor_;
  Callers callers_;
  std::int64_t num_connections_ = 0, num_waiting_ = 0, num_answering_ = 0;
};

}  // namespace

void serve(const ServeOptions& options, const std::function<void(std::int64_t port)>& started) {
  asio::io_context context(1);
  Server server(context, options);
  asio::signal_set signals(context, SIGINT, SIGTERM);
  signals.async_wait([&](Error, int) { context.stop(); });
  asio::co_spawn(context, server.accept(), asio::detached);
  started(server.port());
  context.run();
}

}  // namespace gpuplan
