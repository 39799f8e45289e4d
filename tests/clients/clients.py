#!/usr/bin/env python3
"""Lets the real programs speak: builds the catalogue's models with transformers and PEFT, and gives every export to the program that reads it.

    clients.py --gpuplan build/release/gpuplan --programs DIR --chroot FOLDER [--only counts|exports] [--models NAME...] [--write]

DIR holds git repositories of the programs of programs.tsv; their code runs in a Debian 13 (chroot.sh) without a network. A line per stack and
per target; ends with `N passed, N failed`. --write renews tests/models/meta_counts.json. Exit code 77 where something is missing.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

import programs
from count_table import compare_counts
from export_table import compare_exports

HERE = pathlib.Path(__file__).resolve().parent


class Workplace:
    """The folder that the Debian sees as /work, and how drivers are started there."""

    def __init__(self, args):
        self.folder, self.chroot, self.gpuplan = pathlib.Path(args.work).resolve(), args.chroot, os.path.abspath(args.gpuplan)
        self.programs, self.table = args.programs, programs.read_programs()
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, *parts):
        return self.folder.joinpath(*parts)

    def call(self, *words):
        return subprocess.run([self.gpuplan, *words], capture_output=True, text=True, cwd=self.folder,
                              env={**os.environ, 'HF_HUB_OFFLINE': '1', 'GPUPLAN_PROFILE_DIR': str(self.path('profiles'))})

    def python_path(self, names):
        places = [programs.unpack(self.programs, self.table[name], self.path('programs')) / self.table[name].folder for name in names]
        return ':'.join(str(pathlib.Path('/work') / place.relative_to(self.folder)) for place in places)

    def start(self, driver, names, *words, **options):
        """A driver of this folder in the Debian, with the named programs."""
        return subprocess.Popen([HERE / 'chroot.sh', self.chroot, self.folder, 'env', f'GPUPLAN_CLIENTS={self.python_path(names)}', *options.get('environment', []),
                                 'python3', '-W', 'ignore', f'/clients/{driver}.py', *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gpuplan', metavar='PROGRAM', required=True)
    parser.add_argument('--programs', metavar='DIR', required=True)
    parser.add_argument('--chroot', metavar='FOLDER', required=True)
    parser.add_argument('--work', metavar='FOLDER', default='build/clients/work', help='default: build/clients/work')
    parser.add_argument('--only', choices=('counts', 'exports'))
    parser.add_argument('--models', metavar='NAME', nargs='+', default=[], help='count only these')
    parser.add_argument('--write', action='store_true', help='renew tests/models/meta_counts.json')
    return parser.parse_args()


def main():
    args = parse_arguments()
    if os.geteuid() != 0:
        print('skipped: only root can enter a Debian of its own')
        return 77
    passed = failed = 0
    try:
        made = subprocess.run([HERE / 'chroot.sh', args.chroot, '--make'], capture_output=True, text=True)
        if made.returncode != 0:
            print(made.stdout[-2000:] + made.stderr[-2000:] + f'skipped: there is no Debian 13 in {args.chroot}')
            return 77
        place = Workplace(args)
        for name, part in (('counts', compare_counts), ('exports', compare_exports)):
            if args.only in (None, name):
                good, bad = part(place, args)
                passed, failed = passed + good, failed + bad
    except programs.Missing as problem:
        print(f'skipped: {problem}')
        return 77
    print(f'{passed} passed, {failed} failed')
    return 0 if failed == 0 else 1


if __name__ == '__main__':
    sys.exit(main())
