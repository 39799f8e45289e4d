#include "run_program/small_run.h"

#include <cmath>
#include <sstream>

#include "schemas/schemas.h"

namespace gpuplan::test {

SmallRun::SmallRun(const Shape& s, std::int64_t num_tokens) {
  const nlohmann::json config{{"architectures", {s.family == "qwen2" ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
                              {"model_type", s.family},
                              {"hidden_size", s.hidden},
                              {"intermediate_size", s.ffn},
                              {"num_hidden_layers", s.layers},
                              {"num_attention_heads", s.heads},
                              {"num_key_value_heads", s.kv_heads},
                              {"vocab_size", s.vocab},
                              {"max_position_embeddings", 2048},
                              {"rms_norm_eps", 1e-5},
                              {"hidden_act", "silu"},
                              {"tie_word_embeddings", false},
                              {"torch_dtype", "float32"}};
  scratch_.write("model/config.json", config.dump());
  std::string tokens;
  std::uint32_t random = 1;
  for (std::int64_t i = 0, t = 1; i < num_tokens; ++i) {
    random = random * 1664525 + 1013904223;
    t = (random >> 16) % 4 == 0 ? (random >> 20) % s.vocab : (t * 5 + 3) % s.vocab;
    tokens += {char(t & 255), char(t >> 8)};
  }
  scratch_.write("tokens.bin", tokens);
}

std::string SmallRun::content(const std::string& name) const {
  std::ifstream file(at(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> SmallRun::command(const std::string& flags) const {
  std::map<std::string, std::string> given{{"--model", at("model")},
                                           {"--init", "random"},
                                           {"--data", at("tokens.bin")},
                                           {"--precision", "fp32"},
                                           {"--seq-len", "16"},
                                           {"--micro-batch", "1"},
                                           {"--max-steps", "20"},
                                           {"--lr", "2e-3"},
                                           {"--gpus", "1xcpu"},
                                           {"--strategy", "single"},
                                           {"--metrics", at("metrics.jsonl")}};
  std::istringstream words(flags);
  for (std::string word, last; words >> word;) {
    if (word.starts_with("--"))
      given[last = word] = "";
    else
      given[last] = word;
  }
  std::vector<std::string> out{GPUPLAN_PROGRAM, "run"};
  for (const auto& [flag, value] : given) {
    if (value == "none") continue;  // leaves out one of those above
    out.push_back(flag);
    if (!value.empty()) out.push_back(value);
  }
  return out;
}

Finished SmallRun::run(const std::string& flags, double limit_seconds) const {
  return Process(command(flags), path()).wait(limit_seconds);
}

Finished SmallRun::run_ranks(const std::vector<std::string>& flags_of_ranks) const {
  std::string script = "case $OMPI_COMM_WORLD_RANK in\n";
  for (std::size_t rank = 0; rank < flags_of_ranks.size(); ++rank) {
    script += std::to_string(rank) + ") exec";
    for (const std::string& word : command(flags_of_ranks[rank])) script += " '" + word + "'";
    script += " ;;\n";
  }
  scratch_.write("rank.sh", script + "esac\n");
  return Process({"mpirun", "--mca", "orte_execute_quiet", "1", "--allow-run-as-root", "--oversubscribe", "--bind-to",
                  "none", "-n", std::to_string(flags_of_ranks.size()), "sh", at("rank.sh")},
                 path())
      .wait();
}

nlohmann::json SmallRun::report(const std::string& flags) const {
  const Finished f = run(flags + " --json");
  CAPTURE(flags);
  CAPTURE(f.err);
  REQUIRE(f.code == 0);
  auto report = nlohmann::json::parse(f.out);
  CHECK(test::schema_problem("run", report) == "");
  return report;
}

std::vector<nlohmann::json> SmallRun::metrics(const std::string& name) const {
  std::vector<nlohmann::json> out;
  std::ifstream file(at(name));
  for (std::string line; std::getline(file, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

std::vector<double> SmallRun::losses(const std::string& name) const {
  std::vector<double> out;
  for (const nlohmann::json& line : metrics(name)) out.push_back(line.at("loss").get<double>());
  return out;
}

double worst_relative(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double error = std::abs(a[i] / b[i] - 1);
    worst = error <= worst ? worst : std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

}  // namespace gpuplan::test
