// Refusals of divided models name the flag that stands in the way and the least change that makes a plan possible; they
// are the same, and wrong input, whatever the command.
#include <string>

#include <doctest/doctest.h>

#include "golden/command_line.h"

namespace gpuplan {

TEST_CASE("what cannot be divided so is wrong input for every command, by the flag and the least other one") {
  struct Case {
    std::string asked, flag, instead;
  };
  const std::string stages = "one number for each of 4 stages, 32 layers in all",
                    dense = "--model llama3-8b --framework megatron --gpus 8xH100 ",
                    mixture = "--model mixtral-8x7b --full --framework megatron --gpus 16xH100 --ep 4 ";
  for (const Case& c :
       {Case{dense + "--pp 4 --stage-layers 6,8,8,5", "--stage-layers", stages},
        Case{dense + "--tp 2 --pp 4 --stage-layers 6,8,8,5", "--stage-layers", stages},
        Case{dense + "--tp 2 --pp 4 --stage-layers 8,8,16", "--stage-layers", stages},
        Case{dense + "--tp 2 --pp 4 --virtual-stages 3", "--virtual-stages", "leave --virtual-stages out"},
        Case{dense + "--tp 16", "--tp", "give --tp 8"},
        Case{dense + "--ep 2", "--ep", "leave --ep out"},
        Case{dense + "--cp 4 --seq-len 2050", "--seq-len", "give --seq-len 2048"},
        Case{dense + "--cp 4 --attention eager", "--attention", "give --attention flash"},
        Case{dense + "--tp 2 --strategy fsdp", "--strategy", "leave --strategy out"},
        Case{dense + "--tp 2 --lora dora", "--tp", "leave --tp out"},
        Case{mixture + "--tp 3", "--tp", "leave --tp out"},
        Case{mixture + "--cp 3", "--cp", "give --cp 4"},
        Case{mixture + "--pp 3", "--pp", "give --pp 4"},
        Case{mixture + "--pp 2 --virtual-stages 3", "--virtual-stages", "leave --virtual-stages out"},
        Case{mixture + "--etp 2 --dispatcher deepep", "--dispatcher", "leave --dispatcher out"},
        Case{"--model mixtral-8x7b --framework torchtitan --gpus 16xH100 --ep 4 --dispatcher deepep", "--dispatcher",
             "leave --dispatcher out"},
        Case{dense + "--tp 3 --sp --global-batch 64 --strategy zero1", "--tp", "give --tp 4"},
        Case{dense + "--tp 3 --lora dora", "--tp", "leave --tp out"},
        Case{"--model qwen3-30b-a3b --framework torchtitan --gpus 8xH100 --expert-capacity 1.5 --pad-experts",
             "--expert-capacity", "leave --expert-capacity and --pad-experts out"},
        Case{"--model llama3-8b --gpus 1xH100 --strategy ddp", "--strategy", "leave --strategy out"}}) {
    CAPTURE(c.asked);
    for (const char* command : {"estimate ", "plan ", "simulate ", "run --engine deepspeed --dry-run "}) {
      if (std::string_view(command).starts_with("run") && c.asked.find("megatron") != std::string::npos) continue;
      CAPTURE(command);
      const test::Ran ran = test::run_line(command + c.asked + " --offline");
      CAPTURE(ran.err);
      CHECK(ran.code == 2);
      CHECK(ran.out == "");
      if (std::string_view(command).starts_with("run")) continue;  // of another trainer
      CHECK(ran.err.find("gpuplan: " + c.flag + ": ") != std::string::npos);
      CHECK(ran.err.find(c.instead) != std::string::npos);
    }
  }
}

TEST_CASE("what searching settles is no refusal, and what does not fit is an answer") {
  const std::string dense = " --model llama3-8b --framework megatron --gpus 8xH100 --offline --rows 100 ";
  CHECK(test::run_line("plan" + dense + "--tp 2 --tp-overlap on").code == 0);  // --sp is searched
  CHECK(test::run_line("estimate" + dense + "--tp 2 --tp-overlap on").err.find("--sp: ") != std::string::npos);
  const std::string large = " --model llama-3.1-70b --full --gpus 1xA6000 --offload none --offline";
  CHECK(test::run_line("estimate" + large).code == 1);
  CHECK(test::run_line("plan" + large).code == 1);
}

}  // namespace gpuplan
