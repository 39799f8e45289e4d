"""Stands in for Python packages that cannot be had: `import NAME` gives a module whose every name is a class that can be called, derived from
and asked for more. What was really imported of them is listed by used(). Read this first, before any program is imported."""
import importlib.abc
import importlib.machinery
import sys
import types


class _Meta(type):
    def __getattr__(cls, name):
        if name.startswith('__') and name.endswith('__'):
            raise AttributeError(name)
        return _make(name, f'{cls.__module__}.{cls.__qualname__}')

    def __iter__(cls):
        return iter(())

    def __len__(cls):
        return 0

    def __or__(cls, other):
        return cls

    def __ror__(cls, other):
        return cls


class StandIn(metaclass=_Meta):
    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith('__') and name.endswith('__'):
            raise AttributeError(name)
        return _make(name, 'instance')()

    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) else StandIn()  # also as a decorator

    def __iter__(self):
        return iter(())

    def __class_getitem__(cls, item):
        return cls


def _make(name, module):
    return _Meta(name, (StandIn,), {'__module__': module})


class _Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith('__') and name.endswith('__'):
            raise AttributeError(name)
        made = _make(name, self.__name__)
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, versions):
        self.versions, self.used = versions, set()

    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] not in self.versions:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        self.used.add(spec.name.split('.')[0])
        made = _Module(spec.name)
        made.__version__ = self.versions[spec.name.split('.')[0]]
        return made

    def exec_module(self, module):
        pass


def install(versions):
    """`versions`: package to the version that it says. Drivers that import each other share one finder."""
    finder = next((one for one in sys.meta_path if isinstance(one, _Finder)), None)
    if finder is None:
        finder = _Finder({})
        sys.meta_path.insert(0, finder)
    finder.versions.update(versions)
    return finder
