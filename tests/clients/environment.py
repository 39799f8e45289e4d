"""Inside the Debian of chroot.sh: puts the programs that GPUPLAN_CLIENTS names (folders, separated by ':') before Debian's packages, stands in for
those that cannot be had, and says versions that the programs accept where Debian's are older and no driver needs what is new."""
import importlib.metadata
import inspect
import os
import sys

import stand_ins

# Packages that are asked for and not in Debian 13: the versions that they say.
ABSENT = {'tokenizers': '0.22.1', 'datasets': '4.0.0', 'bitsandbytes': '0.49.2', 'pyarrow': '20.0.0', 'triton': '3.2.0',
          'evaluate': '0.4.6', 'liger_kernel': '0.8.2', 'pandas': '2.2.3', 'torchao': '0.14.1', 'torchdata': '0.11.0', 'kagglehub': '0.3.0', 'blobfile': '3.0.0', 'tiktoken': '0.11.0', 'ninja': '1.11', 'distutils': '3.11'}
# Packages of Debian 13 that are older than a program asks for.
RAISED = {'regex': '2026.1.1', 'safetensors': '0.8.0'}


def enter(names):
    """`names`: of ABSENT, what this driver's programs import. Gives the finder, whose `used` says what was imported."""
    sys.path[1:1] = [path for path in os.environ.get('GPUPLAN_CLIENTS', '').split(':') if path]
    said, real = {**{name: ABSENT.get(name, '1.0') for name in names}, **RAISED}, importlib.metadata.version
    importlib.metadata.version = lambda name: said.get(name) or real(name)
    return stand_ins.install({name: ABSENT.get(name, '1.0') for name in names})


def takes_self(function):
    return next(iter(inspect.signature(function).parameters)) == 'self'
