// Settings of a trainer's file that change neither memory nor time: a plan keeps them, so that the file written from it
// trains what the user's file trains.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace gpuplan {

struct CarriedSettings {
  std::string trainer;      // name of the format, as `export --for` spells it
  std::string file;         // in which they stood
  nlohmann::json settings;  // the file's own keys and values, mappings inside each other
};

}  // namespace gpuplan
