"""Losses that compare answers to one prompt, in plain PyTorch, as their papers define them.

A file has a JSON object per line: prompt, chosen and rejected, each a list of token ids; or prompt, completion and advantage, with
old_completion_logps and ref_completion_logps or without. Each answer is a sequence of its own behind
the prompt, cut at the sequence length; positions behind it are padding, which nothing before them sees.
"""
import copy
import json
from typing import Dict, List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from decoder import widened


class Answers(NamedTuple):
    """[rows, length] each: answers that belong together follow each other."""
    ids: Tensor
    counts: Tensor   # 1 where the token itself belongs to the answer
    last: Tensor     # [rows]: position of the last token
    rows: Sequence[dict]


def read_rows(path: str) -> List[dict]:
    with open(path) as file:
        return [json.loads(line) for line in file if line.strip()]


def micro_batches(rows: List[dict], step: int, size: int, count: int) -> List[List[dict]]:
    """`count` batches of `size` rows: those of step `step`, counted from 0."""
    return [[rows[at % len(rows)] for at in range(index * size, (index + 1) * size)] for index in range(step * count, (step + 1) * count)]


def stack(rows: Sequence[dict], length: int) -> Answers:
    keys = ('chosen', 'rejected') if 'chosen' in rows[0] else ('completion',)
    ids, counts, last = [], [], []
    for row in rows:
        for key in keys:
            tokens = (row['prompt'] + row[key])[:length]
            begin = min(len(row['prompt']), len(tokens))
            padding = length - len(tokens)
            ids.append(tokens + [0] * padding)
            counts.append([0] * begin + [1] * (len(tokens) - begin) + [0] * padding)
            last.append(len(tokens) - 1)
    return Answers(torch.tensor(ids), torch.tensor(counts), torch.tensor(last), rows)


def log_probs(logits: Tensor, answers: Answers) -> Tensor:
    """[rows, length - 1]: ln p of each next token, 0 where that is no part of the answer."""
    every = widened(logits[:, :-1]).log_softmax(-1)
    return every.gather(-1, answers.ids[:, 1:, None]).squeeze(-1) * answers.counts[:, 1:]


class Reference:
    """The policy as it was before training: a copy, or the policy with its adapters switched off."""

    def __init__(self, decoder: nn.Module, adapters: Dict[str, nn.Module]):
        self.decoder = decoder
        self.adapters = adapters
        self.copy = None if adapters else copy.deepcopy(decoder)

    def __call__(self, ids: Tensor) -> Tensor:
        with torch.no_grad():
            if self.copy is not None:
                return self.copy(ids)
            for adapter in self.adapters.values():
                adapter.is_on = False
            logits = self.decoder(ids)
            for adapter in self.adapters.values():
                adapter.is_on = True
            return logits


def dpo(trainee, answers: Answers) -> Tensor:
    """Rafailov et al. 2023, equation 7, summed over the pairs."""
    with trainee.autocast():
        ours, theirs = trainee.decoder(answers.ids), trainee.reference(answers.ids)
    better = (log_probs(ours, answers) - log_probs(theirs, answers)).sum(1)
    return -F.logsigmoid(trainee.args.beta * (better[::2] - better[1::2])).sum()


def reward(trainee, answers: Answers) -> Tensor:
    """Ouyang et al. 2022, equation 1, summed over the pairs: the score stands at the last token of an answer."""
    with trainee.autocast():
        scores = trainee.decoder(answers.ids).squeeze(-1)
    of_row = widened(scores.gather(1, answers.last[:, None])).squeeze(1)
    return -F.logsigmoid(trainee.args.beta * (of_row[::2] - of_row[1::2])).sum()


def given(answers: Answers, key: str) -> Tensor:
    """[rows, length - 1]: log-probs that the file has, at the places of log_probs()."""
    out = torch.zeros(answers.ids.shape[0], answers.ids.shape[1] - 1)
    for index, row in enumerate(answers.rows):
        begin = len(row['prompt']) - 1
        values = torch.tensor(row[key])[:out.shape[1] - begin]
        out[index, begin:begin + len(values)] = values
    return out


def clipped(trainee, answers: Answers, below: float, above: float) -> Tuple[Tensor, Tensor]:
    """[rows, length - 1] each: what a token loses, and its log-prob. Shao et al. 2024, equations 3 and 4.

    A file without old log-probs has those of now."""
    with trainee.autocast():
        own = log_probs(trainee.decoder(answers.ids), answers)
    has_old = 'old_completion_logps' in answers.rows[0]
    old = given(answers, 'old_completion_logps').to(own.dtype) if has_old else own.detach()
    advantage = torch.tensor([row['advantage'] for row in answers.rows], dtype=own.dtype)[:, None]
    ratio = (own - old).exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - below, 1 + above) * advantage), own


def grpo(trainee, answers: Answers) -> Tensor:
    """The mean over each row's tokens, summed over rows, with the distance from the reference."""
    loss, own = clipped(trainee, answers, 0.2, 0.2)
    if 'ref_completion_logps' in answers.rows[0]:
        reference = given(answers, 'ref_completion_logps').to(own.dtype)
    else:
        with trainee.autocast():
            reference = log_probs(trainee.reference(answers.ids), answers)
    lacking = reference - own
    loss = loss + trainee.args.beta * (lacking.exp() - lacking - 1)
    counts = answers.counts[:, 1:]
    return ((loss * counts).sum(1) / counts.sum(1).clamp_min(1)).sum()


LOSSES = {'dpo': dpo, 'reward': reward, 'grpo': grpo}


def replace_head(decoder: nn.Module, tensors: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """A score in the place of the vocabulary: the decoder gets the head, and the checkpoint its weight by the head's name."""
    decoder.lm_head = nn.Linear(decoder.config.hidden_size, 1, bias=False)
    return {**{name: tensor for name, tensor in tensors.items() if name != 'score.weight'}, 'lm_head.weight': tensors['score.weight']}
