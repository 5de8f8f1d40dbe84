"""Exit codes of the program as exceptions."""

from __future__ import annotations

from typing import Any

__all__ = ["DamagedError", "Error", "InterruptedRunError", "UsageError", "of_exit_code"]


class Error(Exception):
    """The program failed (exit code 1) or was ended by a signal (a negative code).

    The text is the program's: its last errors, one a line.
    """

    exit_code: int
    """The exit code of the program; ``-N`` where signal N ended it."""
    log: str
    """What the program wrote to stderr."""

    def __init__(self, message: str, exit_code: int = 1, log: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.log = log


class UsageError(Error):
    """Wrong use or configuration (exit code 2)."""


class DamagedError(Error):
    """Done with loss: a recording is damaged (exit code 3).

    The results are complete but for what could not be read; ``result`` has them.
    """

    result: Any = None
    """What the function would have returned for a sound recording."""


class InterruptedRunError(Error):
    """A signal ended the program before everything was done (exit code 4).

    What was done is in ``det_post.partial/`` of the output folder.
    """


def of_exit_code(exit_code: int, log: str) -> Error:
    """The exception of an exit code other than 0, with the program's words."""
    kind = {2: UsageError, 3: DamagedError, 4: InterruptedRunError}.get(exit_code, Error)
    return kind(_reason(exit_code, log), exit_code, log)


def _reason(exit_code: int, log: str) -> str:
    lines = log.splitlines()
    # Log entries have a time and a level; messages on the command line begin with `error:`.
    errors = [line.split(" ERROR ", 1)[1].strip() for line in lines if " ERROR " in line]
    if not errors:
        errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if not errors:
        errors = [line.strip() for line in lines if line.strip()][-1:]
    if exit_code < 0:
        errors.append(f"ended by signal {-exit_code}")
    return "\n".join(errors) or f"det_post ended with exit code {exit_code}"
