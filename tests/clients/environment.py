"""Inside the Debian of chroot.sh: puts the programs that GPUPLAN_CLIENTS names (folders, separated by ':') before Debian's packages, stands in for
those that cannot be had, and says versions that the programs accept where Debian's are older and no driver needs what is new."""
import inspect
import os
import sys
import tempfile

import stand_ins

# Packages that are asked for and not in Debian 13: the versions that they say.
ABSENT = {'tokenizers': '0.22.1', 'datasets': '4.0.0', 'bitsandbytes': '0.49.2', 'pyarrow': '20.0.0', 'triton': '3.2.0',
          'evaluate': '0.4.6', 'liger_kernel': '0.8.2', 'pandas': '2.2.3', 'torchao': '0.14.1', 'torchdata': '0.11.0', 'kagglehub': '0.3.0', 'blobfile': '3.0.0', 'tiktoken': '0.11.0', 'ninja': '1.11', 'distutils': '3.11'}
# Packages of Debian 13 that are older than a program asks for.
RAISED = {'regex': '2026.1.1', 'safetensors': '0.8.0'}


def enter(names):
    """`names`: what this driver's programs import and Debian lacks. Gives the finder, whose `used` says what was imported."""
    absent = {name: ABSENT.get(name, '1.0') for name in names}
    sys.path[1:1] = [said_versions({**absent, **RAISED}), *(path for path in os.environ.get('GPUPLAN_CLIENTS', '').split(':') if path)]
    return stand_ins.install(absent)


def said_versions(versions):
    """A folder in which importlib.metadata finds these packages before Debian's."""
    folder = tempfile.mkdtemp(prefix='versions-')
    for name, version in versions.items():
        place = os.path.join(folder, f'{name}-{version}.dist-info')
        os.mkdir(place)
        with open(os.path.join(place, 'METADATA'), 'w') as file:
            file.write(f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n')
    return folder


def takes_self(function):
    return next(iter(inspect.signature(function).parameters)) == 'self'
