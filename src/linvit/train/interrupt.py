"""Signals ask the loop to stop after the current step; they never interrupt one."""

import signal

ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


class StopRequest:
    """`name` is the signal that asked for a stop, or None. Use as a context manager."""

    def __init__(self):
        self.name: str | None = None

    def _note(self, number: int, frame) -> None:
        self.name = signal.Signals(number).name

    def __enter__(self) -> "StopRequest":
        self._before = {number: signal.signal(number, self._note) for number in ASKING}
        return self

    def __exit__(self, *error) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
