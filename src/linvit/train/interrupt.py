"""Signals ask the loop to stop after the current step; they never interrupt one."""

import signal

from linvit.errors import Interrupted

ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


class StopRequest:
    """Use as a context manager. `name` is the signal that asked for a stop, or None.

    patient: leave it at that. Otherwise, while nothing can be lost (imports, waiting for another
    process), the signal raises Interrupted at once.
    """

    def __init__(self):
        self.name: str | None = None
        self.patient = False

    def _note(self, number: int, frame) -> None:
        self.name = signal.Signals(number).name
        if not self.patient:
            raise Interrupted(self.name)

    def at_once(self) -> None:
        """End the patience; a signal that came meanwhile counts now."""
        self.patient = False
        if self.name:
            raise Interrupted(self.name)

    def __enter__(self) -> "StopRequest":
        self._before = {number: signal.signal(number, self._note) for number in ASKING}
        return self

    def __exit__(self, *error) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
