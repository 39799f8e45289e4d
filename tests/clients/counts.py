"""Inside the Debian of chroot.sh: models of the catalogue as transformers, PEFT and bitsandbytes' rule make them, on PyTorch's meta device.

    counts.py CONFIGS OUT KEYS NAME...       a JSON object per line in OUT; CONFIGS has NAME.json, a config.json each; KEYS: trainable,four_bit

Per model: all parameters, those of nn.Linear but the output head, the head, the routed experts and how many of those are nn.Linear, what
load_in_4bit converts, what a LoRA of `all-linear` with rank 16 trains, and the classes that FSDP wraps. A model that cannot be made has the
program's error instead.
"""
import json
import os
import pathlib
import sys
import types

import environment
from config_words import translate

stand_ins = environment.enter(['tokenizers'])

import accelerate  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from torch import nn  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: E402
from transformers.pytorch_utils import Conv1D  # noqa: E402

RANK = 16
MANY = int(os.environ.get('GPUPLAN_CLIENTS_MANY', '3000'))  # linear layers of a model that are counted one by one


def without_values():
    """Nothing here has values: initial ones are not drawn, which would take most of the time."""
    for name in ('normal_', 'uniform_', 'trunc_normal_', 'zero_', 'fill_'):
        if hasattr(torch.Tensor, name):
            setattr(torch.Tensor, name, lambda tensor, *args, **kwargs: tensor)
    for name in ('kaiming_uniform_', 'kaiming_normal_', 'xavier_uniform_', 'normal_', 'uniform_', 'trunc_normal_', 'zeros_', 'ones_', 'constant_'):
        setattr(nn.init, name, lambda tensor, *args, **kwargs: tensor)


def message(error):
    """The error's first line, with its class."""
    return f'{type(error).__name__}: {(str(error).strip() or "no message").splitlines()[0][:300]}'


def read_config(written):
    """The program's own config of ours."""
    kind = written['model_type']
    if kind not in CONFIG_MAPPING:
        raise LookupError(f'no model type {kind}')
    made = CONFIG_MAPPING[kind]
    config = made.from_dict(translate(written, 'text_config' in getattr(made, 'sub_configs', {})))
    if (getattr(config, 'pad_token_id', None) or 0) >= getattr(config, 'vocab_size', 1 << 62):
        config.pad_token_id = None  # the class's own, of a larger vocabulary
    return config


def build(config, architectures):
    wanted = [name.lower() for name in architectures]
    names = [name for name in dir(transformers) if name.lower() in wanted]
    if len(names) != 1:
        raise LookupError(f'no class {architectures}')
    made = getattr(transformers, names[0])
    try:
        with torch.device('meta'):
            return made._from_config(config)
    except NotImplementedError:  # a layer that reads its own parameters while it is made: memory for one layer at a time
        with accelerate.init_empty_weights(include_buffers=True):
            return made._from_config(config)


def made_of(written):
    return build(read_config(written), written['architectures'])


def size(parameters):
    return sum(parameter.numel() for parameter in parameters)


def routed_experts(model):
    """Parameters of the routed experts: below a name `experts`, or of a module that holds all of a layer's experts."""
    found = {}
    for name, module in model.named_modules():
        if name.split('.')[-1] == 'experts' or type(module).__name__.endswith('ParallelExperts'):
            found.update((id(parameter), parameter) for parameter in module.parameters())
    return found


def count(model):
    head = model.get_output_embeddings()
    embedding = model.get_input_embeddings()
    weights = {id(module.weight): module.weight for module in model.modules() if isinstance(module, nn.Linear) and module is not head}
    experts = routed_experts(model)
    shapes = sorted({tuple(parameter.shape) for key, parameter in experts.items() if key not in weights})
    classes = {type(module).__name__ for module in model.modules()}
    split = sorted(set(model._no_split_modules or []))
    return {'class': type(model).__name__, 'parameters': size(model.parameters()), 'linear': size(weights.values()),
            'head': head.weight.numel() if head is not None else 0,
            'tied': head is not None and embedding is not None and head.weight is embedding.weight,
            'experts': size(experts.values()), 'linear_experts': size(p for key, p in experts.items() if key in weights),
            'stacked_shapes': shapes, 'wrapped': [name for name in split if name in classes],
            'not_there': [name for name in split if name not in classes]}


def count_four_bit(model):
    """The weights that transformers gives to bitsandbytes, by its own functions; the 4-bit layer only notes its size."""
    from transformers.integrations import bitsandbytes as rule
    from transformers.quantizers.base import HfQuantizer
    sizes = []

    class Linear4bit(nn.Module):
        def __init__(self, inputs, outputs, *args, **kwargs):
            super().__init__()
            sizes.append(inputs * outputs)
            self.weight = nn.Parameter(torch.empty(0))

        def __setattr__(self, name, value):
            object.__setattr__(self, name, value) if isinstance(value, type) else super().__setattr__(name, value)

    # transformers imports these beside bitsandbytes, where that is installed
    vars(rule).update(bnb=types.SimpleNamespace(nn=types.SimpleNamespace(Linear4bit=Linear4bit)), nn=nn, torch=torch, Conv1D=Conv1D,
                      init_empty_weights=accelerate.init_empty_weights, find_tied_parameters=accelerate.utils.find_tied_parameters)
    config = types.SimpleNamespace(quantization_method=lambda: 'nf4', llm_int8_skip_modules=None, bnb_4bit_compute_dtype=torch.bfloat16,
                                   bnb_4bit_use_double_quant=True, bnb_4bit_quant_type='nf4', bnb_4bit_quant_storage=torch.uint8)
    skipped = HfQuantizer.get_modules_to_not_convert(*([None] if environment.takes_self(HfQuantizer.get_modules_to_not_convert) else []), model, None,
                                                     model._keep_in_fp32_modules)
    rule.replace_with_bnb_linear(model, modules_to_not_convert=skipped, quantization_config=config)
    return sum(sizes)


def count_adapters(model):
    import peft
    with torch.device('meta'):
        adapted = peft.get_peft_model(model, peft.LoraConfig(r=RANK, target_modules='all-linear'))
    return size(parameter for parameter in adapted.parameters() if parameter.requires_grad)


def shortened(written, layers):
    """The same model with fewer layers."""
    whole = written['num_hidden_layers']
    cut = {key: value[:layers] if isinstance(value, list) and len(value) == whole else value for key, value in written.items()}
    return {**cut, 'num_hidden_layers': layers}


def repeats(written, whole):
    """Two shorter models of which the whole one is made by repeating what the second has more, and how often; None if there are none.
    All base counts must say so."""
    layers, first = written['num_hidden_layers'], (written.get('first_k_dense_replace') or 0) + 1
    for step in (1, 2, 4):
        least = first + (layers - first) % step
        try:
            short, longer = (count(made_of(shortened(written, n))) for n in (least, least + step))
        except ValueError:  # fewer layers than the family's first kind of layer
            continue
        times = (layers - least) // step
        if all(short[key] + times * (longer[key] - short[key]) == whole[key] for key in ('parameters', 'linear', 'experts', 'linear_experts')):
            return least, least + step, times
    return None


def add_counts(found, written, keys, model):
    """What is trained and what is 4-bit. PEFT takes minutes for tens of thousands of layers; those are counted on two shorter models."""
    many = sum(isinstance(module, nn.Linear) for module in model.modules()) > MANY
    plan = repeats(written, found) if many and 'num_hidden_layers' in written else None
    if plan:
        found['repeated_layers'] = plan[1] - plan[0]
    for key in keys:
        counted = COUNTED[key]
        try:
            if plan:
                short, longer = (counted(made_of(shortened(written, layers))) for layers in plan[:2])
                found[key] = short + plan[2] * (longer - short)
            else:
                found[key] = counted(model if key == keys[-1] else made_of(written))  # it is changed
        except Exception as error:  # noqa: BLE001 - whatever a program says belongs to the table
            found[key + '_error'] = message(error)


def row(path, keys):
    try:
        written = json.loads(path.read_text())
        model = made_of(written)
    except Exception as error:  # noqa: BLE001
        return {'error': message(error)}
    found = count(model)
    add_counts(found, written, keys, model)
    return found


COUNTED = {'trainable': count_adapters, 'four_bit': count_four_bit}


def main():
    configs, out, keys, *names = sys.argv[1:]
    without_values()
    names = names or sorted(path.stem for path in pathlib.Path(configs).glob('*.json'))
    with open(out, 'w') as file:
        for name in names:
            file.write(json.dumps({'model': name, **row(pathlib.Path(configs) / f'{name}.json', keys.split(','))}) + '\n')
            file.flush()
    print('stood in for:', ', '.join(sorted(stand_ins.used)) or 'nothing')


if __name__ == '__main__':
    main()
