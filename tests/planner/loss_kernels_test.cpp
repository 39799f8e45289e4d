// Measured peaks of a head and its loss alone (data/validation/loss_kernels.jsonl) against the ops that stand for the
// head in a training.
#include <cmath>
#include <deque>
#include <map>
#include <sstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/training_method.h"
#include "planner/estimate.h"
#include "planner/program_builder.h"

using namespace gpuplan;

namespace loss_kernels {
namespace {

using Row = nlohmann::json;

std::vector<Row> measured_rows() {
  std::vector<Row> rows;
  std::istringstream lines(read_file(data_dir() / "validation" / "loss_kernels.jsonl"));
  for (std::string line; std::getline(lines, line);) rows.push_back(Row::parse(line));
  return rows;
}

/// Llama 3's head is that of the benchmark: 128,256 x 4,096. Its weights and gradients are 16 bit, whole, on one GPU.
EstimateRequest training_of(const Row& row) {
  EstimateRequest r;
  r.model = load_model("llama-3-8b").spec;
  REQUIRE(r.model.hidden_size == row.at("hidden"));
  REQUIRE(r.model.vocab_size == row.at("vocabulary"));
  r.cluster = parse_gpus("1xH100");
  r.strategy = "single";
  r.recipe.objective.method = row.value("computed_as", row.at("method").get<std::string>());
  r.recipe.precision = Precision::Bf16True;
  r.recipe.micro_batch = row.at("rows").get<std::int64_t>() / r.recipe.objective.answers();
  r.recipe.seq_len = row.at("row_length");
  r.recipe.packing = Packing::Padded;
  r.recipe.checkpointing = Checkpointing::Full;
  if (row.at("loss") == "fused") r.recipe.loss = LossKernel::Fused;
  // log-softmax of all rows at once, in fp32 but where the benchmark's own code had it in 16 bit
  static std::deque<FrameworkConvention> kept;
  FrameworkConvention& framework = kept.emplace_back(resolve_framework("llama-factory", {}));
  framework.preference.upcasts_logits = row.value("logits", std::string("fp32")) == "fp32";
  framework.preference.keeps_output = false;
  r.recipe.framework = framework;
  return r;
}

/// Peak of what the head makes, forward and backward, without what it is called with.
Bytes peak_of_head(const EstimateRequest& r) {
  StepProgram program;
  const Job job(r, make_strategy(r.strategy, r.cluster, r.options));
  build_step_program(program, job, {});
  Usage usage = program.blocks[program.made->head].total;
  usage.then(program.blocks[program.made->head_backward].total);
  return Bytes{usage.peak};
}

double sum_of_bytes(const Row& form, const char* list) {
  double bytes = 0;
  for (const Row& tensor : form.value(list, Row::array())) bytes += tensor.at("bytes").get<double>();
  return bytes;
}

/// Tokens that Liger takes at once, so that their logits are about as large as all inputs: fused_linear_jsd_forward.
double tokens_at_once(const Row& row) {
  const double hidden = row.at("hidden"), vocabulary = row.at("vocabulary"), tokens = row.at("tokens");
  return std::exp2(std::ceil(std::log2(std::ceil(tokens / std::ceil(vocabulary / hidden)))));
}

/// MiB that stand at the peak of a divergence alone: data/validation/divergences.json says which tensors.
double peak_of_divergence(const Row& row, const Row& form) {
  const double tokens = row.at("tokens"), vocabulary = row.at("vocabulary"), hidden = row.value("hidden", 0.0);
  double bytes = sum_of_bytes(form, "logits") * tokens * vocabulary + sum_of_bytes(form, "inputs") * tokens * hidden;
  if (form.contains("chunk_logits")) bytes += sum_of_bytes(form, "chunk_logits") * tokens_at_once(row) * vocabulary;
  bytes += double(form.value("weights", Row::array()).size()) * vocabulary * hidden * 2;
  return bytes / (1 << 20) + 32 * form.value("workspaces", 0.0);
}

std::map<std::string, Row> divergences() {
  std::map<std::string, Row> forms;
  const Row file = Row::parse(read_file(data_dir() / "validation" / "divergences.json"));
  for (const Row& form : file.at("forms")) forms[form.at("name").get<std::string>()] = form;
  return forms;
}

}  // namespace

TEST_CASE("losses of pairs, plain and fused: the head's ops are within 5 % of what was measured") {
  // Beside what the head makes, the benchmark (benchmark_orpo_loss.py and its neighbours) holds, with W = 128,256 x
  // 4,096 x 2 bytes: two modules with a weight each, of which one has a gradient (3 W); the gradient of the input; and
  // two cuBLAS workspaces of 8.125 MiB. Its input stands for what the final norm makes, which keeps more than it. Plain
  // rows, which ran after the fused ones in the same process, have 2 W + 5 inputs of one pair more than that at every
  // batch: what the compiled function of the first fused call keeps. Fused rows ran with it too.
  int num_rows = 0;
  for (const Row& row : measured_rows()) {
    if (row.contains("divergence")) continue;
    CAPTURE(row.at("id").get<std::string>());
    const double weight = 2.0 * row.at("hidden").get<double>() * row.at("vocabulary").get<double>();
    const double of_token = 2.0 * row.at("hidden").get<double>();
    const double held = 5 * weight + row.at("tokens").get<double>() * of_token +
                        5 * 2 * row.at("row_length").get<double>() * of_token + 2 * 8.125 * (1 << 20);
    const double predicted = (held + double(peak_of_head(training_of(row)).count)) / (1 << 20);
    MESSAGE(row.at("id") << ": " << predicted << " of " << row.at("peak_mib"));
    CHECK(std::abs(predicted / row.at("peak_mib").get<double>() - 1) <= 0.05);
    ++num_rows;
  }
  CHECK(num_rows == 32);
}

TEST_CASE("divergences alone, in PyTorch and in Liger's kernels: their tensors are within 1 % of what was measured") {
  const std::map<std::string, Row> forms = divergences();
  int num_rows = 0;
  for (const Row& row : measured_rows()) {
    if (!row.contains("divergence")) continue;
    CAPTURE(row.at("id").get<std::string>());
    const Row& form = forms.at(row.at("divergence").get<std::string>());
    if (form.contains("growth_only")) continue;
    const double ratio = peak_of_divergence(row, form) / row.at("peak_mib").get<double>();
    MESSAGE(row.at("id") << ": " << ratio);
    CHECK(std::abs(ratio - 1) <= 0.01);
    ++num_rows;
  }
  CHECK(num_rows == 28);
}

TEST_CASE("a divergence in a process that holds more grows from batch to batch as its tensors do") {
  const std::map<std::string, Row> forms = divergences();
  int num_rows = 0;
  Row before;
  for (const Row& row : measured_rows()) {
    if (!row.contains("divergence") || !forms.at(row.at("divergence").get<std::string>()).contains("growth_only"))
      continue;
    CAPTURE(row.at("id").get<std::string>());
    const Row& form = forms.at(row.at("divergence").get<std::string>());
    if (before.is_object() && before.at("divergence") == row.at("divergence")) {
      const double grew = row.at("peak_mib").get<double>() - before.at("peak_mib").get<double>();
      const double predicted = peak_of_divergence(row, form) - peak_of_divergence(before, form);
      CHECK(std::abs(predicted / grew - 1) <= 0.01);
    }
    before = row;
    ++num_rows;
  }
  CHECK(num_rows == 8);
}

TEST_CASE("the tensors of a divergence are those that PyTorch on the CPU counted beside what was held") {
  // the first four tensors of a form on given log-probs stand before the call
  for (const auto& [name, form] : divergences()) {
    CAPTURE(name);
    CHECK(form.at("source").get<std::string>().starts_with("linkedin/Liger-Kernel "));
    if (!form.contains("counted")) continue;
    const double held = form.contains("inputs") ? 0 : 4 * 4;
    const Row& counted = form.at("counted");
    CHECK(sum_of_bytes(form, "logits") - held == counted.at(form.at("peak").get<std::string>()));
    CHECK(counted.at(form.at("peak").get<std::string>()).get<double>() >= counted.at("forward").get<double>());
    CHECK(counted.at(form.at("peak").get<std::string>()).get<double>() >= counted.at("backward").get<double>());
  }
}

}  // namespace loss_kernels
