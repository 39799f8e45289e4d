"""A rehearsal's stand-in for accelerate, which only has to be there; its launcher is ../../bin/accelerate."""
__version__ = '1.15.0'
