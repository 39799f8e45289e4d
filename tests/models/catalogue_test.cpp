#include "models/catalogue.h"

#include <algorithm>
#include <cstdlib>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "models/catalogue_file.h"
#include "scratch_folder.h"

using namespace gpuplan;
using nlohmann::json;

namespace {

constexpr const char* kTinyLlama = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
  "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100})";

std::string index_text() {
  std::string rows;
  for (const CatalogueEntry& entry : list_catalogue()) {
    const json file = read_json_file(entry.file);
    rows += fmt::format(
        "{}  {{\"name\":{},\"id\":{},\"family\":{},\"model_type\":{},\"architecture\":{},\"parameters\":{}{}}}",
        rows.empty() ? "" : ",\n", file["name"].dump(), file["id"].dump(), file["family"].dump(),
        file["model_type"].dump(), file["architecture"].dump(), file["total_params"].dump(),
        file.contains("same_shape") ? ",\"same_shape\":" + file["same_shape"].dump() : "");
  }
  return "[\n" + rows + "\n]\n";
}

}  // namespace

TEST_CASE("index.json says what the files say") {
  const auto file = data_dir() / "models" / kIndexFile;
  const std::string expected = index_text();
  if (std::getenv("GPUPLAN_UPDATE_GOLDEN")) write_file_atomically(file, expected);
  CHECK_MESSAGE(read_file(file) == expected, "run with GPUPLAN_UPDATE_GOLDEN=1 to rewrite it");
}

TEST_CASE("the catalogue has all its models, sorted by name, each with a count and where it comes from") {
  const auto entries = list_catalogue();
  CHECK(entries.size() >= 148);
  CHECK(std::ranges::is_sorted(entries, {}, &CatalogueEntry::name));
  for (const CatalogueEntry& entry : entries) {
    CAPTURE(entry.name);
    const json content = read_json_file(entry.file);
    CHECK(is_catalogue_file(content));
    CHECK(content["counts"]["total"] == content["total_params"]);
    if (!content["published"].is_null()) CHECK_FALSE(content["published"]["source"].get<std::string>().empty());
    CHECK(content["verified"] ==
          (!content["published"].is_null() && content["published"]["count"] == content["total_params"]));
  }
}

TEST_CASE("a name that is not the id is explained, an id is not") {
  const LoadedModel model = load_model("llama3-8b");
  CHECK(model.spec.name == "llama-3-8b");
  CHECK(model.spec.id == "meta-llama/Meta-Llama-3-8B");
  CHECK(model.spec.source == "data/models/llama-3-8b.json");
  CHECK(model.notes == std::vector<std::string>{"llama3-8b is meta-llama/Meta-Llama-3-8B"});
  CHECK(load_model("meta-llama/Meta-Llama-3-8B").notes.empty());
}

TEST_CASE("an entry that is part of a checkpoint says so") {
  const LoadedModel model = load_model("gemma-3-4b-text");
  CHECK(std::ranges::count(model.notes, "gemma-3-4b-text: text decoder only") == 1);
}

TEST_CASE("a model of a family without a builder is refused by name") {
  const test::ScratchFolder scratch;
  const std::string file =
      scratch
          .write("zamba-7b.json", R"({"name": "zamba-7b", "id": "Zyphra/Zamba-7B-v1", "family": "zamba",
    "architecture": "ZambaForCausalLM", "model_type": "zamba", "total_params": 7000000000})")
          .string();
  CHECK_THROWS_WITH_AS(load_model(file),
                       doctest::Contains("'ZambaForCausalLM' (model_type 'zamba') cannot be planned: its layers of the "
                                         "first Mamba are modelled, its other parts"),
                       InputError);
  CHECK_THROWS_WITH_AS(load_model(file), doctest::Contains("modelled: llama, mistral, qwen, qwen2"), InputError);
}

TEST_CASE("the config object of a catalogue file has the last word over its summary fields") {
  CHECK(load_model("flan-t5-small").spec.mlp == MlpKind::Gated);
  CHECK(load_model("t5-small").spec.mlp == MlpKind::Plain);
  CHECK(load_model("opt-350m").spec.norm_placement == NormPlacement::PostResidual);
  CHECK(load_model("baichuan2-13b").spec.position == PositionKind::Alibi);
}

TEST_CASE("an unknown name gets the nearest ones, an unknown path is called a path") {
  CHECK_THROWS_WITH_AS(load_model("qlro.yml"), doctest::Contains("'qlro.yml': no such file"), InputError);
  CHECK_THROWS_WITH_AS(load_model("lama-3-8b"), doctest::Contains("--model: unknown model 'lama-3-8b'\n  did you mean"),
                       InputError);
  CHECK_THROWS_WITH_AS(load_model("lama-3-8b"), doctest::Contains("llama-3-8b"), InputError);
  CHECK_THROWS_WITH_AS(load_model("zzzzzzzzzzzz"), doctest::Contains("gpuplan models"), InputError);
  for (const char* text : {"./no/such/model", "no-such.json", "~/no-such-model", "someone/no-such-model"})
    CHECK_THROWS_WITH_AS(load_model(text), doctest::Contains("no such file or folder"), InputError);
  CHECK_THROWS_WITH_AS(load_model("someone/Llama-2-7b-hf"), doctest::Contains("llama-2-7b"), InputError);
  CHECK_THROWS_AS(load_model("  "), InputError);
}

TEST_CASE("a folder and its config.json give the same model, named after the folder") {
  const test::ScratchFolder scratch;
  const auto file = scratch.write("my-model/config.json", kTinyLlama);
  for (const auto& path : {file, file.parent_path(), file.parent_path() / ""}) {
    const LoadedModel model = load_model(path.string());
    CHECK(model.spec.name == "my-model");
    CHECK(model.spec.id == path.string());
    CHECK(model.spec.hidden_size == 64);
    CHECK(model.notes.empty());
  }
}

TEST_CASE("a config under another name is named after its file") {
  const test::ScratchFolder scratch;
  CHECK(load_model(scratch.write("tiny.json", kTinyLlama).string()).spec.name == "tiny");
}

TEST_CASE("a path that is no model says what is missing") {
  const test::ScratchFolder scratch;
  CHECK_THROWS_WITH_AS(load_model(scratch.path().string()), doctest::Contains("has no config.json"), InputError);
  CHECK_THROWS_WITH_AS(load_model(scratch.write("bad.json", "{\n  \"a\": ]\n}").string()),
                       doctest::Contains("bad.json:2:8: not valid JSON"), InputError);
  CHECK_THROWS_WITH_AS(load_model(scratch.write("empty.json", "").string()), doctest::Contains("the file is empty"),
                       InputError);
  CHECK_THROWS_WITH_AS(load_model(scratch.write("list.json", "[1]").string()), doctest::Contains("expected an object"),
                       InputError);
  CHECK_THROWS_WITH_AS(load_model("/dev/zero"), doctest::Contains("not a regular file"), InputError);
}

TEST_CASE("a file of the catalogue can be given as a path") {
  const LoadedModel model = load_model((data_dir() / "models" / "gpt2.json").string());
  CHECK(model.spec.name == "gpt2");
  CHECK(model.spec.recorded_parameters == 124'439'808);
}
