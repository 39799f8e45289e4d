#!/usr/bin/env python3
"""JSONL of {"text"} or {"messages"} -> JSONL of {"input_ids"}, by a model's own tokenizer (needs transformers).

    python3 scripts/tokenise.py MODEL_FOLDER text.jsonl tokens.jsonl
"""
import json
import sys

from transformers import AutoTokenizer

model, source, target = sys.argv[1:4]
tokenizer = AutoTokenizer.from_pretrained(model)


def ids_of(example):
    if "messages" in example:
        return tokenizer.apply_chat_template(example["messages"], tokenize=True, return_dict=True)["input_ids"]
    ids = tokenizer(example["text"])["input_ids"]
    is_ended = not ids or ids[-1] == tokenizer.eos_token_id or tokenizer.eos_token_id is None
    return ids if is_ended else ids + [tokenizer.eos_token_id]


with open(source, encoding="utf-8") as lines, open(target, "w", encoding="utf-8") as out:
    for line in filter(str.strip, lines):
        print(json.dumps({"input_ids": ids_of(json.loads(line))}), file=out)
