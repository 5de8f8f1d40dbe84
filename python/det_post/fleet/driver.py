"""Runs the units of a plan: on Ray, or from this process, one at a time on each device."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from .plan import ALL_GPUS, Plan, PlanError, Unit
from .unit import FAILED, INTERRUPTED, WRONG, Outcome, find_outcome, run_unit

MAX_FAILURES = 2
"""Attempts of a replay that fails by itself."""

MAX_INTERRUPTIONS = 4
"""Attempts of a replay that signals end: those are no fault of the recording."""

MAX_WAITING = 1000
"""Tasks that Ray holds at a time."""

STARTS = 3
"""Attempts to start Ray on this machine, which gives up after 30 s under load."""

OBJECT_STORE_BYTES = 100 << 20
"""Nothing of a run goes through Ray's object store."""

GRACE_SECONDS = 0.5
"""Ctrl-C ends a replay before this process has seen its own signal."""


@dataclass(frozen=True)
class Resources:
    """What Ray reserves for one unit."""

    cpus: float = 1.0
    gpus: float = 0.0
    memory_bytes: int = 2 << 30
    scratch_gb: float = 0.0
    """Of the custom resource ``scratch_gb``, where workers declare it; 0 for none."""


@dataclass
class Attempts:
    """How often a unit was tried."""

    failures: int = 0
    interruptions: int = 0

    @property
    def next(self) -> int:
        """The number of the next attempt, from 1."""
        return self.failures + self.interruptions + 1

    def tries_again(self, outcome: Outcome) -> bool:
        """Counts an attempt that kept nothing; whether there is another."""
        if outcome.exit_code == INTERRUPTED:
            self.interruptions += 1
            return self.interruptions < MAX_INTERRUPTIONS
        self.failures += 1
        return self.failures < MAX_FAILURES


Finished = Callable[[Outcome], None]


def run(plan: Plan, run_units: Callable[[Plan, list[Unit], Finished], None], finished: Finished) -> None:
    """Runs the units that have no results of their key yet; ``finished`` is called for each."""
    waiting = []
    for unit in plan.units:
        if found := find_outcome(plan, unit):
            finished(found)
        else:
            waiting.append(unit)
    if waiting:
        run_units(plan, waiting, finished)


def in_process(plan: Plan, units: list[Unit], finished: Finished) -> None:
    """Runs units without Ray: one at a time on each of :func:`devices_of` the plan.

    A unit takes the next device that is free, so that its place depends on the run; its results
    do not.
    """
    waiting = deque(units)
    lock, stop = threading.Lock(), threading.Event()

    def work(device: str) -> None:
        while not stop.is_set():
            try:
                unit = waiting.popleft()
            except IndexError:
                return
            attempts = Attempts()
            outcome = run_unit(plan, unit, device=device)
            while not _is_final(outcome, attempts):
                if stop.wait(GRACE_SECONDS if outcome.exit_code == INTERRUPTED else 0.0):
                    return
                outcome = run_unit(plan, unit, attempt=attempts.next, device=device)
            with lock:
                finished(outcome)

    devices = devices_of(plan.device)
    with ThreadPoolExecutor(len(devices)) as pool:
        try:
            for done in as_completed([pool.submit(work, device) for device in devices]):
                done.result()
        except BaseException:
            # The replays that are running end, no other begins.
            stop.set()
            raise


def devices_of(device: str) -> list[str]:
    """The devices of this machine that ``device`` means: every GPU for ``cuda:*``.

    Raises :class:`.PlanError` when there is none.
    """
    if device != ALL_GPUS:
        return [device]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise PlanError(f"--device {device}: the GPUs of this machine are not known: {error}") from error
    num = sum(line.startswith("GPU ") for line in listed.splitlines())
    if num == 0:
        raise PlanError(f"--device {device}: this machine has no GPU")
    return [f"cuda:{number}" for number in range(num)]


def _is_final(outcome: Outcome, attempts: Attempts) -> bool:
    # The configuration was checked before: a recording that it does not fit costs itself, and fits no better again.
    return outcome.exit_code == WRONG or outcome.is_kept or not attempts.tries_again(outcome)


def on_ray(resources: Resources, address: str | None = None) -> Callable[[Plan, list[Unit], Finished], None]:
    """Runs units on Ray: on the cluster at ``address``, else on this machine."""

    def run_units(plan: Plan, units: list[Unit], finished: Finished) -> None:
        if resources.gpus and plan.device.startswith("cuda") and plan.device not in (ALL_GPUS, "cuda:0"):
            raise PlanError(f"--device {plan.device}: Ray chooses the GPU of a unit; cuda:* leaves it to Ray")
        import ray

        starts_here = not ray.is_initialized()
        if starts_here:
            _start(ray, resources, address)
        try:
            _run_on_ray(ray, resources, plan, units, finished)
        finally:
            if starts_here:
                ray.shutdown()

    return run_units


def _start(ray: Any, resources: Resources, address: str | None) -> None:
    if address is not None:
        ray.init(address=address, log_to_driver=False)
        return
    custom = {"scratch_gb": 1e6} if resources.scratch_gb else {}
    for left in reversed(range(STARTS)):
        try:
            ray.init(
                include_dashboard=False,
                log_to_driver=False,
                object_store_memory=OBJECT_STORE_BYTES,
                resources=custom,
            )
            return
        except Exception:
            ray.shutdown()
            if left == 0:
                raise
            time.sleep(2.0)


def _run_on_ray(ray: Any, resources: Resources, plan: Plan, units: list[Unit], finished: Finished) -> None:
    # The plan travels once; a task names its unit. A task whose worker dies is counted here.
    task = ray.remote(
        num_cpus=resources.cpus,
        num_gpus=resources.gpus,
        memory=resources.memory_bytes,
        resources={"scratch_gb": resources.scratch_gb} if resources.scratch_gb else {},
        max_retries=0,
    )(_run_unit)
    shared = ray.put(Plan(**{**vars(plan), "units": []}))
    attempts = {unit.folder: Attempts() for unit in units}
    waiting = deque(units)
    running: dict[Any, Unit] = {}
    # Ray shows a fraction of a GPU as the only one.
    device = "cuda:0" if resources.gpus and plan.device == ALL_GPUS else None
    try:
        while waiting or running:
            while waiting and len(running) < MAX_WAITING:
                unit = waiting.popleft()
                running[task.remote(shared, unit, attempts[unit.folder].next, device)] = unit
            ready, _ = ray.wait(list(running), timeout=1.0)
            for reference in ready:
                unit = running.pop(reference)
                outcome = _outcome(ray, reference, unit)
                if _is_final(outcome, attempts[unit.folder]):
                    finished(outcome)
                else:
                    waiting.append(unit)
    except BaseException:
        for other in running:
            ray.cancel(other, force=True)
        raise


def _run_unit(plan: Plan, unit: Unit, attempt: int, device: str | None) -> Outcome:
    return run_unit(plan, unit, attempt=attempt, device=device)


def _outcome(ray: Any, reference: Any, unit: Unit) -> Outcome:
    try:
        outcome: Outcome = ray.get(reference)
        return outcome
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError) as error:
        return Outcome(unit, INTERRUPTED, log=str(error), host="")
    except ray.exceptions.RayTaskError as error:
        return Outcome(unit, FAILED, log=str(error), host="")


class Progress:
    """One line on the terminal, or one every ten seconds in a log."""

    def __init__(self, plan: Plan) -> None:
        self.total = len(plan.units)
        self.start = self.shown = time.monotonic()
        self.kept = self.damaged = self.failed = self.skipped = 0
        self.data_seconds = 0.0
        self.is_terminal = sys.stderr.isatty()

    def add(self, outcome: Outcome) -> None:
        """Counts a unit and shows the line when it is due."""
        self.kept += outcome.is_kept
        self.damaged += outcome.exit_code == 3
        self.failed += not outcome.is_kept
        self.skipped += not outcome.is_new
        if outcome.is_new and outcome.is_kept:
            self.data_seconds += outcome.unit.data_seconds or 0.0
        now = time.monotonic()
        if now - self.shown >= (1.0 if self.is_terminal else 10.0):
            self.shown = now
            print(self.line(), end="\r" if self.is_terminal else "\n", file=sys.stderr, flush=True)

    def line(self) -> str:
        """Units, data a minute, time left."""
        elapsed = time.monotonic() - self.start
        parts = list(self._counts())
        num_new = self.kept + self.failed - self.skipped
        if num_new:
            parts.append(f"{self.data_seconds / 3600 / max(elapsed, 1e-9) * 60:.3f} h of data a minute")
            left = elapsed / num_new * (self.total - self.kept - self.failed)
            parts.append(f"{int(left // 3600)}:{int(left % 3600 // 60):02}:{int(left % 60):02} left")
        return ", ".join(parts)

    def _counts(self) -> Iterator[str]:
        yield f"{self.kept}/{self.total} done"
        for num, what in ((self.skipped, "from before"), (self.damaged, "damaged"), (self.failed, "failed")):
            if num:
                yield f"{num} {what}"

    def cost(self, machines: int, price_per_hour: float | None) -> str:
        """What the run did in its time, and for how much."""
        hours = (time.monotonic() - self.start) / 3600
        data = self.data_seconds / 3600
        rate = data / hours / machines if hours else 0.0
        text = f"{data:.3f} h of data in {hours:.3f} h: {rate:.1f} h an hour and machine"
        if price_per_hour is not None and data > 0.0:
            text += f"; {price_per_hour * hours * machines / data:.4f} for an hour of data"
        return text
