// Keyword arguments of a Python script: what is literal changes in its place, what is computed is named.
#include "mend/python_text.h"

#include <doctest/doctest.h>

#include "ecosystem/config_reader.h"
#include "mend/stated_facts.h"

using namespace gpuplan;

namespace {

const std::string kBegin =
    "from trl import SFTConfig, SFTTrainer\n"
    "from peft import LoraConfig\n"
    "peft = LoraConfig(r=16, lora_alpha=32)\n";
const std::string kEnd =
    "trainer = SFTTrainer(model='meta-llama/Llama-3.1-8B', args=args, peft_config=peft)\n"
    "trainer.train()\n";

ConfigFile script(const std::string& settings) { return {"train.py", kBegin + settings + kEnd}; }

MendedFiles mended(const ConfigFile& file, const std::vector<WantedFact>& facts) {
  const ConfigReading read =
      read_configs({file}, [](const std::string&, const std::string&) { return std::optional<ConfigFile>(); });
  return state_facts({file}, read.parts, facts);
}

std::string text_of(const MendedFiles& mended) {
  CHECK(mended.why_not.empty());
  return mended.files.empty() ? "" : mended.files[0].after;
}

}  // namespace

TEST_CASE("a literal argument changes where it stands, in whichever call, and a new one joins the trainer's settings") {
  const std::string before =
      "args = SFTConfig(\n"
      "    per_device_train_batch_size=4,  # ours\n"
      "    bf16=True,\n"
      "    output_dir='out'  # the last\n"
      ")\n";
  const std::string after =
      "args = SFTConfig(\n"
      "    per_device_train_batch_size=2,  # ours\n"
      "    bf16=True,\n"
      "    output_dir='out',  # the last\n"
      "    use_liger_kernel=True,\n"
      ")\n";
  const MendedFiles answer = mended(script(before), {{"micro_batch", 2}, {"liger", true}, {"rank", 8}});
  std::string begin = kBegin;
  begin.replace(begin.find("r=16"), 4, "r=8");
  CHECK(text_of(answer) == begin + after + kEnd);
  REQUIRE(answer.keys.size() == 3);
  CHECK(answer.keys[0].before == "4");
  CHECK(answer.keys[1].after == "True");
  CHECK(answer.keys[2].key == "r");
}

TEST_CASE("a call in one line gets its argument in that line, and one that is taken away takes its line along") {
  const std::string line = "args = SFTConfig(per_device_train_batch_size=4, bf16=True)\n";
  CHECK(text_of(mended(script(line), {{"liger", true}})) ==
        kBegin + "args = SFTConfig(per_device_train_batch_size=4, bf16=True, use_liger_kernel=True)\n" + kEnd);
}

TEST_CASE("what a script computes is not changed, and the answer says what to type and where") {
  const auto why = [](const std::string& settings) { return mended(script(settings), {{"micro_batch", 2}}).why_not; };
  const std::string typed = "to be typed into train.py: per_device_train_batch_size=2 in SFTConfig";
  CHECK(why("batch = 4\nargs = SFTConfig(per_device_train_batch_size=batch, bf16=True)\n") == typed);
  CHECK(why("args = SFTConfig(bf16=True)\nargs.per_device_train_batch_size = 4\n") == typed);
  CHECK(mended(script("more = {}\nargs = SFTConfig(bf16=True, **more)\n"), {{"liger", true}}).why_not ==
        "to be typed into train.py: use_liger_kernel=True in SFTConfig");
}
