// `gpuplan --licences`: the terms of the program, of the libraries in it and of the sources of data/, from
// data/licences.yaml.
#pragma once

#include <string>
#include <vector>

#include "report/text/screen.h"

namespace gpuplan {

struct LibraryTerms {
  std::string name, licence, use;  // licence: an SPDX identifier
};

struct SourceTerms {
  std::string name, licence;
  std::string checked;             // where the licence was read; empty: it was not
  std::vector<std::string> marks;  // how `source` texts of data/ call it, the name included
};

struct Licences {
  std::vector<LibraryTerms> libraries;
  std::vector<SourceTerms> sources;
};

/// Throws EnvError or InputError where data/licences.yaml cannot be read.
Licences read_licences();

std::string licences_text(const Licences& licences, const Screen& screen);

}  // namespace gpuplan
