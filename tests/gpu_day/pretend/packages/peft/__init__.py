"""A rehearsal's stand-in for PEFT: the few calls of scripts/gpu_day_peer.py, over tests/torch/adapters.py."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', '..', 'torch'))
import adapters  # noqa: E402

__version__ = 'pretended'


class LoraConfig(adapters.LoraConfig):
    def __init__(self, r: int, lora_alpha: float, target_modules: list, task_type: str):
        super().__init__(r, lora_alpha, tuple(target_modules))


def _adapted(model, config: adapters.LoraConfig):
    made = adapters.add_adapters(model, config, quantised=False)
    model.enable_input_require_grads = lambda: None
    model.save_pretrained = lambda folder, save_embedding_layers: adapters.save_adapter(adapters.adapter_tensors(made), config, folder)
    return model, made


def get_peft_model(model, config: LoraConfig):
    return _adapted(model, config)[0]


class PeftModel:
    @staticmethod
    def from_pretrained(model, folder: str, is_trainable: bool):
        assert is_trainable
        adapted, made = _adapted(model, adapters.read_adapter_config(folder))
        adapters.load_adapter(made, folder)
        return adapted
