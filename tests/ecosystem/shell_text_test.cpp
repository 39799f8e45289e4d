// Shell scripts are read as a shell would expand them, and nothing is executed.
#include "ecosystem/shell_text.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ecosystem/shell_arithmetic.h"
#include "ecosystem/slurm_header.h"

namespace gpuplan {
namespace {

std::vector<std::string> last_command(const std::string& text) {
  const ShellText read = read_shell(text, "a.sh", {}, {});
  std::vector<std::string> words;
  if (!read.commands.empty())
    for (const ShellWord& word : read.commands.back().words) words.push_back(word.text);
  return words;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("words: quotes, continued lines, comments, redirections and operators are those of a shell") {
  CHECK(last_command("run --a 'x y' \\\n  --b \"p\\\"q\" # no\n") == Texts{"run", "--a", "x y", "--b", "p\"q"});
  CHECK(last_command("first; second x 2>&1 | tee log") == Texts{"tee", "log"});
  CHECK(last_command("run a > log 2> errors") == Texts{"run", "a"});
  CHECK(last_command("if true; then\n  run a#b\nfi") == Texts{"run", "a#b"});
}

TEST_CASE("words: a space behind the backslash ends the command, which is told where flags stand below") {
  CHECK_THROWS_WITH_AS(last_command("run --a 1 \\ \n  --b 2\n"), doctest::Contains("a.sh:1: a space stands behind"),
                       InputError);
  CHECK_THROWS_WITH_AS(last_command("run \\\n  --a 1 \\  # one\n  --b 2\n"), doctest::Contains("a.sh:2: a space"),
                       InputError);
  CHECK(last_command("run a\\ b \\ \n") == Texts{"run", "a b", " "});
}

TEST_CASE("variables: assignments, defaults, arrays, arithmetic and expr are resolved") {
  CHECK(last_command("A=3\nexport B=\"$A ${A}\"\nrun $B \"$B\"") == Texts{"run", "3", "3", "3 3"});
  CHECK(last_command("run ${N:-8} ${M-4}") == Texts{"run", "8", "4"});
  CHECK(last_command("L=(a 'b c')\nL+=(d)\nrun \"${L[@]}\" ${#L[@]} ${L[1]}") ==
        Texts{"run", "a", "b c", "d", "3", "b", "c"});
  CHECK(last_command("N=2\nrun $((N * 8)) $(expr 16 / $N)") == Texts{"run", "16", "8"});
}

TEST_CASE("variables: what a run alone would show is named, in its word alone") {
  const ShellText read = read_shell("ARGS=\"--lr 1 --out $DIR/x\"\nrun $ARGS $(hostname)", "a.sh", {}, {});
  REQUIRE(read.commands.back().words.size() == 6);
  const auto& words = read.commands.back().words;
  CHECK(words[2].unknown.empty());
  CHECK(words[4].unknown == Texts{"$DIR"});
  CHECK(words[5].unknown == Texts{"$(hostname)"});
  const ShellText array = read_shell("L=(--a \"$X/y\" --b 2)\nrun \"${L[@]}\"", "a.sh", {}, {});
  REQUIRE(array.commands.back().words.size() == 5);
  const auto& items = array.commands.back().words;
  CHECK(items[2].unknown == Texts{"$X"});
  CHECK(items[1].unknown.empty());
  CHECK(items[4].unknown.empty());
}

TEST_CASE("variables: a value that depends on a branch or a loop is not known after it") {
  const auto unknown = [](const std::string& text) {
    const ShellText read = read_shell(text, "a.sh", {}, {});
    return read.commands.back().words.back().unknown;
  };
  CHECK(unknown("A=1\nif x; then A=2; fi\nrun $A") == Texts{"$A"});
  CHECK(unknown("A=1\nif x; then A=1; fi\nrun $A").empty());
  CHECK(unknown("for A in 1 2; do\nrun $A\ndone") == Texts{"$A"});
  CHECK(unknown("for A in 1; do\nrun $A\ndone").empty());
  CHECK(unknown("case $1 in a) A=1;; b) A=2;; esac\nrun $A") == Texts{"$A"});
}

TEST_CASE("branches: one whose condition is known is taken, or forgotten with its commands") {
  CHECK(last_command("B=vllm\nA=1\nif [ \"$B\" = vllm ]; then A=2; fi\nrun $A") == Texts{"run", "2"});
  CHECK(last_command("B=vllm\nA=1\nif [ \"$B\" != vllm ]; then A=2; run x; else A=3; fi\nrun $A") == Texts{"run", "3"});
  CHECK(last_command("run 1\nif [ 2 -gt 3 ]; then\n  run 2\nfi\n") == Texts{"[", "2", "-gt", "3", "]"});
  CHECK(last_command("if [ a = b ]; then A=1; elif [ -n \"$X\" ]; then A=2; elif [ a = a ]; then A=3; else A=4; fi\n"
                     "run $A") != Texts{"run", "4"});
  const std::string group =
      "if [ \"${U:-1}\" != 0 ] && [ \"${D:-gpu}\" = gpu ] && { [ $B = vllm ] || [ $B = sglang ]; }; then\n";
  CHECK(last_command("B=sglang\nA=1\n" + group + "A=2\nfi\nrun $A") == Texts{"run", "2"});
  CHECK(last_command("B=trt\nA=1\n" + group + "A=2\nfi\nrun $A") == Texts{"run", "1"});
  CHECK(last_command("B=x\nif [[ -z \"\" && ($B == y || 3 -le 4) ]]; then A=1; else A=2; fi\nrun $A") !=
        Texts{"run", "2"});
  CHECK(last_command("B=x\nif [[ $B == y || $B == z ]]; then A=1; else A=2; fi\nrun $A") == Texts{"run", "2"});
  CHECK(last_command("N=1\n[ $N -gt 1 ] && A=many || A=one\nrun $A") == Texts{"run", "one"});
  CHECK(last_command("N=2\n[ $N -gt 1 ] && A=many || A=one\nrun $A") == Texts{"run", "many"});
  CHECK(last_command("A=1; cd x && A=2\nrun $A") == Texts{"run", "2"});
}

TEST_CASE("branches: of case the pattern that fits is taken; what is not known leaves all open") {
  const std::string of_device =
      "A=0\ncase \"$D\" in\n  gpu | cuda)\n    A=1 ;;\n  npu)\n    A=2\n    run x\n    ;;\n  *) A=3;;\nesac\nrun $A";
  CHECK(last_command("D=gpu\n" + of_device) == Texts{"run", "1"});
  CHECK(last_command("D=npu\n" + of_device) == Texts{"run", "2"});
  CHECK(last_command("D=tpu\n" + of_device) == Texts{"run", "3"});
  CHECK(last_command(of_device) == Texts{"run", "$A"});
  CHECK(read_shell("D=gpu\n" + of_device, "a.sh", {}, {}).commands.size() == 1);
  // no machine with GPUs of NVIDIA has torch_npu
  CHECK(last_command("D=${D:-$(python3 -c 'import torch_npu' 2>/dev/null && echo npu || echo gpu)}\n" + of_device) ==
        Texts{"run", "1"});
}

TEST_CASE("branches: an array that may grow keeps the items that it has") {
  const ShellText read = read_shell("L=(--a 1)\nif maybe; then L+=(--b 2); fi\nrun \"${L[@]}\"", "a.sh", {}, {});
  const auto& words = read.commands.back().words;
  REQUIRE(words.size() == 4);
  CHECK(words[2].text == "1");
  CHECK(words[2].unknown.empty());
  CHECK(words[3].unknown == Texts{"$L"});
}

TEST_CASE("here-documents are files that the script writes, not commands") {
  const ShellText read = read_shell("S=3\ncat > ds.json <<EOF\n{\"stage\": $S}\nEOF\nrun x", "a.sh", {}, {});
  CHECK(read.written.at("ds.json") == "{\"stage\": 3}\n");
  CHECK(read.commands.size() == 1);
}

TEST_CASE("hostile scripts end with a message and a line") {
  const auto error = [](const std::string& text) -> std::string {
    try {
      read_shell(text, "a.sh", {}, {});
    } catch (const InputError& e) { return e.what(); }
    return "";
  };
  CHECK(error("ok\nrun \"x") == "a.sh:2: the quote \" is not closed");
  CHECK(error("run ${x") == "a.sh:1: '{' is not closed");
  std::string doubling = "A=aaaaaaaaaaaaaaaa\n";
  for (int i = 0; i < 40; ++i) doubling += "A=$A$A\n";
  CHECK(error(doubling).find("grow too large") != std::string::npos);
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "${a:-";
  CHECK(error("run " + deep + std::string(1000, '}')).find("nested too deeply") != std::string::npos);
}

TEST_CASE("arithmetic: precedence, brackets, and nothing for what is no number") {
  CHECK(shell_arithmetic("2 + 3 * (4 - 1) ** 2 / 3") == 11);  // 2 + 3 * 9 / 3
  CHECK(shell_arithmetic("-7 / 2") == -3);                    // towards zero, as in C
  for (const char* none : {"1 / 0", "", "a", "1 +", "(1", "9223372036854775807 + 1", "2 ** 64"})
    CHECK_FALSE(shell_arithmetic(none).has_value());
  CHECK_FALSE(shell_arithmetic(std::string(5000, '(') + "1").has_value());
}

TEST_CASE("Slurm: every spelling of the GPUs of a node") {
  const auto gpus = [](const std::string& line) { return read_slurm_header("#SBATCH " + line).gpus_per_node; };
  for (const char* four : {"--gres=gpu:4", "--gres gpu:a100:4", "--gpus-per-node=4", "--gpus-per-node=h100:4", "-G 4",
                           "--gpus=4 --nodes=1", "--gpus-per-task=1 --ntasks=4"})
    CHECK(gpus(four) == 4);
  CHECK(read_slurm_header("#SBATCH -N 2\n#SBATCH --gpus=16\n").gpus_per_node == 8);
  CHECK(read_slurm_header("#SBATCH --gres=gpu:a100:8").gpu_type == "a100");
  CHECK_FALSE(gpus("--cpus-per-task=4").has_value());
}

TEST_CASE("a variable that read takes from a here-document is its text") {
  const ShellText read = read_shell(
      "N=2\nread -r -d '' what <<EOF\nmod.train \\\n  --rank $N\nEOF\ndeepspeed --module $what\n", "a.sh", {}, {});
  REQUIRE(read.commands.size() == 1);
  std::vector<std::string> words;
  for (const ShellWord& word : read.commands[0].words) words.push_back(word.text);
  CHECK(words == std::vector<std::string>{"deepspeed", "--module", "mod.train", "--rank", "2"});
}

}  // namespace gpuplan
