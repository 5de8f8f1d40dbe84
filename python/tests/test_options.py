"""Every option of a command is an argument of its function."""

from __future__ import annotations

import inspect
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

import det_post
from det_post import _program

# Options under another name, and those that the function sets itself (None).
NAMES = {
    "replay": {"param": "params", "arg": "args", "from": "from_time", "to": "to_time"},
    "eval": {"pair": "pairs", "json": None},
    "simulate": {"recording-memory-mib": None},
}


# Options of every command. The level of the log has no argument: functions return the log, or pass it on (`show_log`).
GENERAL = {"help", "quiet", "verbose"}


def options(command: str) -> set[str]:
    """The long options in the help of a command."""
    ended = subprocess.run(
        [_program.path(), command, "--help"], capture_output=True, text=True, check=True
    )
    names = set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", ended.stdout, re.MULTILINE))
    assert names >= GENERAL and len(names) > len(GENERAL) + 3
    return names - GENERAL


@pytest.mark.parametrize(
    ("command", "function"),
    [
        ("replay", det_post.replay),
        ("eval", det_post.evaluate),
        ("simulate", det_post.simulate),
    ],
)
def test_options_are_arguments(command: str, function: Callable[..., Any]) -> None:
    names = NAMES[command]
    expected = {names.get(option, option.replace("-", "_")) for option in options(command)}
    missing = expected - {None} - set(inspect.signature(function).parameters)
    assert not missing, f"{function.__name__} lacks {sorted(map(str, missing))}"
