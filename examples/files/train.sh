#!/bin/bash
# The instruct model of last week, once more.
accelerate launch --num_processes 2 --multi_gpu -m trl.scripts.sft \
    --model_name_or_path Qwen/Qwen2.5-7B \
    --dataset_name tatsu-lab/alpaca \
    --use_peft --lora_r 16 --lora_target_modules all-linear \
    --max_length 2048 \
    --per_device_train_batch_size 8 \
    --gradient_accumulation_steps 1 \
    --bf16 True --dtype bfloat16 \
    --output_dir out > train.log
