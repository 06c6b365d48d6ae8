"""`linvit` in processes of its own: real ones, and cheap ones forked from a server with torch."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from linvit.cli import main

PATIENCE_S = 300  # a machine may be busy; nothing waits this long otherwise
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["linvit.train.train", "linvit.train.evaluate"])


class Linvit:
    """`linvit ARGUMENTS` in this folder; its output goes to `log`.

    die_at: SIGKILL in the middle of its so-manieth atomic write. reader_leaves: its standard output
    is a pipe that nobody reads any more.
    """

    def __init__(self, *arguments: object, die_at: int | None = None, reader_leaves: bool = False):
        self.log = Path(f"log-{time.monotonic_ns()}")
        words = [str(argument) for argument in arguments]
        options = (os.getcwd(), self.log, words, die_at, reader_leaves)
        self.process = FORKS.Process(target=_run, args=options, daemon=True)
        self.process.start()

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it may have ended just now
            os.kill(self.process.pid, number)

    def code(self) -> int:
        """Exit code, negative for the signal that killed it."""
        self.process.join(PATIENCE_S)
        assert self.process.exitcode is not None, f"does not end: {self.text()}"
        return self.process.exitcode

    def text(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


def _run(folder: str, log: Path, words: list[str], die_at: int | None, reader_leaves: bool) -> None:
    os.chdir(folder)
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if die_at is not None:
        _die_at_replace(die_at)
    if reader_leaves:
        reader, writer = os.pipe()
        os.dup2(writer, 1)
        os.close(reader)
    sys.exit(main(words))


def _die_at_replace(number: int) -> None:
    left, real = [number], os.replace

    def replace(*arguments):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        real(*arguments)

    os.replace = replace


class RealLinvit(Linvit):
    """The same by `python -m linvit.cli`, imports and all."""

    def __init__(self, *arguments: object):
        self.log = Path(f"log-{time.monotonic_ns()}")
        words = [sys.executable, "-m", "linvit.cli", *map(str, arguments)]
        with open(self.log, "w") as file:
            self.process = subprocess.Popen(words, stdout=file, stderr=file)

    def code(self) -> int:
        return self.process.wait(PATIENCE_S)

    def maps(self, library: str) -> bool:
        """Whether it has loaded a shared library."""
        return library in Path(f"/proc/{self.process.pid}/maps").read_text()


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)
