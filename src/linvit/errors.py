"""What a user sees when something is wrong, and the exit codes schedulers can act on."""

import errno

USAGE = 2
OUT_OF_MEMORY = 71
DISK_FULL = 74
REQUEUE = 75


class LinvitError(ValueError):
    """Bad input or a bad state; the message names the thing, what is wrong and the cure."""


class Interrupted(Exception):
    """A signal asked the process to stop; everything up to the current step is checkpointed."""


def disk_is_full(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
