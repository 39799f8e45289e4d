#!/usr/bin/env python3
"""Fits the parameters of data/profiles/default.yaml that are marked `kind: fitted` to the open speed points.

    scripts/fit_speed.py [--gpuplan build/dev/gpuplan] [--evaluations 600] [--seed 1] [--only a,b] [--fold 0/3] [--pull 0.003] [--write]
    scripts/fit_speed.py --ablate

With --fold every n-th source is kept out of the fit and scored after it: whether the values generalise. With --ablate nothing
is fitted: each effect is switched off in turn, so the summary says what it is worth with the other values as they are.
Prints the fitted values and writes them with --write. The objective is that of the published prototype: the mean over
sources of the mean |ln(predicted / measured)| of their points, each cut at --cut so that a point that the model cannot say does
not bend the others, a source of fewer than 8 points weighing less, plus a mild pull towards the values the fit starts from.
The shipped binary is the model: every evaluation is one `gpuplan validate --json` on a copy of data/.
Python 3 standard library only; deterministic for a seed.
"""
import argparse
import json
import math
import os
import random
import re
import shutil
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
POINTS = os.path.join(ROOT, 'data', 'validation', 'speed.jsonl')
PROFILE = os.path.join('profiles', 'default.yaml')
# a share of something that was measured cannot exceed it by much
CAPS = {'gemm_efficiency': 1.03, 'flash_efficiency': 1.0, 'cudnn_attention_efficiency': 1.05, 'misaligned_gemm': 1.0, 'misaligned_heads': 1.0,
        'fp8_efficiency': 1.05, 'nvlink_efficiency': 1.0, 'network_efficiency': 0.97, 'wave_loss': 1.0, 'small_head_attention': 1.0,
        'host_link_efficiency': 1.0, 'pcie_efficiency': 0.8}
# a compiler or a hand-written kernel fuses neighbouring ops, but what enters and leaves a layer still moves
FLOORS = {'compiled_bytes_factor': 0.6, 'fused_bytes_factor': 0.6, 'eager_bytes_factor': 0.9, 'flash_efficiency': 0.35}
OF_MEMORY = {'context', 'nccl', 'blas_workspace', 'pool_slack', 'margin'}
LINE = re.compile(r'^(\s+)(\w+): \{value: ([0-9.]+), (.*kind: fitted.*)$')


def read_parameters(text):
    """{(line number, name): value} of the values marked as fitted. Equal sources in several classes are fitted apart."""
    out = {}
    for number, line in enumerate(text.split('\n')):
        match = LINE.match(line)
        if match and match.group(2) not in OF_MEMORY and float(match.group(3)) > 0:
            out[(number, match.group(2))] = float(match.group(3))
    return out


def with_parameters(text, parameters):
    lines = text.split('\n')
    for (number, _), value in parameters.items():
        lines[number] = re.sub(r'value: [0-9.]+', 'value: %.4g' % value, lines[number], count=1)
    return '\n'.join(lines)


# values with which an effect is absent
NEUTRAL = {'misaligned_gemm': 1, 'wave_loss': 0, 'gemm_exposed_traffic': 0, 'small_head_attention': 1, 'misaligned_heads': 1,
           'kernel_overhead': 0, 'dispatch_eager': 0, 'dispatch_compiled': 0, 'overlap_slowdown': 0, 'dequant_bytes_factor': 1,
           'gptq_bytes_factor': 1, 'eager_bytes_factor': 1, 'compiled_bytes_factor': 1, 'fused_bytes_factor': 1}


class Model:
    def __init__(self, gpuplan):
        self.gpuplan = gpuplan
        self.folder = tempfile.mkdtemp(prefix='fit-speed-')
        self.data = os.path.join(self.folder, 'data')
        shutil.copytree(os.path.join(ROOT, 'data'), self.data)
        self.text = open(os.path.join(self.data, PROFILE)).read()
        self.env = dict(os.environ, GPUPLAN_DATA_DIR=self.data)

    def close(self):
        shutil.rmtree(self.folder)

    def errors(self, parameters):
        return self.errors_of(with_parameters(self.text, parameters))

    def errors_of(self, text):
        """[(source, id, ln(predicted / measured) of the time)]"""
        with open(os.path.join(self.data, PROFILE), 'w') as out:
            out.write(text)
        answer = subprocess.run([self.gpuplan, 'validate', '--json', POINTS], env=self.env, capture_output=True, text=True, check=True)
        rows = []
        for point in json.loads(answer.stdout)['points']:
            if point['status'] != 'scored':
                continue
            error = math.log(point['predicted'] / point['measured'])
            rows.append((point['source'], point['id'], error if point['metric'] in ('step_time_s', 'total_time_s') else -error))
        return rows


def median(values):
    values = sorted(values)
    return values[(len(values) - 1) // 2]


def p90(values):
    return sorted(values)[math.ceil(0.9 * len(values)) - 1]


def summary(rows):
    by_source = {}
    for source, _, error in rows:
        by_source.setdefault(source, []).append(abs(error))
    sizes = [abs(error) for _, _, error in rows]
    return 'n %d median %.4f p90 %.4f by source %.4f' % (len(rows), median(sizes), p90(sizes), sum(map(median, by_source.values())) / len(by_source))


def objective(rows, parameters, prior, args):
    by_source = {}
    for source, _, error in rows:
        by_source.setdefault(source, []).append(min(args.cut, abs(error)))
    weights = {source: min(1.0, (len(list_) / 8) ** 0.5) for source, list_ in by_source.items()}
    total = sum(weights[s] * sum(e) / len(e) for s, e in by_source.items()) / sum(weights.values())
    sizes = [min(args.cut, abs(error)) for _, _, error in rows]
    pull = sum(math.log(value / prior[key]) ** 2 for key, value in parameters.items())
    return (total + sum(sizes) / len(sizes)) / 2 + args.pull * pull


def ablate(model):
    print('%-30s %s' % ('all effects', summary(model.errors_of(model.text))))
    for name, value in NEUTRAL.items():
        text = re.sub(r'(\n\s+%s: \{value: )[0-9.]+' % name, r'\g<1>%g' % value, model.text)
        print('%-30s %s' % (name + ' = %g' % value, summary(model.errors_of(text))))


def split(rows, fold):
    """(rows to fit on, rows kept out): every n-th source in alphabetical order."""
    if not fold:
        return rows, []
    part, parts = map(int, fold.split('/'))
    out = set(sorted({source for source, _, _ in rows})[part::parts])
    return [row for row in rows if row[0] not in out], [row for row in rows if row[0] in out]


def fit(model, prior, args):
    draw = random.Random(args.seed)
    best = dict(prior)
    best_score = objective(split(model.errors(best), args.fold)[0], best, prior, args)
    names = [key for key in prior if not args.only or key[1] in args.only.split(',')]
    step = 0.15
    for evaluation in range(args.evaluations):
        tried = dict(best)
        for key in draw.sample(names, min(len(names), draw.choice((1, 1, 1, 2, 3)))):
            tried[key] = max(FLOORS.get(key[1], 0), min(CAPS.get(key[1], 1e9), tried[key] * math.exp(draw.gauss(0, step))))
        score = objective(split(model.errors(tried), args.fold)[0], tried, prior, args)
        if score < best_score - 1e-6:
            best, best_score = tried, score
            step = min(0.3, step * 1.1)
        else:
            step = max(0.01, step * 0.985)
        if evaluation % 50 == 49:
            print('%4d  objective %.4f  step %.3f  %s' % (evaluation + 1, best_score, step, summary(model.errors(best))), flush=True)
            step = max(step, 0.05)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gpuplan', default=os.path.join(ROOT, 'build', 'dev', 'gpuplan'))
    parser.add_argument('--evaluations', type=int, default=600)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--cut', type=float, default=0.6)
    parser.add_argument('--pull', type=float, default=0.003, help='weight of the squared log distance from the starting values')
    parser.add_argument('--only', help='names, separated by commas')
    parser.add_argument('--fold', help='k/n: every n-th source, from the k-th on, is kept out')
    parser.add_argument('--ablate', action='store_true')
    parser.add_argument('--write', action='store_true', help='store the values in data/profiles/default.yaml')
    args = parser.parse_args()
    model = Model(args.gpuplan)
    if args.ablate:
        ablate(model)
        return model.close()
    prior = read_parameters(model.text)
    print('start ', summary(model.errors(prior)), '%d parameters' % len(prior), flush=True)
    best = fit(model, prior, args)
    print('fitted', summary(model.errors(best)))
    if args.fold:
        for name, values in (('before', prior), ('after', best)):
            print('kept out,', name, summary(split(model.errors(values), args.fold)[1]))
    for (number, name), value in best.items():
        print('  line %3d %-28s %8.4g -> %8.4g' % (number + 1, name, prior[(number, name)], value))
    if args.write:
        path = os.path.join(ROOT, 'data', PROFILE)
        text = open(path).read()
        open(path, 'w').write(with_parameters(text, best))
    model.close()


if __name__ == '__main__':
    main()
