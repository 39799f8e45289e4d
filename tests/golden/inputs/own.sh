torchrun --nproc_per_node=2 train.py \
  --model_name_or_path Qwen/Qwen2.5-7B --use_adapters 1 \
  --per_device_train_batch_size 4 --max_seq_length 2048 --bf16 True
