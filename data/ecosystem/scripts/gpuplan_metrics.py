#!/usr/bin/env python3
"""Tells `gpuplan run` what a training process measures: a folder with one file of JSON lines per rank.

The folder is named by GPUPLAN_METRICS; without it nothing is written. A script of one's own with transformers or TRL adds

    from gpuplan_metrics import callback
    trainer = SFTTrainer(..., callbacks=[callback()])

Lines: {"event": "begin", "rank", "pid"}, {"event": "step", "step", "loss", "step_seconds", "memory_bytes", ...} and
{"event": "end", "rank"}. memory_bytes is the most that PyTorch's allocator has held in tensors so far.
"""
import json
import os
import resource
import time


def cuda_memory():
    """Most bytes in tensors, most bytes reserved; zeros without a GPU."""
    import torch
    if not torch.cuda.is_available():
        return 0, 0
    return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


class Metrics:
    """The file of this rank."""

    def __init__(self):
        folder = os.environ.get('GPUPLAN_METRICS')
        self.rank = int(os.environ.get('RANK', '0'))
        self.file = open(os.path.join(folder, f'rank-{self.rank}.jsonl'), 'a', encoding='utf-8') if folder else None
        self.before = None
        self.write(event='begin', rank=self.rank, pid=os.getpid())

    def write(self, **line):
        if self.file:
            self.file.write(json.dumps(line) + '\n')
            self.file.flush()

    def begin_step(self):
        self.before = time.monotonic()

    def end_step(self, step, loss=None, **figures):
        """After step `step`, counted from 1. The time is that since begin_step."""
        if not self.file:
            return
        now = time.monotonic()
        allocated, reserved = cuda_memory()
        line = {'event': 'step', 'step': step, 'loss': loss, **figures,
                'step_seconds': None if self.before is None else now - self.before,
                'memory_bytes': allocated, 'reserved_bytes': reserved,
                'process_bytes': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
        self.write(**{key: value for key, value in line.items() if value is not None})

    def end(self):
        self.write(event='end', rank=self.rank)


def callback():
    """A TrainerCallback of transformers that writes a line per step."""
    import torch
    from transformers import TrainerCallback

    class GpuplanCallback(TrainerCallback):
        def __init__(self):
            self.metrics = Metrics()

        def on_step_begin(self, args, state, control, **kwargs):
            self.metrics.begin_step()

        def on_step_end(self, args, state, control, **kwargs):
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.metrics.end_step(state.global_step)

        def on_log(self, args, state, control, logs=None, **kwargs):
            if logs and 'loss' in logs:
                names = ('loss', 'grad_norm', 'learning_rate')
                self.metrics.write(event='log', step=state.global_step, **{name: float(logs[name]) for name in names if name in logs})

        def on_train_end(self, args, state, control, **kwargs):
            self.metrics.end()

    return GpuplanCallback()
