#include "diagnose/training_log.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/statistics.h"
#include "base/surroundings.h"
#include "base/yaml_file.h"
#include "diagnose/log_line.h"

namespace gpuplan {
namespace {

enum class Figured : std::uint8_t {
  Step,
  MeanStep,
  Tokens,
  TokensPerGpu,
  Samples,
  Allocated,
  Reserved,
  Prompt,
  Completion,
  Count
};
constexpr std::array kFigured{NameRow<Figured>{"step", Figured::Step},
                              NameRow<Figured>{"mean-step", Figured::MeanStep},
                              NameRow<Figured>{"tokens", Figured::Tokens},
                              NameRow<Figured>{"tokens-per-gpu", Figured::TokensPerGpu},
                              NameRow<Figured>{"samples", Figured::Samples},
                              NameRow<Figured>{"allocated", Figured::Allocated},
                              NameRow<Figured>{"reserved", Figured::Reserved},
                              NameRow<Figured>{"prompt", Figured::Prompt},
                              NameRow<Figured>{"completion", Figured::Completion}};
constexpr NameTable<Figured> names_of(Figured) { return {"logged figure", kFigured}; }

struct FigureRow {
  std::string text, then;  // then: what follows the number; empty: anything
  Figured says{};
  double unit = 1;  // of the base unit
};

struct UnitRow {
  std::string_view name;
  double value;
};
constexpr std::array kUnits{UnitRow{"s", 1},      UnitRow{"ms", 1e-3},    UnitRow{"1/s", 1},
                            UnitRow{"tokens", 1}, UnitRow{"GiB", 0x1p30}, UnitRow{"MiB", 0x1p20}};

/// Keys of a line that counts steps and tells the time since the first, and no time of a step.
struct CounterRow {
  std::string step, total, elapsed;
};

struct LogRows {
  std::vector<FigureRow> figures;
  std::vector<CounterRow> counters;
  std::vector<std::string> generations;  // frameworks
};

LogRows read_log_rows() {
  YamlFile file = YamlFile::read(data_dir() / "training_logs.yaml");
  LogRows out;
  for (Fields& f : file.top().list("figures")) {
    const std::string text = f.text("text"), says = f.text("says"), unit = f.text("unit");
    const std::string then = f.optional_text("then").value_or("");
    const auto row = std::ranges::find(kUnits, unit, &UnitRow::name);
    if (row == kUnits.end())
      f.report("unit", fmt::format("'{}' is unknown", unit));
    else
      out.figures.push_back({text, then, parse_name<Figured>(says, "says"), row->value});
    f.text("source");
    f.refuse_unknown();
  }
  for (Fields& f : file.top().list("counters")) {
    out.counters.push_back({f.text("step"), f.text("total"), f.text("elapsed")});
    f.text("source");
    f.refuse_unknown();
  }
  for (Fields& f : file.top().list("generations")) {
    out.generations.push_back(f.text("framework"));
    f.text("source");
    f.refuse_unknown();
  }
  file.top().refuse_unknown();
  file.finish();
  return out;
}

std::optional<double> positive_behind(std::string_view line, std::string_view text, std::string_view then = {}) {
  const auto value = number_behind(line, text, then);
  return value && *value > 0 && *value <= 1e15 ? value : std::nullopt;
}

/// A progress bar, by its number of steps.
struct Bar {
  std::vector<double> rates;  // s per step, one for each line that shows another step
  std::int64_t last_step = -1;
  double elapsed = 0;
};

class LogReader {
 public:
  void take(const std::string& line) {
    const LogRows& rows = read_once<read_log_rows>();
    for (const FigureRow& row : rows.figures)
      if (const auto value = positive_behind(line, row.text, row.then))
        figures_[std::size_t(row.says)].push_back(*value * row.unit);
    for (const CounterRow& row : rows.counters) take_counter(line, row);
    if (const auto logged = read_log_line(line)) take_bar(*logged);
    if (const auto rate = positive_behind(line, "train_steps_per_second")) final_rate_ = rate;
  }

  TrainingLog finish() const {
    TrainingLog out;
    const auto middle = [&](Figured what) -> std::optional<double> {
      const std::vector<double> timed = without_first(figures_[std::size_t(what)]);
      if (timed.empty()) return std::nullopt;
      out.num_figures = std::ssize(timed);
      out.source = fmt::format("{} logged figures", timed.size());
      return median(timed);
    };
    const auto most = [&](Figured what) -> std::optional<Bytes> {
      const std::vector<double>& all = figures_[std::size_t(what)];
      if (all.empty()) return std::nullopt;
      return Bytes{std::int64_t(std::ranges::max(all))};
    };
    out.prompt = middle(Figured::Prompt), out.completion = middle(Figured::Completion);
    out.num_figures = 0, out.source.clear();  // of what follows
    if (const auto step = middle(Figured::Step)) out.step = Seconds{*step};
    out.tokens_per_second = middle(Figured::Tokens);
    out.tokens_per_gpu = middle(Figured::TokensPerGpu);
    out.samples_per_second = middle(Figured::Samples);
    out.allocated = most(Figured::Allocated);
    out.reserved = most(Figured::Reserved);
    if (const auto bar = longest_bar(); bar != bars_.end()) out.num_steps = bar->first;
    if (!out.has_time()) take_bar_of_training(out);
    if (!out.has_time()) take_mean(out);
    if (!out.has_time() && final_rate_) {
      out.step = Seconds{1 / *final_rate_};
      out.num_figures = 1;
      out.source = "transformers' sum at the end, pauses included";
    }
    return out;
  }

 private:
  static constexpr std::size_t kFirst = 2;  // steps that load kernels and connect ranks

  static std::vector<double> without_first(const std::vector<double>& all) {
    return std::vector<double>{all.begin() + std::ptrdiff_t(all.size() > 2 * kFirst ? kFirst : 0), all.end()};
  }

  void take_bar(const LoggedStep& line) {
    if (!line.step || !line.total) return;
    Bar& bar = bars_[*line.total];
    if (line.elapsed) bar.elapsed = std::max(bar.elapsed, *line.elapsed);
    if (*line.step <= bar.last_step) return;
    bar.last_step = *line.step;
    if (line.seconds_per_step && *line.step > 0) bar.rates.push_back(*line.seconds_per_step);
  }

  void take_counter(std::string_view line, const CounterRow& row) {
    const auto step = positive_behind(line, row.step), total = positive_behind(line, row.total);
    const auto elapsed = clock_behind(line, row.elapsed);
    if (!step || !total || !elapsed) return;
    if (!counted_.first) counted_.first = Counted{*step, *elapsed};
    counted_.last = Counted{*step, *elapsed};
  }

  /// Means since the start: of the last line, or between the first and the last one that count.
  void take_mean(TrainingLog& out) const {
    const std::vector<double>& means = figures_[std::size_t(Figured::MeanStep)];
    const auto& [first, last] = counted_;
    if (!means.empty()) {
      out.step = Seconds{means.back()};
    } else if (first && last.step > first->step && last.elapsed > first->elapsed) {
      out.step = Seconds{(last.elapsed - first->elapsed) / (last.step - first->step)};
    } else {
      return;
    }
    out.num_figures = 1;
    out.source = "the mean of all steps, pauses included";
  }

  /// The bar that ran longest: others load weights, map data or evaluate.
  std::map<std::int64_t, Bar>::const_iterator longest_bar() const {
    return std::ranges::max_element(bars_, {}, [](const auto& bar) { return bar.second.elapsed; });
  }

  void take_bar_of_training(TrainingLog& out) const {
    const auto longest = longest_bar();
    if (longest == bars_.end() || longest->second.rates.empty()) return;
    const std::vector<double> timed = without_first(longest->second.rates);
    out.step = Seconds{median(timed)};
    out.num_figures = std::ssize(timed);
    out.source = fmt::format("the progress bar of {} steps", longest->first);
  }

  std::array<std::vector<double>, std::size_t(Figured::Count)> figures_;
  struct Counted {
    double step{}, elapsed{};
  };
  struct Counts {
    std::optional<Counted> first;
    Counted last;
  };
  Counts counted_;
  std::map<std::int64_t, Bar> bars_;  // by their number of steps
  std::optional<double> final_rate_;
};

}  // namespace

TrainingLog read_training_log(std::istream& in, const std::string& where) {
  constexpr std::size_t kLongest = 1 << 20;  // of a line
  LogReader reader;
  std::string line;
  const auto end_line = [&] {
    if (!line.empty()) reader.take(line);
    line.clear();
  };
  for (int c; (c = in.rdbuf()->sbumpc()) != std::char_traits<char>::eof();) {
    if (c == '\n' || c == '\r')
      end_line();
    else if (line.size() < kLongest)
      line += char(c);
  }
  end_line();
  TrainingLog log = reader.finish();
  if (!log.has_time() && !log.allocated && !log.reserved)
    throw InputError(where, "says nothing of the time of a step or of memory",
                     "progress bars and the figures of data/training_logs.yaml are read; or --measured 1.4s");
  return log;
}

bool logs_generations(const std::string& framework) {
  const std::vector<std::string>& all = read_once<read_log_rows>().generations;
  return std::ranges::find(all, framework) != all.end();
}

}  // namespace gpuplan
