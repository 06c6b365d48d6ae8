"""Printing that survives its reader: a `tee` that died must not end hours of training."""

import os
import sys


def say(text: str) -> None:
    """Print a line at once; without effect once nobody reads standard output any more."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        silence()


def silence() -> None:
    """Point standard output at nothing, so that what its buffer holds cannot fail again."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)
