#!/usr/bin/python3
"""Makes data/demo, what `gpuplan run --demo` trains: a small Llama, its tokenizer and a text, all from this project's own files.

    scripts/make_demo.py                 train.jsonl, tokens.jsonl, tokenizer, config.json; build/demo/pretrain.bin
    scripts/make_demo.py --steps 400     also pretrains the weights on pretrain.bin with tests/torch/reference.py (a few minutes)

The text to fine-tune on is the documents (docs/*.md, README, CHANGELOG); the weights are pretrained on the comments of the
sources, so that the model has seen the words but not the text. New documents or a new tokenizer need new weights: pretrain again.
Needs python3-sentencepiece, python3-numpy, python3-torch.
"""
import argparse
import glob
import io
import json
import os
import re
import subprocess
import sys
from typing import Iterable, Iterator, List

import numpy
import sentencepiece

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEMO = os.path.join(ROOT, 'data', 'demo')
WORK = os.path.join(ROOT, 'build', 'demo')
REFERENCE = os.path.join(ROOT, 'tests', 'torch')
sys.path.insert(0, REFERENCE)

DOCUMENTS = ('README.md', 'CHANGELOG.md', 'docs/*.md')
SOURCES = ('base', 'models', 'cluster', 'planner', 'sim', 'device', 'calibrate', 'run', 'cli', 'tests', 'bench')
MOST_CHARACTERS = 1200   # of a text, which is a paragraph or more
FEWEST_CHARACTERS = 40
VOCABULARY = 1024
SEQ_LEN = 256
CONFIG = {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'vocab_size': VOCABULARY, 'hidden_size': 128,
          'intermediate_size': 352, 'num_hidden_layers': 4, 'num_attention_heads': 4, 'num_key_value_heads': 2, 'hidden_act': 'silu',
          'max_position_embeddings': 1024, 'rms_norm_eps': 1e-05, 'rope_theta': 10000.0, 'attention_bias': False, 'mlp_bias': False,
          'tie_word_embeddings': True, 'initializer_range': 0.02, 'bos_token_id': 1, 'eos_token_id': 2, 'torch_dtype': 'bfloat16',
          'use_cache': True}
TOKENIZER_CONFIG = {'tokenizer_class': 'LlamaTokenizer', 'add_bos_token': True, 'add_eos_token': False, 'bos_token': '<s>',
                    'eos_token': '</s>', 'unk_token': '<unk>', 'pad_token': None, 'model_max_length': 1024, 'legacy': False,
                    'clean_up_tokenization_spaces': False, 'sp_model_kwargs': {}}


# --- texts -------------------------------------------------------------------------------------------------------------------------

def files(patterns: Iterable[str]) -> List[str]:
    return [path for pattern in patterns for path in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True))]


def read(path: str) -> str:
    with open(path, encoding='utf-8') as file:
        return file.read()


def is_prose(line: str) -> bool:
    """Not an indented command or a row of figures; a row of a table that is mostly words is."""
    if re.match(r'    |<!--', line):
        return False
    letters = sum(character.isalpha() or character == ' ' for character in line)
    return not line.lstrip().startswith('|') or letters > 0.75 * len(line)


def prose(markdown: str) -> List[str]:
    """Paragraphs, and each item of lists and tables of words, of a page; no output of commands."""
    unfenced = re.sub(r'(?ms)^```.*?^```', '', markdown)
    lines = '\n'.join(line for line in unfenced.split('\n') if is_prose(line))
    paragraphs = re.split(r'\n\s*\n|\n(?=[-*|] )', lines)
    return [re.sub(r'\s*\n\s*', ' ', paragraph).strip() for paragraph in paragraphs if paragraph.strip()]


def comments(source: str) -> List[str]:
    """Blocks of neighbouring comment lines, each joined to one paragraph."""
    blocks, block = [], []
    for line in source.split('\n') + ['']:
        match = re.match(r'\s*///? ?(.*)', line)
        if match:
            block.append(match.group(1).strip())
        elif block:
            blocks.append(' '.join(block))
            block = []
    return blocks


def join_short(paragraphs: Iterable[str]) -> Iterator[str]:
    """Texts of up to MOST_CHARACTERS from neighbouring paragraphs."""
    text = ''
    for paragraph in paragraphs:
        if text and len(text) + len(paragraph) > MOST_CHARACTERS:
            yield text
            text = ''
        text = f'{text}\n{paragraph}' if text else paragraph
    if text:
        yield text


def texts_of(paths: List[str], paragraphs) -> List[str]:
    return [text for path in paths for text in join_short(paragraphs(read(path))) if len(text) >= FEWEST_CHARACTERS]


def write_jsonl(path: str, texts: List[str]) -> None:
    with open(path, 'w', encoding='utf-8') as file:
        file.writelines(json.dumps({'text': text}, ensure_ascii=False) + '\n' for text in texts)


def write_rows(path: str, texts: List[str], tokenizer: sentencepiece.SentencePieceProcessor) -> None:
    """Each text as `gpuplan run` would tokenise it, so that the demo needs no SentencePiece."""
    with open(path, 'w', encoding='utf-8') as file:
        for text in texts:
            file.write(json.dumps({'input_ids': [1, *tokenizer.encode(text), 2]}, separators=(',', ':')) + '\n')


def write_json(name: str, value: dict) -> None:
    with open(os.path.join(DEMO, name), 'w') as file:
        file.write(json.dumps(value, indent=2) + '\n')


# --- tokenizer and weights -------------------------------------------------------------------------------------------------------

def train_tokenizer(texts: List[str]) -> sentencepiece.SentencePieceProcessor:
    """BPE with Llama's ids (0 unknown, 1 begin, 2 end) and a piece for every byte, so that no text is unknown."""
    model = io.BytesIO()
    lines = [line for text in texts for line in text.split('\n') if line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type='bpe', vocab_size=VOCABULARY, byte_fallback=True,
        character_coverage=0.9995, split_digits=True, normalization_rule_name='identity', remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True, unk_id=0, bos_id=1, eos_id=2, pad_id=-1, num_threads=1, minloglevel=2)
    with open(os.path.join(DEMO, 'tokenizer.model'), 'wb') as file:
        file.write(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def write_tokens(path: str, texts: List[str], tokenizer: sentencepiece.SentencePieceProcessor) -> int:
    """<s> text </s>, one after the other; returns how many tokens."""
    order = numpy.random.default_rng(1).permutation(len(texts))
    tokens = [token for index in order for token in [1, *tokenizer.encode(texts[index]), 2]]
    numpy.array(tokens, dtype='<u2').tofile(path)
    return len(tokens)


def write_random_weights(folder: str) -> None:
    """What transformers starts a Llama with: normal numbers of 0.02, norms of 1."""
    import torch
    from decoder import Decoder, checkpoint, parse_config
    from tensor_file import write_tensors as write
    torch.manual_seed(1)
    decoder = Decoder(parse_config(CONFIG))
    for weight in decoder.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=CONFIG['initializer_range'])
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, 'config.json'), 'w') as file:
        json.dump(CONFIG, file)
    write(os.path.join(folder, 'model.safetensors'), checkpoint(decoder))


def pretrain(steps: int, tokens: str) -> None:
    """Weights from scratch, in fp32, written as bf16."""
    import torch
    from tensor_file import read_folder, write_tensors as write
    start, trained = os.path.join(WORK, 'start'), os.path.join(WORK, 'trained')
    write_random_weights(start)
    subprocess.run([sys.executable, os.path.join(REFERENCE, 'reference.py'), '--model', start, '--data', tokens, '--seq-len', str(SEQ_LEN),
                    '--micro-batch', '8', '--max-steps', str(steps), '--lr', '4e-3', '--schedule', 'cosine', '--warmup', str(steps // 20),
                    '--weight-decay', '0.1', '--save', trained, '--metrics', os.path.join(WORK, 'pretrain.jsonl')], check=True)
    weights = {name: tensor.to(torch.bfloat16) for name, tensor in read_folder(trained).items()}
    write(os.path.join(DEMO, 'model.safetensors'), weights)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--steps', type=int, default=0, help='of pretraining; 0: the weights stay as they are')
    args = parser.parse_args()
    if not args.steps and os.path.exists(os.path.join(DEMO, 'model.safetensors')):
        parser.error('--steps is needed: the text has changed, so the tokenizer does, and weights of the old one would mean nothing')
    os.makedirs(DEMO, exist_ok=True)
    os.makedirs(WORK, exist_ok=True)
    documents = texts_of(files(DOCUMENTS), prose)
    remarks = texts_of(files(f'{folder}/**/*.{suffix}' for folder in SOURCES for suffix in ('h', 'cpp', 'cu')), comments)
    write_jsonl(os.path.join(DEMO, 'train.jsonl'), documents)
    tokenizer = train_tokenizer(documents)
    write_rows(os.path.join(DEMO, 'tokens.jsonl'), documents, tokenizer)
    write_json('config.json', CONFIG)
    write_json('tokenizer_config.json', TOKENIZER_CONFIG)
    tokens = os.path.join(WORK, 'pretrain.bin')
    print(f'{len(documents)} texts, {write_tokens(os.path.join(WORK, "train.bin"), documents, tokenizer)} tokens to fine-tune on; '
          f'{len(remarks)} texts, {write_tokens(tokens, remarks, tokenizer)} tokens to pretrain on', flush=True)
    if args.steps:
        pretrain(args.steps, tokens)


if __name__ == '__main__':
    main()
