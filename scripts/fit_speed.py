#!/usr/bin/env python3
"""Fits the parameters of data/profiles/default.yaml that are marked `kind: fitted` to the open points, and cross-validates them.

    scripts/fit_speed.py [--gpuplan build/dev/gpuplan] [--rounds 6] [--pull 0.03] [--only a,b] [--write]
    scripts/fit_speed.py --cross-validate [--check SOURCE] [--write]
    scripts/fit_speed.py --ablate [--write]

The objective is the mean over sources of the mean |ln(predicted / measured)| of their points, each cut at --cut so that a point
that the model cannot say does not bend the others, a source of fewer than 8 points weighing less, averaged with the mean over
all points, plus a pull towards PRIOR: what a physicist would say who has seen none of the points. Every round takes the
derivatives of ln(predicted) by ln(parameter) from two runs of the program per parameter, solves the linearised problem by
reweighted least squares, and keeps the step if the program agrees that it is better.

--cross-validate fits once more without each source, from the derivatives at the shipped values, and lets the program predict
the source with those values. With --write, data/validation/cross_validated.json keeps for every point that prediction over the shipped
one (of speed points: as times). --check SOURCE fits without this source by rounds of its own and states the difference.
--ablate fits without each constant in turn, with the sources left out too, all of it linearised: what it is worth on sources not
seen, and how many points depend on it. A constant without which neither median,
p90 nor mean error of unseen sources is higher goes. --write stores that in data/validation/ablation.json.
The shipped binary is the model: every evaluation is one `gpuplan validate --json` on a copy of data/.
Python 3 standard library only; deterministic.
"""
import argparse
import concurrent.futures
import datetime
import json
import math
import os
import queue
import re
import shutil
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(ROOT, 'data')
PROFILE = os.path.join('profiles', 'default.yaml')
OUT = os.path.join(DATA, 'validation', 'cross_validated.json')
# What the values are before any point is seen; one number for all classes of cards. Sources: docs/speed_model.md.
PRIOR = {'gemm_efficiency': 0.85, 'flash_efficiency': 0.65, 'cudnn_attention_efficiency': 0.75, 'wave_loss': 0.4,
         'gemm_exposed_traffic': 0.3, 'eager_sm_bandwidth': 45,
         'dequant_sm_bandwidth': 16.0, 'gptq_bytes_factor': 6.0, 'kernel_overhead': 5.0, 'dispatch_eager': 20.0,
         'overlap_slowdown': 0.25, 'nvlink_efficiency': 0.9, 'pcie_efficiency': 0.35, 'network_efficiency': 0.8, 'cpu_optimizer_bandwidth': 20.0,
         'pool_slack': 0.2}
# a share of something that was measured cannot exceed it by much
CAPS = {'gemm_efficiency': 1.03, 'flash_efficiency': 1.0, 'cudnn_attention_efficiency': 1.05, 
        'nvlink_efficiency': 1.0, 'network_efficiency': 0.97, 'wave_loss': 1.0, 'host_link_efficiency': 1.0, 'pcie_efficiency': 0.8}
# no kernel is slower than this by its SMs
FLOORS = {'eager_sm_bandwidth': 5, 'flash_efficiency': 0.35, 'dequant_sm_bandwidth': 3}
# values with which an effect is absent
NEUTRAL = {'wave_loss': 0, 'gemm_exposed_traffic': 0, 'kernel_overhead': 0, 'dispatch_eager': 0,
           'overlap_slowdown': 0, 'dequant_sm_bandwidth': 1e6, 'gptq_bytes_factor': 1, 'eager_sm_bandwidth': 1e6,
           'small_head_attention': 1}
LINE = re.compile(r'^(\s+)(\w+): \{value: ([0-9.]+), (.*kind: fitted.*)$')
STEP = 0.08  # of ln(parameter), to either side, for the derivatives
ROUND = 0.35  # the furthest that one round moves a parameter


def read_parameters(text):
    """{(line number, name): value} of the values marked as fitted. Equal names in several classes are fitted apart."""
    out = {}
    for number, line in enumerate(text.split('\n')):
        match = LINE.match(line)
        if match and float(match.group(3)) > 0:
            out[(number, match.group(2))] = float(match.group(3))
    return out


def with_parameters(text, parameters):
    lines = text.split('\n')
    for (number, _), value in parameters.items():
        lines[number] = re.sub(r'value: [0-9.]+', 'value: %.4g' % value, lines[number], count=1)
    return '\n'.join(lines)


class Model:
    """The program on one file of points, under changing copies of the data."""

    def __init__(self, gpuplan, points, jobs):
        self.gpuplan, self.jobs = gpuplan, jobs
        self.folder = tempfile.mkdtemp(prefix='fit-speed-')
        self.free = queue.Queue()  # copies of the data that no run uses
        for number in range(jobs):
            data = os.path.join(self.folder, str(number))
            shutil.copytree(DATA, data)
            self.free.put(data)
        self.text = open(os.path.join(DATA, PROFILE)).read()
        self.points = {}  # id: (source, line) of those that count
        with open(os.path.join(DATA, 'validation', points)) as lines:
            for line in lines:
                point = json.loads(line)
                self.points[point['id']] = (None, line)
        self.points = {id_: (source, self.points[id_][1]) for source, id_, _ in self.errors({})}

    def close(self):
        shutil.rmtree(self.folder)

    def errors(self, parameters, only=None):
        """[(source, id, ln(predicted / measured) of the time or the memory)], of one source where `only` names it"""
        data = self.free.get()
        try:
            return self.errors_in(data, parameters, only)
        finally:
            self.free.put(data)

    def errors_in(self, data, parameters, only):
        with open(os.path.join(data, PROFILE), 'w') as out:
            out.write(with_parameters(self.text, parameters))
        points = os.path.join(data, 'points.jsonl')
        with open(points, 'w') as out:
            out.writelines(line for source, line in self.points.values() if only in (None, source))
        answer = subprocess.run([self.gpuplan, 'validate', '--json', points], env=dict(os.environ, GPUPLAN_DATA_DIR=data),
                                capture_output=True, text=True, check=True)
        rows = []
        for point in json.loads(answer.stdout)['points']:
            if point['status'] != 'scored' or not point['predicted']:
                continue
            error = math.log(point['predicted'] / point['measured'])
            is_rate = point['kind'] == 'speed' and point['metric'] not in ('step_time_s', 'total_time_s')
            rows.append((point['source'], point['id'], -error if is_rate else error))
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


def weights_of(rows):
    """What each row's |error| counts in the objective; they add up to 1."""
    counts = {}
    for source, _, _ in rows:
        counts[source] = counts.get(source, 0) + 1
    of_source = {source: min(1.0, (n / 8) ** 0.5) for source, n in counts.items()}
    total = sum(of_source.values())
    return [(of_source[s] / total / counts[s] + 1 / len(rows)) / 2 for s, _, _ in rows]


def objective(rows, parameters, args):
    return mean_error(rows, args) + args.pull * sum(math.log(value / PRIOR[key[1]]) ** 2 for key, value in parameters.items())


def bounds(key):
    return math.log(FLOORS.get(key[1], 1e-9)), math.log(CAPS.get(key[1], 1e9))


def errors_of_all(model, tried, only=None):
    """The errors under each of `tried`, side by side; of one source each where `only` has as many names."""
    with concurrent.futures.ThreadPoolExecutor(model.jobs) as pool:
        return list(pool.map(model.errors, tried, only or [None] * len(tried)))


def derivatives(model, parameters, names):
    """{name: [d ln(predicted) / d ln(parameter) of each row]}"""
    tried = [dict(parameters) | {key: parameters[key] * math.exp(sign * STEP)} for key in names for sign in (1, -1)]
    ends = errors_of_all(model, tried)
    return {key: [(a[2] - b[2]) / (2 * STEP) for a, b in zip(ends[2 * i], ends[2 * i + 1])] for i, key in enumerate(names)}


def solve(matrix, right):
    """Gaussian elimination with pivots; the matrix is small and positive definite."""
    n = len(right)
    rows = [list(matrix[i]) + [right[i]] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(i + 1, n):
            factor = rows[r][i] / rows[i][i]
            if factor:
                for c in range(i, n + 1):
                    rows[r][c] -= factor * rows[i][c]
    out = [0.0] * n
    for i in reversed(range(n)):
        out[i] = (rows[i][n] - sum(rows[i][c] * out[c] for c in range(i + 1, n))) / rows[i][i]
    return out


def linear_step(rows, slopes, parameters, names, args, furthest):
    """The moves of ln(parameter) that minimise the objective of the linearised model, within bounds. Reweighted least squares."""
    weights = weights_of(rows)
    moves = {key: 0.0 for key in names}
    limits = {}
    for key in names:
        low, high = bounds(key)
        now = math.log(parameters[key])
        limits[key] = max(low - now, -furthest), min(high - now, furthest)
    errors = [row[2] for row in rows]
    for _ in range(20):
        now = [e + sum(slopes[k][i] * moves[k] for k in names) for i, e in enumerate(errors)]
        pressure = [w / max(abs(e), 0.01) if abs(e) < args.cut else 0.0 for w, e in zip(weights, now)]
        free = list(names)
        fixed = {}
        while True:
            used = {k: [(i, s) for i, s in enumerate(slopes[k]) if abs(s) > 1e-6 and pressure[i]] for k in free}
            base = [e + sum(slopes[k][i] * v for k, v in fixed.items()) for i, e in enumerate(errors)]
            matrix = [[sum(pressure[i] * s * slopes[b][i] for i, s in used[a]) for b in free] for a in free]
            right = []
            for n, a in enumerate(free):
                matrix[n][n] += 2 * args.pull
                right.append(-sum(pressure[i] * s * base[i] for i, s in used[a]) + 2 * args.pull * math.log(PRIOR[a[1]] / parameters[a]))
            answer = dict(zip(free, solve(matrix, right))) if free else {}
            outside = {k: min(max(v, limits[k][0]), limits[k][1]) for k, v in answer.items() if not limits[k][0] <= v <= limits[k][1]}
            if not outside:
                break
            fixed.update(outside)
            free = [k for k in free if k not in outside]
        wanted = fixed | answer
        change = max(abs(wanted[k] - moves[k]) for k in names)
        moves = {k: (moves[k] + wanted[k]) / 2 for k in names}
        if change < 1e-3:
            break
    return {key: parameters[key] * math.exp(moves[key]) for key in names}


def without(rows, slopes, source):
    """Rows and derivatives of the other sources."""
    kept = [i for i, row in enumerate(rows) if row[0] != source]
    return [rows[i] for i in kept], {k: [s[i] for i in kept] for k, s in slopes.items()}


def others(rows, source):
    return [row for row in rows if row[0] != source]


def fit(model, start, names, args, leave_out=None, rounds=None, verbose=False):
    """By rounds of linearisation; of the step and its halves the one that the program finds best."""
    best = dict(start)
    rows = model.errors(best)
    score = objective(others(rows, leave_out), best, args)
    for number in range(rounds or args.rounds):
        slopes = derivatives(model, best, names)
        kept, kept_slopes = without(rows, slopes, leave_out)
        wanted = linear_step(kept, kept_slopes, best, names, args, ROUND)
        tries = []
        shares = (1, 0.5, 0.25)
        steps = [dict(best) | {k: best[k] * (wanted[k] / best[k]) ** share for k in names} for share in shares]
        for share, tried, tried_rows in zip(shares, steps, errors_of_all(model, steps)):
            tries.append((objective(others(tried_rows, leave_out), tried, args), share, tried, tried_rows))
        tries.sort(key=lambda t: t[0])
        if tries[0][0] >= score - 2e-5:
            break
        score, share, best, rows = tries[0]
        if verbose:
            print('round %d  objective %.4f  share %.2f  %s' % (number + 1, score, share, summary(rows)), flush=True)
    return best


def cross_validate(model, parameters, names, args):
    """({id: error of the prediction without its source}, {source: values}); from one linearisation at `parameters`."""
    rows = model.errors(parameters)
    slopes = derivatives(model, parameters, names)
    values = {}
    for source in sorted({row[0] for row in rows}):
        kept, kept_slopes = without(rows, slopes, source)
        values[source] = dict(parameters) | linear_step(kept, kept_slopes, parameters, names, args, 2 * ROUND)
    out = [row for part in errors_of_all(model, values.values(), list(values)) for row in part]
    order = {row[1]: i for i, row in enumerate(rows)}
    return sorted(out, key=lambda row: order[row[1]]), values


def of_speed(key):
    return key[1] != 'pool_slack'


def chosen(parameters, args, memory):
    return [k for k in parameters if of_speed(k) != memory and (not args.only or k[1] in args.only.split(','))]


def write_cross_validation(ratios, args):
    out = {'about': 'Predictions with the values that a fit without the point\'s source gives, over the shipped predictions; of speed points '
                    'as times. Written by scripts/fit_speed.py; fields: README.md',
           'command': 'scripts/fit_speed.py --cross-validate --write', 'date': datetime.date.today().isoformat(), 'pull': args.pull,
           'ratios': {id_: round(value, 5) for id_, value in ratios.items()}}
    with open(OUT, 'w') as file:
        file.write(json.dumps(out, indent=1, ensure_ascii=False) + '\n')


def run_cross_validation(models, parameters, args):
    ratios = {}
    for memory, model in models.items():
        names = chosen(parameters, args, memory)
        shipped = model.errors(parameters)
        unseen, values = cross_validate(model, parameters, names, args)
        for a, b in zip(shipped, unseen):
            ratios[a[1]] = math.exp(b[2] - a[2])
        print('memory' if memory else 'speed')
        print('  in sample  ', summary(shipped))
        print('  not seen   ', summary(unseen), flush=True)
        for source in sorted({row[0] for row in shipped}):
            part = [(a, b) for a, b in zip(shipped, unseen) if a[0] == source]
            print('    %-60s %3d  %.3f -> %.3f' % (source[:60], len(part), median([abs(a[2]) for a, _ in part]), median([abs(b[2]) for _, b in part])))
        if args.check and any(row[0] == args.check for row in shipped):
            true = fit(model, values[args.check], names, args, args.check)
            rows = [row for row in model.errors(true) if row[0] == args.check]
            linear = [row for row in unseen if row[0] == args.check]
            print('  without %s: %s by linearisation, %s by rounds of its own; predictions differ by %.4f in the median, %.4f at most' %
                  (args.check, summary(linear), summary(rows), median([abs(a[2] - b[2]) for a, b in zip(rows, linear)]),
                   max(abs(a[2] - b[2]) for a, b in zip(rows, linear))))
    if args.write:
        write_cross_validation(ratios, args)


def linear_not_seen(rows, slopes, parameters, names, args):
    """Errors of fits without each source, as the linearised model has them."""
    out = []
    for source in sorted({row[0] for row in rows}):
        kept, kept_slopes = without(rows, slopes, source)
        wanted = linear_step(kept, kept_slopes, parameters, names, args, 2 * ROUND)
        moves = {k: math.log(wanted[k] / parameters[k]) for k in names}
        out += [(s, id_, e + sum(slopes[k][i] * moves[k] for k in names)) for i, (s, id_, e) in enumerate(rows) if s == source]
    return out


def supporters(slopes, key):
    """Points whose prediction moves by more than 1 % when the value moves by half."""
    return sum(abs(s) * math.log(1.5) > 0.01 for s in slopes[key])


def classes_of(text):
    """{line number: id of the class that it belongs to}; nothing for the values of all classes."""
    out, current = {}, None
    for number, line in enumerate(text.split('\n')):
        match = re.match(r'^- id: (\S+)', line)
        current = match.group(1) if match else current
        out[number] = current
    return out


def mean_error(rows, args):
    """What the fit minimises, without the pull: |error|, cut, mean over sources and mean over all points, averaged."""
    return sum(w * min(args.cut, abs(row[2])) for w, row in zip(weights_of(rows), rows))


def figures(rows, args):
    return {'median': round(median([abs(r[2]) for r in rows]), 4), 'p90': round(p90([abs(r[2]) for r in rows]), 4),
            'mean': round(mean_error(rows, args), 5)}


def ablate(model, parameters, args):
    names = chosen(parameters, args, False)
    rows, slopes = model.errors(parameters), derivatives(model, parameters, names)
    every = linear_not_seen(rows, slopes, parameters, names, args)
    print('%-44s %s mean %.5f' % ('all effects, sources not seen', summary(every), mean_error(every, args)), flush=True)
    text, classes, constants = model.text, classes_of(model.text), {}
    for key in names:
        without_value = NEUTRAL.get(key[1], PRIOR[key[1]])
        lines = text.split('\n')
        lines[key[0]] = re.sub(r'value: [0-9.]+', 'value: %g' % without_value, lines[key[0]], count=1)
        model.text = '\n'.join(lines)
        kept = [k for k in names if k != key]
        off = model.errors({k: parameters[k] for k in kept})
        left = linear_not_seen(off, slopes, parameters, kept, args)
        name = key[1] + ('/' + classes[key[0]] if classes[key[0]] else '')
        constants[name] = dict(points=supporters(slopes, key), without=without_value, **figures(left, args))
        print('%-44s %3d points  %s mean %.5f' % ('%s = %g' % (name, without_value), constants[name]['points'], summary(left), mean_error(left, args)),
              flush=True)
    model.text = text
    if args.write:
        out = {'about': 'What each fitted constant is worth on sources that no fit has seen: |ln(predicted / measured)| with all of them, and with '
                        'this one at a value without the effect, or at its guess, and the others fitted again (linearised). points: whose '
                        'prediction moves by more than 1 % when the constant moves by half. mean: of |error|, as the fit weighs it. A constant goes without '
                        'which none of the three is higher. Written by scripts/fit_speed.py',
               'command': 'scripts/fit_speed.py --ablate --write', 'date': datetime.date.today().isoformat(), 'all': figures(every, args),
               'constants': constants}
        with open(os.path.join(DATA, 'validation', 'ablation.json'), 'w') as file:
            file.write(json.dumps(out, indent=1, ensure_ascii=False) + '\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gpuplan', default=os.path.join(ROOT, 'build', 'dev', 'gpuplan'))
    parser.add_argument('--rounds', type=int, default=6)
    parser.add_argument('--cut', type=float, default=0.6)
    parser.add_argument('--pull', type=float, default=0.03, help='weight of the squared log distance from PRIOR')
    parser.add_argument('--only', help='names, separated by commas')
    parser.add_argument('--jobs', type=int, default=2, help='runs of the program at once')
    parser.add_argument('--cross-validate', action='store_true')
    parser.add_argument('--check', help='a source that is also left out of a fit by rounds of its own')
    parser.add_argument('--ablate', action='store_true')
    parser.add_argument('--write', action='store_true', help='store what was found in data/')
    args = parser.parse_args()
    models = {False: Model(args.gpuplan, 'speed.jsonl', args.jobs), True: Model(args.gpuplan, 'memory.jsonl', args.jobs)}
    parameters = read_parameters(models[False].text)
    if args.ablate:
        ablate(models[False], parameters, args)
    elif args.cross_validate:
        run_cross_validation(models, parameters, args)
    else:
        best = dict(parameters)
        for memory, model in models.items():
            names = chosen(parameters, args, memory)
            if not names:  # --only names none of this kind
                continue
            print('start ', summary(model.errors(best)), '%d parameters' % len(names), flush=True)
            best = fit(model, best, names, args, verbose=True)
        for (number, name), value in best.items():
            print('  line %3d %-28s %8.4g -> %8.4g' % (number + 1, name, parameters[(number, name)], value))
        if args.write:
            path = os.path.join(DATA, PROFILE)
            text = open(path).read()
            open(path, 'w').write(with_parameters(text, best))
    for model in models.values():
        model.close()


if __name__ == '__main__':
    main()
