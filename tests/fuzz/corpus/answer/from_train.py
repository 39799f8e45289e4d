train.py
m = FastLanguageModel.from_pretrained("m", 64)
SFTTrainer(model=m, args=SFTConfig(max_length=2 ** 6, bf16=not is_bf16_supported(), **{"packing": True}))
