"""The catalogue's config.json in the words of transformers' config classes. Ours has the keys that decide shapes, under the names that most
families share; some classes have names of their own, or defaults that no published checkpoint of the family has."""

# What has no parameters, or is said in our words.
UNCOUNTED = ('_name_or_path', 'model_type', 'hidden_act', 'hidden_activation', 'activation', 'activation_function')
NULL_SAYS = 'q_lora_rank'  # attention without that projection; elsewhere null stands for what the catalogue does not know
NAMES = {'t5': {'intermediate_size': 'd_ff', 'head_dim': 'd_kv'}, 'mt5': {'intermediate_size': 'd_ff', 'head_dim': 'd_kv'}, 'opt': {'intermediate_size': 'ffn_dim'}}
TOP = {'architectures', 'vision_config', 'audio_config', 'tie_word_embeddings'}


def translate(written, has_text_part):
    """`written` as keyword arguments of the class of its model_type; `has_text_part`: that class has a text_config."""
    names = NAMES.get(written['model_type'], {})
    said = {names.get(key, key): value for key, value in written.items() if key not in UNCOUNTED and (value is not None or key == NULL_SAYS)}
    if has_text_part and 'text_config' not in said and 'hidden_size' in said:
        said = {**{key: value for key, value in said.items() if key in TOP},
                'text_config': {key: value for key, value in said.items() if key not in TOP - {'tie_word_embeddings'}}}
    if 'text_config' in said:
        said.setdefault('tie_word_embeddings', said['text_config'].get('tie_word_embeddings', False))
        if 'vision_config' in said:
            said['vision_config'] = translate_vision(said['vision_config'], said['text_config'], written['model_type'])
    if written['model_type'] == 'paligemma':  # its projector ends in the text model's width
        said['projection_dim'] = said['vision_config']['projection_dim'] = said['text_config']['hidden_size']
    if written['model_type'].startswith('qwen3_vl'):  # transformers 4 reads it unasked; it has no parameters
        said['text_config'].setdefault('rope_scaling', {'rope_type': 'default', 'mrope_section': [24, 20, 20]})
    if written['model_type'] == 'mllama':
        said['text_config'].setdefault('rope_scaling', {'rope_type': 'default'})
    if written['model_type'] == 'gpt_neo':
        said['attention_types'] = [[['global', 'local'], written['num_hidden_layers'] // 2]]
    return said


def translate_vision(vision, text, family):
    said = dict(vision)
    if 'embed_dim' in said and 'depth' in said:
        said['hidden_size'] = text['hidden_size']  # Qwen2-VL's name for the width behind its merger
    elif 'depth' in said:
        said.setdefault('out_hidden_size', text['hidden_size'])
    elif family == 'gemma4':
        said.setdefault('head_dim', said['hidden_size'] // said['num_attention_heads'])
        said.setdefault('num_key_value_heads', said['num_attention_heads'])
    elif family == 'internvl':
        said.setdefault('attention_bias', True)
    if said.get('model_type', '').startswith('siglip') or family in ('gemma3', 'paligemma'):
        said.setdefault('vision_use_head', False)
    return said
