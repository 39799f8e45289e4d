#include "base/date.h"

#include <array>
#include <chrono>
#include <ctime>

#include "base/surroundings.h"

namespace gpuplan {

std::string today(const char* format) {
  const Surroundings* const given = given_surroundings();
  const std::time_t now = given ? std::time_t(given->now) : std::time(nullptr);
  std::tm parts{};
  given ? gmtime_r(&now, &parts) : localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), format, &parts);
  return text.data();
}

double clock_seconds() {
  if (given_surroundings()) return 0;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace gpuplan
