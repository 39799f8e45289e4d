train.sh
#!/bin/bash
#SBATCH --nodes=2 --gres=gpu:8
A=(x y)
N=$((2*${B:-3}))
accelerate launch --use_fsdp --num_processes $N sft.py --use_peft --max_length=64 "${A[@]}" $(f)
