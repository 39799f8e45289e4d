// `--versions installed`: folders of packages are read, no Python is started.
#include "models/installed_packages.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "environment_variable.h"
#include "scratch_folder.h"

using namespace gpuplan;
using test::Variable;

namespace {

constexpr const char* kTransformers = "lib/python3.12/site-packages/transformers-4.57.1.dist-info/METADATA";

struct NoEnvironment {
  Variable venv{"VIRTUAL_ENV", nullptr}, conda{"CONDA_PREFIX", nullptr};
};

}  // namespace

TEST_CASE("--versions installed: names as installers write them, others ignored, METADATA where a name says nothing") {
  const test::ScratchFolder scratch;
  const std::string packages = "lib/python3.12/site-packages/";
  scratch.write(kTransformers, "Name: transformers\nVersion: 4.57.1\n");
  scratch.write(packages + "liger_kernel-0.6.3.dist-info/METADATA", "");
  scratch.write(packages + "numpy-2.3.1.dist-info/METADATA", "");
  scratch.write(packages + "torch-2.9.0+cu128.dist-info/METADATA", "");
  scratch.write(packages + "trl.dist-info/METADATA",
                "Metadata-Version: 2.4\nName: trl\nVersion: 0.25.0\n\nVersion: 9\n");
  const NoEnvironment none;
  const Variable venv("VIRTUAL_ENV", scratch.path().c_str()), path("PATH", "/nonexistent");
  const StackVersions found = parse_stack_versions("installed");
  CHECK(found.size() == 5);  // the four, and that a library which may be missing is missing
  CHECK(found.at("flash-linear-attention").text == "none");
  CHECK(found.at("transformers").text == "4.57.1");
  CHECK(found.at("liger-kernel").text == "0.6.3");
  CHECK(found.at("torch").text == "2.9.0+cu128");
  CHECK(found.at("trl").text == "0.25.0");
}

TEST_CASE("--versions installed: the Python on PATH answers, after an environment that has none of the libraries") {
  const test::ScratchFolder scratch, empty;
  scratch.write(kTransformers, "");
  scratch.write("bin/python3", "");
  empty.write("lib/python3.12/site-packages/pip-25.0.dist-info/METADATA", "");
  const NoEnvironment none;
  const Variable conda("CONDA_PREFIX", empty.path().c_str());
  const Variable path("PATH", ("/nonexistent:" + (scratch.path() / "bin").string()).c_str());
  CHECK(installed_versions().at("transformers").text == "4.57.1");
}

TEST_CASE("--versions installed: where nothing is found, the message says where it looked") {
  const test::ScratchFolder empty;
  const NoEnvironment none;
  const Variable venv("VIRTUAL_ENV", empty.path().c_str()), path("PATH", "/nonexistent");
  try {
    installed_versions();
    FAIL("nothing is installed there");
  } catch (const InputError& error) {
    CHECK(error.where() == "--versions");
    CHECK(error.problem().find(empty.path().string()) != std::string::npos);
  }
}
