// gpuplan serve: HTTP on one address of this machine. One thread; every question is answered by a process of its own,
// which is ended when it takes too long or nobody waits for it any more.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "serve/requests.h"

namespace gpuplan {

struct ServeOptions {
  std::string host = "127.0.0.1";
  std::int64_t port = 0;  // 0: any that is free
  std::string token;
  std::vector<std::string> command;  // answers the question on its standard input on its standard output
  double answer_seconds = 300;       // after which a question is given up
  std::int64_t num_answers = 2;      // at once
};

/// Serves until SIGINT or SIGTERM comes. `started` gets the port before the first request. Throws InputError for a host
/// that is no address, EnvError where it cannot be listened on.
void serve(const ServeOptions& options, const std::function<void(std::int64_t port)>& started);

}  // namespace gpuplan
