#!/usr/bin/env python3
"""How scripts/gpu_day_report.py judges: results made by hand, with what is right and what is not."""
import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, 'scripts'))
import gpu_day_report as report  # noqa: E402

GIB = 2**30


def ours(stage, case, losses=(2.0, 1.0), calibrated=True, errors=(0.01, 0.01, 0.01), tokens=1000.0, tensors=4 * GIB, **fields):
    keys = ('tensors_bytes', 'process_bytes', 'step_seconds')
    measured = {'tensors_bytes': tensors, 'process_bytes': 5 * GIB, 'step_seconds': 0.25}
    return {'kind': 'run', 'stage': stage, 'case': case, 'who': 'gpuplan', 'status': 'done', 'rehearsal': False, 'time': '2026-11-30T10:00:00+00:00',
            'command': 'gpuplan run --model /tmp/configs/llama-3.2-1b --lora --micro-batch 4 --seq-len 2048'
                       + (' --profile p.yaml' if calibrated else ''),
            'losses': list(losses), 'report': {'error': dict(zip(keys, errors)), 'measured': measured,
                                               'predicted': measured, 'tokens_per_second': tokens}, **fields}


def theirs(stage, case, losses=(2.0, 1.0), tokens=1000.0, allocated=5 * GIB, who='peft'):
    return {'kind': 'run', 'stage': stage, 'case': case, 'who': who, 'status': 'done', 'rehearsal': False, 'time': '2026-11-30T10:00:00+00:00',
            'command': 'gpu_day_peer.py train --model /tmp/configs/llama-3.2-1b --method lora --micro-batch 4 --seq-len 2048',
            'losses': list(losses), 'result': {'tokens_per_second': tokens, 'allocated_bytes': allocated, 'process_bytes': 6 * GIB,
                                               'step_seconds': 0.5, 'four_bits': ''}}


FACTS = {'kind': 'facts', 'stage': 1, 'case': 'machine', 'nvidia_smi': 'NVIDIA H100 80GB HBM3, 580.159.04, 81559 MiB', 'peer': {'torch': '2.11.0'},
         'gpuplan': 'gpuplan 0.1.0', 'rehearsal': False, 'time': '2026-11-30T10:00:00+00:00'}


def verdicts(records):
    return {row.what: row.verdict for row in report.judge(records)}


class Judging(unittest.TestCase):
    def test_losses_in_fp32_may_differ_by_a_thousandth(self):
        for factor, expected in ((1.0009, 'ok'), (1.0011, 'MISSED'), (float('nan'), 'MISSED')):
            found = verdicts([ours(4, 'full fp32', (2.0 * factor, 1.0)), theirs(4, 'full fp32')])
            self.assertEqual(found['full fp32: losses beside peft'], expected)

    def test_losses_of_another_number_of_steps_are_wrong(self):
        found = verdicts([ours(4, 'full fp32', (2.0,)), theirs(4, 'full fp32')])
        self.assertEqual(found['full fp32: losses beside peft'], 'MISSED')

    def test_losses_in_bf16_may_differ_as_twice_the_peer_does_from_itself(self):
        records = [ours(4, 'lora bf16', (2.06, 1.0)), theirs(4, 'lora bf16')]
        self.assertEqual(verdicts(records)['lora bf16: losses beside peft'], 'MISSED')
        records.append(theirs(4, 'lora bf16', (2.04, 1.0), who='peft, eager attention'))
        self.assertEqual(verdicts(records)['lora bf16: losses beside peft'], 'ok')

    def test_a_step_is_judged_where_the_profile_was_calibrated(self):
        for calibrated, expected in ((True, 'MISSED'), (False, 'ok')):
            found = verdicts([ours(5, 'lora', calibrated=calibrated, errors=(0.0, 0.0, 0.11))])
            self.assertEqual(found['lora: predicted over measured'], expected)

    def test_memory_is_judged_always(self):
        for errors in ((0.031, 0.0, 0.0), (-0.031, 0.0, 0.0), (0.0, 0.051, 0.0)):
            self.assertEqual(verdicts([ours(5, 'lora', calibrated=False, errors=errors)])['lora: predicted over measured'], 'MISSED')

    def test_speed_is_the_median_ratio_of_turns_and_memory_the_most(self):
        turns = [(700.0, 1000.0), (900.0, 1000.0), (850.0, 1000.0)]
        records = [record for turn, (a, b) in enumerate(turns)
                   for record in (ours(6, f'lora, turn {turn}', tokens=a), theirs(6, f'lora, turn {turn}', tokens=b))]
        found = verdicts(records)
        self.assertEqual((found['lora: speed beside peft'], found['lora: memory beside peft']), ('ok', 'ok'))
        records += [ours(6, 'lora, turn 0', tokens=700.0, tensors=6 * GIB), ours(6, 'lora, turn 2', tokens=700.0)]
        found = verdicts([r for r in records if records.index(r) not in (0, 4)])
        self.assertEqual((found['lora: speed beside peft'], found['lora: memory beside peft']), ('MISSED', 'MISSED'))

    def test_a_mixture_is_judged_by_memory_where_its_experts_are_one_product_and_by_a_factor_of_its_step(self):
        def pair(name, step, allocated):
            predicted = {**theirs(11, f'mixture lora, {name}', who='predicted'),
                         'result': {'tensors_bytes': allocated * 5 * GIB, 'process_bytes': 6 * GIB, 'step_seconds': 0.5 * step}}
            return [theirs(11, f'mixture lora, {name}'), predicted]
        for name, step, allocated, expected in (('one product', 1.9, 1.14, 'ok'), ('one product', 1.0, 1.16, 'MISSED'),
                                                ('loop', 1.0, 3.0, 'ok'), ('loop', 2.1, 1.0, 'MISSED'), ('loop', 0.49, 1.0, 'MISSED')):
            self.assertEqual(verdicts(pair(name, step, allocated))[f'mixture lora, {name}: predicted over measured'], expected)
        rows = report.judge(pair('loop', 4.0, 1.0) + pair('one product', 2.0, 1.0))
        self.assertIn('1.00 x, predicted 2.00 x', [row.figure for row in rows])

    def test_reductions_beside_compute_are_no_slower_than_waited_for(self):
        for slower, expected in ((1.0, 'ok'), (0.9, 'MISSED')):
            waited = theirs(12, 'ZeRO-2, reductions waited for')
            waited['result'] = {**waited['result'], 'step_seconds': 0.5 * slower}
            found = verdicts([theirs(12, 'ZeRO-2, reductions beside compute'), waited])
            self.assertEqual(found['ZeRO-2: step with reductions beside compute and waited for'], expected)

    def test_what_failed_was_skipped_or_did_not_end_is_told(self):
        checks = [{'kind': 'check', 'stage': 1, 'case': name, 'status': name, 'reason': 'why', 'rehearsal': False} for name in ('failed', 'skipped')]
        found = verdicts(checks + [{'kind': 'end', 'stage': 2, 'status': 'done'}])
        self.assertEqual((found['failed'], found['skipped']), ('FAILED', 'skipped'))
        unfinished = [row for row in report.judge(checks) if row.what == 'the whole stage']
        self.assertEqual([(row.stage, row.verdict) for row in unfinished][:2], [(1, 'FAILED'), (2, 'skipped')])


class Reading(unittest.TestCase):
    def test_the_last_of_a_case_counts_and_a_torn_line_does_not(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, 'stage-04.jsonl'), 'w') as file:
                for losses in ((9.0, 9.0), (2.0, 1.0)):
                    file.write(json.dumps(ours(4, 'full fp32', losses)) + '\n')
                file.write('{"kind": "run", "torn')
            self.assertEqual([record['losses'] for record in report.read([folder])], [[2.0, 1.0]])


class Writing(unittest.TestCase):
    def run_main(self, records, root):
        with tempfile.TemporaryDirectory() as folder:
            for record in records:
                with open(os.path.join(folder, f'stage-{record["stage"]:02d}.jsonl'), 'a') as file:
                    file.write(json.dumps(record) + '\n')
            with open(os.path.join(folder, 'profile-full.yaml'), 'w') as file:
                file.write('id: measured\n')
            out = io.StringIO()
            with mock.patch.object(sys, 'argv', ['report', '--write', root, folder]), contextlib.redirect_stdout(out):
                self.assertEqual(report.main(), 0)
            return out.getvalue()

    def test_points_say_command_versions_and_date(self):
        with tempfile.TemporaryDirectory() as root:
            text = self.run_main([FACTS, ours(5, 'lora, 4 x 2048', errors=(0.1, 0, 0)), theirs(6, 'lora, 4 x 2048, turn 1')], root)
            self.assertIn('stage 5, lora, 4 x 2048: predicted over measured', text)
            with open(os.path.join(root, 'data', 'validation', 'own', 'gpu_day_memory.jsonl')) as file:
                points = [json.loads(line) for line in file]
            self.assertEqual([point['peak_memory_gib'] for point in points], [4.0, 5.0])
            self.assertEqual([point['norm']['framework'] for point in points], ['native', 'hf-loop'])
            for point in points:
                self.assertIn('--seq-len 2048', point['source_ref'])
                self.assertIn('driver 580.159.04', point['versions'])
                self.assertEqual(point['date'], '2026-11-30')
            self.assertTrue(os.path.exists(os.path.join(root, 'data', 'profiles', 'h100-sxm-80gb-measured.yaml')))
            with open(os.path.join(root, 'docs', 'gpu.md')) as file:
                self.assertIn('allocated +10.0 %', file.read())

    def test_a_rehearsal_is_not_written_into_the_clone(self):
        with self.assertRaisesRegex(SystemExit, 'rehearsal'):
            self.run_main([{**FACTS, 'rehearsal': True}], ROOT)


if __name__ == '__main__':
    unittest.main()
