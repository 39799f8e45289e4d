NPROC_PER_NODE=2 \
megatron sft \
    --model Qwen/Qwen2.5-7B-Instruct \
    --dataset alpaca.jsonl \
    --tuner_type lora \
    --lora_rank 8 \
    --target_modules all-linear \
    --tensor_model_parallel_size 2 \
    --sequence_parallel true \
    --micro_batch_size 16 \
    --global_batch_size 16 \
    --recompute_granularity full \
    --recompute_method uniform \
    --recompute_num_layers 1 \
    --max_length 2048
