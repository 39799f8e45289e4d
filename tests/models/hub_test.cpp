#include "models/hub/hub.h"

#include <chrono>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "models/catalogue.h"
#include "models/fake_hub.h"
#include "models/weights.h"
#include "scratch_folder.h"

using namespace gpuplan;
using test::FakeHub;
using test::http_answer;
using test::ScratchFolder;
using test::Variable;

namespace {

namespace fs = std::filesystem;

constexpr const char* kId = "some-lab/Small-Llama";
constexpr const char* kConfigPath = "/some-lab/Small-Llama/resolve/main/config.json";
constexpr const char* kIndexPath = "/some-lab/Small-Llama/resolve/main/model.safetensors.index.json";
constexpr const char* kSecret = "hf_ThisIsTheSecretOfTheTest";

// 2 * 100 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 64 = 95,040 parameters.
constexpr const char* kHubConfig = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100})";

/// The index of that model in two shards, as save_pretrained writes it.
std::string hub_index() {
  nlohmann::json map{{"model.embed_tokens.weight", "model-00001-of-00002.safetensors"},
                     {"model.norm.weight", "model-00002-of-00002.safetensors"},
                     {"lm_head.weight", "model-00002-of-00002.safetensors"}};
  for (int layer = 0; layer < 2; ++layer)
    for (const char* name :
         {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
          "mlp.up_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm"})
      map[fmt::format("model.layers.{}.{}.weight", layer, name)] =
          fmt::format("model-0000{}-of-00002.safetensors", layer + 1);
  return nlohmann::json{{"metadata", {{"total_size", 95040 * 2}}}, {"weight_map", map}}.dump();
}

/// A Hub, its settings with a token, and empty caches.
struct Scene {
  ScratchFolder folder;
  FakeHub hub;
  HubSettings settings{.endpoint = hub.endpoint(),
                       .token = kSecret,
                       .hub_cache = folder.path() / "huggingface",
                       .own_cache = folder.path() / "own",
                       .limits = {.connect_seconds = 120, .stall_seconds = 120, .total_seconds = 300}};
  Variable no_proxy{"no_proxy", "127.0.0.1"};

  fs::path copy() const {
    std::string host = hub.endpoint().substr(7);
    host[host.find(':')] = '_';
    return settings.own_cache / "hub" / host / "models--some-lab--Small-Llama";
  }
};

/// The text of what load_model throws, which must be an `Error`.
template <class Error>
std::string refusal(const Scene& scene, const std::string& id = kId) {
  try {
    load_model(id, scene.settings);
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find(kSecret) == std::string::npos);
    return error.what();
  }
  FAIL("nothing was thrown");
  return {};
}

bool says(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  const bool is_said = text.find(part) != std::string::npos;
  CHECK(is_said);
  return is_said;
}

bool has_token(const std::string& request) { return request.find(kSecret) != std::string::npos; }

}  // namespace

TEST_CASE("a model of the Hub is read as the same config.json in a folder is") {
  Scene scene;
  scene.hub.add_model(kId, kHubConfig, hub_index());
  const LoadedModel loaded = load_model(kId, scene.settings);
  CHECK(loaded.spec.name == "Small-Llama");
  CHECK(loaded.spec.id == kId);
  CHECK(list_weights(loaded.spec).total_elements() == 95040);
  says(loaded.notes.at(0), "some-lab/Small-Llama: config.json of 127.0.0.1:");

  const fs::path file = scene.folder.write("local/config.json", kHubConfig);
  ModelSpec local = load_model(file.parent_path().string()).spec;
  local.name = loaded.spec.name, local.id = loaded.spec.id, local.source = loaded.spec.source;
  CHECK(local == loaded.spec);
}

TEST_CASE("only config.json and the index are asked for, once: then gpuplan's copy is read") {
  Scene scene;
  scene.hub.add_model(kId, kHubConfig, hub_index());
  load_model(kId, scene.settings);
  scene.settings.is_offline = true;
  const LoadedModel again = load_model(kId, scene.settings);
  says(again.notes.at(0), "gpuplan's copy from 127.0.0.1");
  const auto requests = scene.hub.requests();
  REQUIRE(requests.size() == 2);
  CHECK(requests[0].starts_with(std::string("GET ") + kConfigPath + " HTTP/1.1\r\n"));
  CHECK(requests[1].starts_with(std::string("GET ") + kIndexPath + " HTTP/1.1\r\n"));
  CHECK(requests[0].find(std::string("Authorization: Bearer ") + kSecret + "\r\n") != std::string::npos);
}

TEST_CASE("the copy is the user's own, and without half-written files") {
  Scene scene;
  scene.hub.add_model(kId, kHubConfig, hub_index());
  load_model(kId, scene.settings);
  CHECK((fs::status(scene.copy()).permissions() & (fs::perms::group_all | fs::perms::others_all)) == fs::perms::none);
  CHECK(std::distance(fs::directory_iterator(scene.copy()), {}) == 2);
  CHECK(read_file(scene.copy() / "config.json") == kHubConfig);
}

TEST_CASE("refreshing replaces the copy; where that fails, the copy stays") {
  Scene scene;
  scene.hub.add_model(kId, kHubConfig, hub_index());
  load_model(kId, scene.settings);
  std::string wider = kHubConfig;
  wider.replace(wider.find("100}"), 3, "200");
  scene.hub.add_model(kId, wider);
  CHECK(load_model(kId, scene.settings).spec.vocab_size == 100);
  CHECK(refresh_model(kId, scene.settings).spec.vocab_size == 200);
  CHECK(load_model(kId, scene.settings).spec.vocab_size == 200);
  CHECK_FALSE(fs::exists(scene.copy() / "model.safetensors.index.json"));  // the model has one file now
  scene.hub.on(kConfigPath, 200, "<html>log in first</html>");
  CHECK_THROWS_AS(refresh_model(kId, scene.settings), EnvError);
  CHECK(load_model(kId, scene.settings).spec.vocab_size == 200);
  CHECK_THROWS_WITH_AS(refresh_model("no-slash", scene.settings), doctest::Contains("is no name of the Hub"),
                       InputError);
  scene.settings.is_offline = true;
  CHECK_THROWS_WITH_AS(refresh_model(kId, scene.settings), doctest::Contains("needs the Hub"), InputError);
}

TEST_CASE("a refreshed model of the catalogue is compared with its entry") {
  Scene scene;
  scene.hub.add_model("Qwen/Qwen3-8B", kHubConfig);
  says(refresh_model("Qwen/Qwen3-8B", scene.settings).notes.back(),
       "means the catalogue's qwen3-8b, which has another number of parameters");
}

TEST_CASE("the catalogue comes first, then Hugging Face's cache, then the Hub") {
  Scene scene;
  scene.hub.add_model(kId, kHubConfig);
  CHECK(load_model("Qwen/Qwen3-8B", scene.settings).spec.name == "qwen3-8b");
  const std::string base = "huggingface/models--some-lab--Small-Llama/";
  std::string cached = kHubConfig;
  cached.replace(cached.find("100}"), 3, "300");
  scene.folder.write(base + "refs/main", "0123456789abcdef");
  scene.folder.write(base + "snapshots/0123456789abcdef/config.json", cached);
  const LoadedModel loaded = load_model(kId, scene.settings);
  CHECK(loaded.spec.vocab_size == 300);
  says(loaded.notes.at(0), "config.json of the Hugging Face cache");
  CHECK(scene.hub.requests().empty());
  // a snapshot that refs/main does not name, or names outside of the folder, is none
  scene.folder.write(base + "refs/main", "../../../elsewhere");
  CHECK(load_model(kId, scene.settings).spec.vocab_size == 100);
}

TEST_CASE("a snapshot whose shards are half there is compared by name") {
  Scene scene;
  scene.settings.is_offline = true;
  const std::string base = "huggingface/models--some-lab--Small-Llama/";
  scene.folder.write(base + "refs/main", "abc");
  scene.folder.write(base + "snapshots/abc/config.json", kHubConfig);
  scene.folder.write(base + "snapshots/abc/model.safetensors.index.json", hub_index());
  scene.folder.write(base + "snapshots/abc/model-00001-of-00002.safetensors", "not all of it");
  const LoadedModel loaded = load_model(kId, scene.settings);
  says(loaded.notes.at(1), "21 names of the index were compared; its shards are not all here");
}

TEST_CASE("an index of another model is refused, that of a quantised one is not compared") {
  Scene scene;
  std::string bigger = hub_index();
  bigger.replace(bigger.find("190080"), 6, "990080");
  scene.hub.add_model(kId, kHubConfig, bigger);
  says(refusal<InputError>(scene), "10.42 per computed parameter, neither 2 nor 4");
  scene.hub.add_model(kId, R"({"quantization_config": {"quant_method": "awq"}, )" + std::string(kHubConfig).substr(1),
                      bigger);
  const LoadedModel loaded = refresh_model(kId, scene.settings);
  CHECK(loaded.spec.checkpoint.method == "awq");
}

TEST_CASE("a gated model says where to accept its licence") {
  Scene scene;
  scene.hub.on(kConfigPath, 403, "Access to model is restricted", "X-Error-Code: GatedRepo\r\n");
  std::string text = refusal<InputError>(scene);
  says(text, "is gated on 127.0.0.1:");
  says(text, "your token has no access to it");
  says(text, "accept the licence at " + scene.hub.endpoint() + "/some-lab/Small-Llama and set HF_TOKEN");
  scene.settings.token.clear();
  scene.hub.on(kConfigPath, 401, "", "x-error-code: GatedRepo\r\n");
  says(refusal<InputError>(scene), "no token is set");
}

TEST_CASE("a token that the Hub does not accept is blamed, and not shown") {
  Scene scene;
  scene.hub.on(kConfigPath, 401, std::string("bad token ") + kSecret);
  says(refusal<InputError>(scene), "HF_TOKEN: 127.0.0.1:");
}

TEST_CASE("a model that is not there is answered with the nearest names") {
  Scene scene;
  std::string text = refusal<InputError>(scene, "Qwen/Qwen3-8BB");
  says(text, "'Qwen/Qwen3-8BB' is not on 127.0.0.1:");
  says(text, "did you mean");
  says(text, "qwen3-8b");
  scene.hub.on("/Qwen/Qwen3-8BB/resolve/main/config.json", 404, "Not Found");
  says(refusal<InputError>(scene, "Qwen/Qwen3-8BB"), "is not on 127.0.0.1:");
}

TEST_CASE("a repository without config.json is told apart from one that is not there") {
  Scene scene;
  scene.hub.on(kConfigPath, 404, "Entry not found", "X-Error-Code: EntryNotFound\r\n");
  const std::string text = refusal<InputError>(scene);
  says(text, "but has no config.json");
  says(text, "GGUF files and adapters cannot be planned");
}

TEST_CASE("a Hub that is out of order is not the user's mistake") {
  Scene scene;
  scene.hub.on(kConfigPath, 429, "");
  says(refusal<EnvError>(scene), "is asked too often from here (429)");
  scene.hub.on(kConfigPath, 503, "");
  says(refusal<EnvError>(scene), "answered with status 503");
  scene.hub.on(kConfigPath, 200, "{\"hidden_size\": 6");
  says(refusal<EnvError>(scene), "what was sent is no config.json");
  scene.hub.on(kConfigPath, 200, "[]");
  says(refusal<EnvError>(scene), "is no object");
  scene.hub.add_model(kId, kHubConfig, "<html>");
  says(refusal<EnvError>(scene), "what was sent is no model.safetensors.index.json");
  CHECK_FALSE(fs::exists(scene.copy()));  // nothing is kept of what failed
}

TEST_CASE("a config that is no model is refused by the reader of local files") {
  Scene scene;
  scene.hub.add_model(kId, R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"]})");
  says(refusal<InputError>(scene), "hidden_size");
  scene.hub.add_model(kId, kHubConfig, hub_index());  // mended there: what was refused is not kept here
  CHECK(load_model(kId, scene.settings).spec.hidden_size > 0);
}

TEST_CASE("a transfer that is cut off, slow or endless is given up") {
  Scene scene;
  scene.hub.on(kConfigPath,
               [](const FakeHub::Send& send) { send("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{\"h"); });
  says(refusal<EnvError>(scene), "the connection ended before the whole file was here");

  const HttpLimits patient = scene.settings.limits;
  scene.settings.limits = {.connect_seconds = 120, .stall_seconds = 1, .total_seconds = 300};
  scene.hub.on(kConfigPath, [](const FakeHub::Send& send) {  // would take half a day
    send("HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n");
    while (send("{")) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  says(refusal<EnvError>(scene), "too slow, given up");
  scene.settings.limits = patient;

  const std::size_t before = scene.hub.bytes_sent();
  scene.hub.on(kConfigPath, [](const FakeHub::Send& send) {
    constexpr std::size_t kTenGigabytes = 10'000'000'000, kPiece = 1 << 20;
    send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", kTenGigabytes));
    for (std::size_t sent = 0; sent < kTenGigabytes; sent += kPiece)
      if (!send(std::string(kPiece, 'x'))) return;
  });
  says(refusal<EnvError>(scene), "stopped, as it is larger than 16 MiB");
  CHECK(scene.hub.bytes_sent() - before < 64 << 20);

  scene.hub.on(kConfigPath, [](const FakeHub::Send& send) {
    send("HTTP/1.1 200 OK\r\n");
    while (send("X-Header: " + std::string(1000, 'x') + "\r\n")) {}
  });
  refusal<EnvError>(scene);
}

TEST_CASE("redirects are followed, and the token goes to no other host") {
  Scene scene;
  FakeHub other;
  other.on("/blob/config.json", 200, kHubConfig);
  scene.hub.add_model(kId, kHubConfig, hub_index());
  scene.hub.on(kConfigPath, 307, "", "Location: /some-lab/Renamed/resolve/main/config.json\r\n");
  scene.hub.on("/some-lab/Renamed/resolve/main/config.json", 302, "",
               "Location: " + other.endpoint() + "/blob/config.json\r\n");
  CHECK(load_model(kId, scene.settings).spec.hidden_size == 64);
  for (const std::string& request : scene.hub.requests()) CHECK(has_token(request));
  REQUIRE(other.requests().size() == 1);
  CHECK_FALSE(has_token(other.requests()[0]));
}

TEST_CASE("redirects that go round, or elsewhere than the web, are not followed for ever") {
  Scene scene;
  scene.hub.on(kConfigPath, 302, "", std::string("Location: ") + kConfigPath + "\r\n");
  says(refusal<EnvError>(scene), "redirects more than 5 times");
  for (const char* target : {"file:///etc/passwd", "ftp://127.0.0.1/config.json", "http://user:word@127.0.0.1/x"}) {
    CAPTURE(std::string(target));
    scene.hub.on(kConfigPath, 302, "", fmt::format("Location: {}\r\n", target));
    says(refusal<EnvError>(scene), "redirects to an address that is not followed");
  }
}

TEST_CASE("without a connection, the message says that the catalogue was asked, too") {
  Scene scene;
  scene.settings.endpoint = "http://127.0.0.1:1";  // tcpmux, which nobody runs
  const std::string text = refusal<EnvError>(scene, "Qwen/Qwen3-8BB");
  says(text, "is neither in the catalogue nor in a local cache, and the Hub cannot be asked");
  says(text, "no connection");
  says(text, "did you mean");
  CHECK(load_model("Qwen/Qwen3-8B", scene.settings).spec.name == "qwen3-8b");
}

TEST_CASE("offline, nothing is asked") {
  Scene scene;
  scene.hub.add_model(kId, kHubConfig);
  scene.settings.is_offline = true;
  says(refusal<InputError>(scene), "the Hub is not asked (--offline or HF_HUB_OFFLINE)");
  CHECK(scene.hub.requests().empty());
}

TEST_CASE("paths, files and odd names are not taken for names of the Hub") {
  for (const char* id : {"Qwen/Qwen3-8B", "a/b", "some-lab/x_1.5"}) CHECK(is_hub_id(id));
  for (const char* id : {"", "/", "a/", "/b", "a/b/c", "a", "../x", "a/..", "~/x", "./x", "a/b c", "a/b?c", "a/b%2f",
                         "a/-b", "a/.b", "a/b..c", "a\n/b"}) {
    CAPTURE(std::string(id));
    CHECK_FALSE(is_hub_id(id));
  }
  Scene scene;
  CHECK_THROWS_WITH_AS(load_model("some/config.json", scene.settings), doctest::Contains("no such file or folder"),
                       InputError);
  CHECK(scene.hub.requests().empty());
}

TEST_CASE("the environment is read as huggingface_hub reads it") {
  ScratchFolder home;
  const Variable user("HOME", home.path().c_str()), xdg("XDG_CACHE_HOME", nullptr), hf("HF_HOME", nullptr),
      cache("HF_HUB_CACHE", nullptr), legacy("HUGGINGFACE_HUB_CACHE", nullptr), token("HF_TOKEN", nullptr),
      old_token("HUGGING_FACE_HUB_TOKEN", nullptr), path("HF_TOKEN_PATH", nullptr), offline("HF_HUB_OFFLINE", nullptr),
      endpoint("HF_ENDPOINT", nullptr), implicit("HF_HUB_DISABLE_IMPLICIT_TOKEN", nullptr),
      timeout("HF_HUB_DOWNLOAD_TIMEOUT", nullptr), transformers("TRANSFORMERS_OFFLINE", nullptr);
  HubSettings settings = hub_settings();
  CHECK(settings.endpoint == "https://huggingface.co");
  CHECK(settings.token.empty());
  CHECK_FALSE(settings.is_offline);
  CHECK(settings.hub_cache == home.path() / ".cache/huggingface/hub");
  CHECK(settings.own_cache == home.path() / ".cache/gpuplan");
  home.write(".cache/huggingface/token", "hf_file\n");
  CHECK(hub_settings().token == "hf_file");
  {
    const Variable in_xdg("XDG_CACHE_HOME", (home.path() / "xdg").c_str());
    CHECK(hub_settings().hub_cache == home.path() / "xdg/huggingface/hub");
    const Variable in_hf("HF_HOME", "~/hf");
    CHECK(hub_settings().hub_cache == home.path() / "hf/hub");
    const Variable in_cache("HF_HUB_CACHE", "/elsewhere");
    CHECK(hub_settings().hub_cache == "/elsewhere");
    CHECK(hub_settings().own_cache == home.path() / "xdg/gpuplan");
  }
  const Variable set("HF_TOKEN", " hf_set "), mirror("HF_ENDPOINT", "https://mirror.example:8443/hf/"),
      on("HF_HUB_OFFLINE", "YES"), patience("HF_HUB_DOWNLOAD_TIMEOUT", "3");
  settings = hub_settings();
  CHECK(settings.token == "hf_set");
  CHECK(settings.endpoint == "https://mirror.example:8443/hf");
  CHECK(settings.is_offline);
  CHECK(settings.limits.stall_seconds == 3);
  const Variable no_token("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
  CHECK(hub_settings().token.empty());
}

TEST_CASE("settings that cannot be right are refused without repeating a secret") {
  for (const char* value :
       {"ftp://x", "huggingface.co", "https://user:hf_secret@huggingface.co", "https://a b", "https://"}) {
    const Variable endpoint("HF_ENDPOINT", value);
    CAPTURE(std::string(value));
    try {
      hub_settings();
      FAIL("accepted");
    } catch (const InputError& error) { CHECK(std::string(error.what()).find("secret") == std::string::npos); }
  }
  const Variable token("HF_TOKEN", "hf_secret\r\nX-Injected: yes");
  CHECK_THROWS_WITH_AS(hub_settings(), doctest::Contains("HF_TOKEN: holds something that is no token"), InputError);
}

TEST_CASE("origins are compared with their ports; users in an address are not accepted") {
  CHECK(origin_of("https://Huggingface.co/x") == "https://huggingface.co:443");
  CHECK(origin_of("http://127.0.0.1:80?x") == "http://127.0.0.1:80");
  CHECK(origin_of("http://[::1]/x") == "http://[::1]:80");
  CHECK(origin_of("http://[::1]:8080/x") == "http://[::1]:8080");
  for (const char* url : {"", "x", "ftp://x", "https://", "https:///x", "https://a@b/x"}) CHECK(origin_of(url).empty());
}
