// Names that nobody should give, and what stands behind them: other people's files, links, folders, pipes, devices.
// Whatever a command is asked to read or write, it ends with one of its exit codes, sends the terminal nothing that it
// obeys, replaces nothing that it did not write, and reads no folder of a user where there is none.
// GPUPLAN_HOSTILE says how many, GPUPLAN_QUESTIONS_SEED which.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include "base/names.h"
#include "base/utf8.h"
#include "hostile_names.h"
#include "questions/ask.h"
#include "questions/chances.h"
#include "sanitized.h"

namespace {

using namespace gpuplan;
using namespace gpuplan::test;
namespace fs = std::filesystem;

enum class Trap { File, Link, LinkToNothing, Folder, Pipe, Device, NameOfCard, NameOfProfile, NameOfTensor, Count };

/// A question that takes a path, which stands at the end.
struct Asker {
  const char* command;
  const char* others;
  const char* flag;  // "": an argument
  bool writes = false;
};
constexpr const char* kPlan = "--model smollm2-135m --gpus 2xA6000";
constexpr const char *kTinyRun = "--model tiny --init random --full --gpus 1xcpu --seq-len 8 --max-steps 1",
                     *kTinyConfig =
                         R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":16,)"
                         R"("intermediate_size":16,"num_hidden_layers":1,"num_attention_heads":2,"vocab_size":64})";
constexpr std::array kAskers{Asker{"estimate", "--gpus 2xA6000", "--model"},
                             Asker{"estimate", "", ""},
                             Asker{"estimate", "--gpus 2xA6000", "--from"},
                             Asker{"estimate", kPlan, "--lengths"},
                             Asker{"estimate", kPlan, "--data"},
                             Asker{"estimate", kPlan, "--tokenizer"},
                             Asker{"estimate", kPlan, "--profile"},
                             Asker{"estimate", "--model smollm2-135m", "--cluster"},
                             Asker{"topology", "", ""},
                             Asker{"models", "", "--show"},
                             Asker{"profiles", "show", ""},
                             Asker{"validate", "", ""},
                             Asker{"gpus", "", ""},
                             Asker{"export", "lora.json --for slurm", "--output", true},
                             Asker{"estimate", kPlan, "--save", true},
                             Asker{"simulate", kPlan, "--trace", true},
                             Asker{"simulate", kPlan, "--html", true},
                             Asker{"run", "--full --gpus 1xcpu", "--model"},
                             Asker{"run", "", ""},
                             Asker{"run", kTinyRun, "--data"},
                             Asker{"run", kTinyRun, "--adapter"},
                             Asker{"run", "lora.json --engine torchrun --dry-run", "--hosts"},
                             Asker{"run", kTinyRun, "--output", true},
                             Asker{"run", kTinyRun, "--metrics", true},
                             Asker{"run", kTinyRun, "--trace", true},
                             Asker{"calibrate", "--device none", "--output", true},
                             Asker{"diagnose", "--tokens-per-s 100", ""},
                             Asker{"diagnose", kPlan, "--trace"},
                             Asker{"diagnose", kPlan, "--log"},
                             Asker{"fix", "--gpus 2xA6000", ""},
                             Asker{"fix", "example0.yaml --gpus 2xA6000", "--output", true}};

/// Questions whose answers list what a user's folders hold, or read a model's weights.
constexpr std::array kListers{Asker{"gpus", "", ""},
                              Asker{"gpus", "nonsense", ""},
                              Asker{"gpus", "RTX-A6000", ""},
                              Asker{"machines", "", ""},
                              Asker{"profiles", "", ""},
                              Asker{"profiles", "show nonsense", ""},
                              Asker{"estimate", "--model smollm2-135m --gpus 2xnonsense", ""},
                              Asker{"estimate", kPlan, ""},
                              Asker{"plan", "--model smollm2-135m --gpus 2xA6000", ""}};
constexpr std::array kWeighers{Asker{"estimate", "--gpus 2xA6000 --model weights", ""},
                               Asker{"models", "--show weights", ""}};

constexpr const char* kOthers = "somebody else's work\n";

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// A card that is shipped, under another name.
std::string card_named(const std::string& name) {
  std::string card = content_of(std::string(GPUPLAN_TEST_DIR) + "/../data/gpus/rtx-a6000.yaml");
  if (const std::size_t at = card.find("id: "); at != std::string::npos)
    card.replace(at, card.find('\n', at) - at, "id: " + quoted(name));
  return card;
}

/// A small model's folder, whose weights hold one tensor of that name.
void lay_weights(const std::string& name) {
  fs::create_directories("weights");
  std::ofstream("weights/config.json") << R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 256})";
  const std::string header =
      fmt::format(R"({{{}: {{"dtype": "F16", "shape": [1], "data_offsets": [0, 2]}}}})", quoted(name));
  std::string length;
  for (int byte = 0; byte < 8; ++byte) length += char(header.size() >> (8 * byte) & 0xff);
  std::ofstream("weights/model.safetensors", std::ios::binary) << length << header << "ab";
}

/// Something of that name, in the folder of the questions.
void lay(Trap trap, const std::string& name) {
  const fs::path cards = "cards/gpuplan/gpus", profiles = "cards/gpuplan/profiles";
  std::error_code none;
  std::ofstream("victim") << kOthers;
  fs::create_directory("tiny", none);
  std::ofstream("tiny/config.json") << kTinyConfig;
  switch (trap) {
    case Trap::File: std::ofstream(name) << kOthers; break;
    case Trap::Link: fs::create_symlink("victim", name, none); break;
    case Trap::LinkToNothing: fs::create_symlink("nothing/" + name, name, none); break;
    case Trap::Folder: fs::create_directories(fs::path(name) / name, none); break;
    case Trap::Pipe: mkfifo(name.c_str(), 0600); break;
    case Trap::Device: fs::create_symlink("/dev/zero", name, none); break;
    case Trap::NameOfCard:
      fs::create_directories(cards, none);
      std::ofstream(cards / (name + ".yaml")) << card_named(name);
      break;
    case Trap::NameOfProfile:
      fs::create_directories(profiles, none);
      std::ofstream(profiles / (name + ".yaml")) << "schema_version: 1\nid: " << quoted(name) << "\n";
      break;
    case Trap::NameOfTensor: lay_weights(name); break;
    case Trap::Count: break;
  }
}

constexpr std::string_view kForged = "forged";

std::string raw_text_in(const std::string& shown) {
  for (std::size_t at = 0; at < shown.size(); at += character_length(shown.substr(at, 4))) {
    const std::string character = shown.substr(at, character_length(shown.substr(at, 4)));
    if (character != "\r" && shown_character(character) != character)
      return fmt::format("'{}' reaches the terminal", shown_character(character));
  }
  std::string before;
  for (const std::string& line : split(shown, '\n')) {  // where a long name is cut, its line feed was told as such
    const std::size_t start = line.find_first_not_of(" -");
    if (start != std::string::npos && line.compare(start, kForged.size(), kForged) == 0 && !before.ends_with("\\x0a") &&
        !before.ends_with("\\n"))
      return "a line feed of a name begins a line";
    before = line;
  }
  return {};
}

/// The same trap, asker and name for a number on every machine.
struct Attack {
  Trap trap;
  Asker asker;
  std::string name;
  bool has_home;
  bool is_in_folder = false;  // not in the question
};

Attack attack_of(std::uint64_t seed, std::uint64_t number) {
  static const std::vector<std::string> kNames = hostile_names();
  Chances chances(seed * 0x9E3779B97F4A7C15ULL + number);
  Attack a{Trap(chances.below(std::uint64_t(Trap::Count))), kAskers[chances.below(kAskers.size())], {}, true};
  if (a.trap == Trap::Pipe && !chances.one_in(40)) a.trap = Trap::Link;  // each is waited for, for five seconds
  a.name = kNames[chances.below(kNames.size())];
  std::erase_if(a.name, [](char c) { return c == '/' || c == '\0'; });
  if (a.name.empty() || a.name.find_first_not_of('.') == std::string::npos) a.name = "name";
  if (chances.one_in(4)) a.name += "\xe2\x80\xae";  // turns what follows round
  if (chances.one_in(3)) a.name += "\nforged: a line";
  const bool is_listed = a.trap == Trap::NameOfCard || a.trap == Trap::NameOfProfile;
  if (is_listed && chances.one_in(2)) a.asker = kListers[chances.below(kListers.size())], a.is_in_folder = true;
  if (a.trap == Trap::NameOfTensor) a.asker = kWeighers[chances.below(kWeighers.size())], a.is_in_folder = true;
  a.has_home = a.is_in_folder || chances.one_in(2);
  return a;
}

Question question_of_attack(const Attack& attack) {
  Question q{.command = attack.asker.command};
  for (const std::string& word : split(attack.asker.others, ' '))
    if (!word.empty()) q.flags.push_back({"", word});
  if (!attack.is_in_folder) q.flags.push_back({attack.asker.flag, attack.name});
  return q;
}

std::string broken_by(const Attack& attack, const Question& question) {
  std::error_code none;
  fs::create_directories(".local/share/gpuplan/gpus", none);  // of nobody's home
  std::ofstream(".local/share/gpuplan/gpus/rtx-a6000.yaml") << "id: taken from the current folder\n";
  fs::remove_all("cards", none);
  fs::remove_all("weights", none);
  attack.has_home ? setenv("XDG_DATA_HOME", fs::absolute("cards").c_str(), 1) : unsetenv("XDG_DATA_HOME");
  setenv("HOME", "relative/home", 1);
  lay(attack.trap, attack.name);
  const std::string before = content_of(attack.trap == Trap::File ? attack.name : "victim");
  const Answered answered = ask(question);
  const std::string after = content_of(attack.trap == Trap::File ? attack.name : "victim");
  if (answered.code < 0 || answered.code > 3) return fmt::format("exit code {}", answered.code);
  if (std::string raw = raw_text_in(answered.out + answered.err); !raw.empty()) return raw;
  if (after != before || content_of("victim") != kOthers) return "somebody else's file was replaced";
  if ((answered.out + answered.err).find("taken from the current folder") != std::string::npos)
    return "a folder of nobody's was read";
  return {};
}

}  // namespace

TEST_CASE("hostile names, links, pipes, devices and missing homes are met with an answer or a message") {
  const char *const set = std::getenv("GPUPLAN_HOSTILE"), *const seeded = std::getenv("GPUPLAN_QUESTIONS_SEED");
  const std::uint64_t count = set            ? std::strtoull(set, nullptr, 10)
                              : kIsSanitized ? 60
                                             : 300,
                      seed = seeded ? std::strtoull(seeded, nullptr, 10) : 1;
  std::vector<Question> questions;
  for (std::uint64_t n = 0; n < count; ++n) {
    questions.push_back(question_of_attack(attack_of(seed, n)));
    questions.back().number = n;
  }
  const auto verdicts =
      check_all(questions, [&](const Question& q) { return broken_by(attack_of(seed, q.number), q); });
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    CAPTURE(int(attack_of(seed, i).trap));
    CAPTURE(printable(questions[i].line()));
    CHECK(verdicts[i] == "");
  }
}
