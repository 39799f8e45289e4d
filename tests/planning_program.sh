#!/usr/bin/env bash
# planning_program.sh <gpuplan_planning> <gpuplan>: both give the same answers, and the first says where the rest is.
set -euo pipefail
planning=$1 whole=$2
failures=0
complain() { echo "$@"; failures=$((failures + 1)); }

for question in 'estimate --model llama3-8b --lora r=8 --gpus 4xA6000' 'estimate --model llama3-8b --qlora --gpus 2x4090 --json' \
                'simulate --model llama-3.2-1b --lora --gpus 2xA6000 --strategy ddp' '--help' '--licences' 'help estimate' 'estimate --gpu x' 'models llama3-8b'; do
  # shellcheck disable=SC2086  # words of a question
  diff <("$planning" $question 2>&1; echo "exit code $?") <("$whole" $question 2>&1; echo "exit code $?") ||
    complain "'$question' is answered differently"
done
for command in run calibrate serve 'help run'; do
  code=0
  # shellcheck disable=SC2086  # words of a command
  text=$("$planning" $command --json 2>&1) || code=$?
  if [[ $code != 3 || $text != *"./gpuplan ${command#help } builds"* ]]; then complain "'$command': exit code $code, $text"; fi
done
exit $((failures > 0))
