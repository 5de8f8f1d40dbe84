"""One unit of work: a replay whose results appear when they are complete.

``python -m det_post.fleet.unit OUT --index N`` runs unit N of the plan in ``OUT``. The index is also
taken from ``JOB_COMPLETION_INDEX`` (Kubernetes) or ``SLURM_ARRAY_TASK_ID`` (Slurm). The exit code is
0 when there are results, also of a damaged recording, else the exit code of the replay.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import _program
from . import outputs
from .outputs import RECORD, OutputError
from .plan import ALL_GPUS, Plan, PlanError, Unit
from .stores import Store

DONE, FAILED, WRONG, DAMAGED, INTERRUPTED = 0, 1, 2, 3, 4
"""Exit codes of ``det_post replay``."""

LOG_LINES = 20
"""Lines of a failed replay's log that are kept."""


@dataclass
class Outcome:
    """What became of a unit; ``unit.json`` holds the same."""

    unit: Unit
    exit_code: int
    """Of the replay; ``INTERRUPTED`` also for one that a signal killed."""
    seconds: float = 0.0
    host: str = field(default_factory=socket.gethostname)
    attempt: int = 1
    device: str = ""
    """What processed the frames, as the report of the replay names it."""
    frames: int = 0
    detections: int = 0
    dropped: int = 0
    log: str = ""
    """The last lines of the log, of a replay that failed."""
    is_new: bool = True
    """Whether it was run now, not found complete."""

    @property
    def is_kept(self) -> bool:
        """Whether there are results: whole ones, or all that a damaged recording gives."""
        return self.exit_code in (DONE, DAMAGED)

    def record(self) -> dict[str, Any]:
        """The contents of ``unit.json``."""
        value = asdict(self)
        del value["is_new"]
        return {**value.pop("unit"), **value}

    @classmethod
    def of_record(cls, value: dict[str, Any], *, is_new: bool = False) -> Outcome:
        """The outcome that ``unit.json`` holds."""
        names = Unit.__dataclass_fields__.keys()
        unit = Unit(**{name: value.pop(name) for name in list(value) if name in names})
        return cls(unit=unit, is_new=is_new, **value)


def find_outcome(plan: Plan, unit: Unit) -> Outcome | None:
    """The outcome of a unit that was completed before, with the same key."""
    value = Store(plan.out).read_json(f"{unit.folder}/{RECORD}")
    if not isinstance(value, dict) or value.get("key") != unit.key:
        return None
    try:
        return Outcome.of_record(value)
    except (TypeError, KeyError):
        return None


def run_unit(plan: Plan, unit: Unit, *, attempt: int = 1, device: str | None = None) -> Outcome:
    """Replays a unit, unless its results are there, and puts them in their place.

    Results of an earlier key are replaced, where det_post wrote them. Of several attempts on one
    file system, one at a time writes.
    """
    if found := find_outcome(plan, unit):
        return found
    start = time.monotonic()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="det_post_unit_") as scratch,
            outputs.opened(Store(plan.out), unit.folder) as folder,
        ):
            # What refuses these results is no fault of the configuration.
            outputs.check(folder)
            # Another attempt may have ended meanwhile.
            if found := find_outcome(plan, unit):
                return found
            # A scheduler shows a unit the GPUs that are its own; a replay takes one.
            device = device or ("cuda:0" if plan.device == ALL_GPUS else plan.device)
            outcome = _replay(plan, unit, Path(scratch), folder, device)
            outcome.attempt = attempt
            if outcome.is_kept:
                record = json.dumps(outcome.record(), indent=2) + "\n"
                outputs.write(folder, RECORD, record.encode())
            return outcome
    except OutputError as error:
        return Outcome(unit, FAILED, time.monotonic() - start, attempt=attempt, log=str(error))


def _replay(plan: Plan, unit: Unit, scratch: Path, folder: Path, device: str) -> Outcome:
    start = time.monotonic()
    try:
        bag = Store(plan.recordings).fetch(unit.recording, scratch)
    except OSError as error:
        return Outcome(unit, FAILED, time.monotonic() - start, log=f"cannot fetch it: {error}")
    config = scratch / "effective.param.yaml"
    config.write_text(plan.parameters)
    command = [str(_program.path()), "replay", str(bag), "--config", str(config), "--out", str(folder)]
    # Other replays fill a GPU, not more instances of the networks of this one.
    command += ["--device", device, "--frames-in-flight", "2"]
    for option, nanos in (("--from", unit.from_ns), ("--to", unit.to_ns)):
        if nanos is not None:
            command += [option, f"{nanos // 10**9}.{nanos % 10**9:09}"]
    environment = _program.environment()
    environment["RTEN_NUM_THREADS"] = str(plan.threads)
    report = folder / "report.json"
    before = _state(report)
    log = scratch / "log"
    with open(log, "wb") as stderr:
        code = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, env=environment
        ).returncode
    # A signal ends the program with a negative code here and with 128 and more in a shell.
    code = INTERRUPTED if code < 0 or code > 128 else code
    # Of a recording without a single message there are no results to keep.
    code = FAILED if code == DAMAGED and _state(report) in (None, before) else code
    outcome = Outcome(unit, code, round(time.monotonic() - start, 3))
    if outcome.is_kept:
        channels = json.loads(report.read_text())["channels"].values()
        outcome.device = _device(channels)
        outcome.frames = sum(channel["frames_out"] for channel in channels)
        outcome.detections = sum(channel["detections"] for channel in channels)
        outcome.dropped = sum(channel["frames_in"] - channel["frames_out"] for channel in channels)
    else:
        outcome.log = "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES:])
    return outcome


def _state(file: Path) -> tuple[int, int] | None:
    """What differs once a file is written again."""
    try:
        about = file.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns


def _device(channels: Iterable[dict[str, Any]]) -> str:
    """The devices of a report. Where Ray shows one GPU as the only one, also which it is."""
    devices = ", ".join(sorted({channel["device"] for channel in channels}))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return f"{devices} of CUDA_VISIBLE_DEVICES={visible}" if visible and "cuda" in devices else devices


def index_of_job() -> int | None:
    """The index that Kubernetes or Slurm gives to a job of an array."""
    for variable in ("JOB_COMPLETION_INDEX", "SLURM_ARRAY_TASK_ID"):
        if value := os.environ.get(variable):
            return int(value)
    return None


def main(arguments: list[str] | None = None) -> int:
    """Runs one unit of a plan."""
    parser = argparse.ArgumentParser(prog="python -m det_post.fleet.unit", description=__doc__)
    parser.add_argument("out", help="folder of results, with the plan")
    parser.add_argument("--index", type=int, default=index_of_job(), help="number of the unit, from 0")
    parser.add_argument("--device", help="overrides the device of the plan")
    parsed = parser.parse_args(arguments)
    if parsed.index is None:
        parser.error("--index, JOB_COMPLETION_INDEX or SLURM_ARRAY_TASK_ID is required")
    try:
        plan = Plan.read(parsed.out)
    except PlanError as error:
        print(error, file=sys.stderr)
        return WRONG
    if not 0 <= parsed.index < len(plan.units):
        print(f"the plan has {len(plan.units)} units, there is no {parsed.index}", file=sys.stderr)
        return WRONG
    outcome = run_unit(plan, plan.units[parsed.index], device=parsed.device)
    if outcome.log:
        print(outcome.log, file=sys.stderr)
    print(json.dumps(outcome.record()))
    return DONE if outcome.is_kept else outcome.exit_code


if __name__ == "__main__":
    sys.exit(main())
