"""Which units a run has: recordings, their slices, and what identifies their results."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import _program
from .._commands import override
from . import outputs
from .outputs import LIST, PARTIAL, SLICES, OutputError
from .spans import divide, intervals_of
from .stores import Store

PLAN = "plan.json"
"""The plan's name in the folder of results."""

MANIFEST = "manifest.parquet"
FAILURES = "failures.jsonl"
DRIVES = "drives.jsonl"
BOXES = {"detections_2d": "detections_2d.parquet", "detections_3d": "detections_3d.parquet"}

OF_RUN = (PLAN, MANIFEST, FAILURES, DRIVES, *BOXES.values())
"""What a run writes beside the results of recordings."""

ALL_GPUS = "cuda:*"
"""The device that means every GPU; so does ``cuda`` on the command line."""


class PlanError(Exception):
    """The configuration or the recordings do not make a plan: nothing was run."""


@dataclass(frozen=True)
class Unit:
    """A recording or a slice of one. ``from_ns`` and ``to_ns`` are log times, ``to_ns`` exclusive."""

    recording: str
    """Name of the recording below the folder of recordings."""
    name: str
    """Name of the results below the folder of results."""
    key: str
    """SHA-256 of everything on which the results depend."""
    slice: int | None = None
    num_slices: int = 1
    from_ns: int | None = None
    to_ns: int | None = None
    data_seconds: float | None = None
    """Log time that the unit covers, where the recording declares it."""
    num_bytes: int = 0
    """Size of the recording."""

    @property
    def folder(self) -> str:
        """Where its results are, below the folder of results."""
        if self.slice is None:
            return self.name
        return f"{self.name}/{SLICES}/{self.slice:04}"


@dataclass(frozen=True)
class Refused:
    """A recording that has no unit, and why."""

    recording: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """Units and what they share."""

    recordings: str
    """URL of the folder of recordings."""
    out: str
    """URL of the folder of results."""
    parameters: str
    """The effective configuration, as a parameter file."""
    device: str
    threads: int
    units: list[Unit] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is unusual about recordings that have units."""

    def write(self) -> None:
        """Writes the plan into the folder of results, where all files of a run can be written.

        Raises :class:`PlanError` when one of them is not a file that det_post wrote.
        """
        text = json.dumps(asdict(self), indent=2) + "\n"
        try:
            with outputs.opened(Store(self.out), "") as folder:
                outputs.check(folder, *OF_RUN)
                outputs.write(folder, PLAN, text.encode())
        except OutputError as error:
            raise PlanError(str(error)) from error

    @classmethod
    def read(cls, url: str) -> Plan:
        """Reads the plan of a folder of results."""
        store = Store(url)
        fault = store.fault(PLAN)
        value = None if fault else store.read_json(PLAN)
        if value is None:
            raise PlanError(f"{url} has no {PLAN}: make one with --plan-only")
        try:
            units = [Unit(**unit) for unit in value.pop("units")]
            refused = [Refused(**refused) for refused in value.pop("refused")]
            return cls(**{**value, "out": url}, units=units, refused=refused)
        except (AttributeError, KeyError, TypeError) as error:
            raise PlanError(f"{store.at(PLAN)} is not a plan of det_post: choose another --out") from error


def make_plan(
    recordings: str,
    out: str,
    configs: Sequence[str],
    *,
    parameters: Sequence[str] = (),
    device: str = "auto",
    threads: int = 1,
    slice_seconds: float = 600.0,
) -> Plan:
    """Finds the recordings below a folder and divides those that are longer than
    ``slice_seconds`` (0: none).

    Raises :class:`PlanError` for a configuration that the program refuses, a network that is not
    there, or a folder without recordings.
    """
    device = ALL_GPUS if device == "cuda" else device
    overrides = [text for parameter in parameters for text in ("-p", parameter)]
    checked = json.loads(_check([*configs, *overrides, "--json"]))
    if checked["key"] is None:
        missing = [f"{file['parameter']}: {file['error']}" for file in checked["files"] if file.get("error")]
        raise PlanError("; ".join(missing))
    # Other processes have other working directories.
    for name in sorted({file["parameter"] for file in checked["files"]}):
        overrides += ["-p", override(name, _absolute(checked["parameters"][name]))]
    text = _check([*configs, *overrides])
    if checked["warm_up_s"] is None:
        # Every frame depends on all before it: a slice would replay them all again.
        slice_seconds = 0.0
    store, results = Store(recordings), Store(out)
    found, refused = _recordings(store, results)
    refused += _misplaced(store, results, found)
    out_of = {name.recording for name in refused}
    plan = Plan(store.url, results.url, text, device, threads, refused=refused)
    common = [_hash_of_program(), checked["key"], device]
    for recording, files in found.items():
        if recording in out_of:
            continue
        try:
            units, note = _units(store, recording, files, common, slice_seconds)
        except (OSError, ValueError) as error:
            refused.append(Refused(recording, f"cannot be read: {error}"))
            continue
        plan.units.extend(units)
        if note:
            plan.notes.append(f"{recording}: {note}")
    refused.sort(key=lambda one: one.recording)
    if not plan.units:
        reasons = "".join(f"\n{shown(one.recording)} {one.reason}" for one in refused)
        raise PlanError(f"{recordings} has no recording (a folder with metadata.yaml, .mcap, .db3) for a plan{reasons}")
    return plan


def _units(
    store: Store, recording: str, files: dict[str, dict[str, Any]], common: list[str], slice_seconds: float
) -> tuple[list[Unit], str | None]:
    """The units of a recording, and what is unusual about its log times."""
    identity = [f"{file}={store.identity(file, about)}" for file, about in files.items()]
    division = divide(intervals_of(store, files, slice_seconds), slice_seconds)
    num = len(division.bounds)
    units = []
    for index, bounds in enumerate(division.bounds):
        text_of_key = "\n".join([*common, *identity, repr(bounds)])
        units.append(
            Unit(
                recording=recording,
                name=_name_of_results(recording),
                key=hashlib.sha256(text_of_key.encode()).hexdigest(),
                slice=None if num == 1 else index,
                num_slices=num,
                from_ns=bounds[0],
                to_ns=bounds[1],
                data_seconds=None if division.seconds is None else division.seconds / num,
                num_bytes=sum(about.get("size") or 0 for about in files.values()),
            )
        )
    return units, division.note


def _misplaced(store: Store, results: Store, found: dict[str, dict[str, dict[str, Any]]]) -> list[Refused]:
    """Recordings whose results would be where other files are."""
    of_results: dict[str, list[str]] = {}
    for recording in found:
        of_results.setdefault(_name_of_results(recording), []).append(recording)
    files: set[str] = set()
    if store.shares_names_with(results):
        files = {f"{store.real()}/{name}" for of_one in found.values() for name in of_one}
    # The files of recordings, and the folders around them.
    taken = {parent for file in files for parent in _with_parents(file)}
    refused = []
    for name, recordings in of_results.items():
        target = f"{results.real()}/{name}"
        parents = _with_parents(name)[1:]
        outer = next((of_results[parent][0] for parent in parents if parent in of_results), None)
        for recording in recordings:
            reason = None
            if name.split("/")[0] in (*OF_RUN, LIST, PARTIAL):
                reason = f"has the name of a file that a run writes to {results.url}: rename it"
            elif len(recordings) > 1:
                other = next(other for other in recordings if other != recording)
                reason = f"has the same results as {other}, {name}: rename one of them"
            elif outer is not None:
                reason = f"has results inside those of {outer}: rename one of them"
            elif target in taken:
                reason = f"has results in {target}, where a recording is: choose another --out"
            if reason:
                refused.append(Refused(recording, reason))
    return refused


def _with_parents(path: str) -> list[str]:
    """The path and the folders around it, innermost first."""
    parts = path.split("/")
    return ["/".join(parts[:num]) for num in range(len(parts), 0, -1)]


def shown(text: str) -> str:
    """A name as text: bytes that are not UTF-8 are escaped."""
    return text.encode(errors="backslashreplace").decode()


def _absolute(paths: Any) -> Any:
    """The path or the list of paths of a parameter; an empty one names no file."""
    if isinstance(paths, list):
        return [_absolute(path) for path in paths]
    return str(Path(paths).absolute()) if paths else paths


def _check(arguments: Sequence[str]) -> str:
    command = [str(_program.path()), "check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=_program.environment())
    if done.returncode != 0:
        raise PlanError(f"det_post check: {done.stderr.strip()}")
    return done.stdout


def _hash_of_program() -> str:
    """Of the program and of the library of ONNX Runtime, if there is one."""
    digest = hashlib.sha256()
    library = _program.environment().get(_program.LIBRARY_VARIABLE)
    for path in [_program.path(), *([Path(library)] if library else [])]:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _recordings(
    store: Store, results: Store
) -> tuple[dict[str, dict[str, dict[str, Any]]], list[Refused]]:
    """The files of each recording by its name, and what looks like a recording but cannot be read.

    Results below the same folder are no recordings."""
    given, out = store.real(), results.real()
    shared = store.shares_names_with(results)
    if shared and out == given:
        raise PlanError(f"--out {results.url} is the recording, or the folder of recordings: choose one beside it")
    is_file = store.fs.isfile(store.path)
    if is_file or store.fs.isfile(store.at("metadata.yaml")):
        # The recording itself is named: its name is below the folder around it.
        parent, _, own = store.path.rpartition("/")
        store.path, store.url = parent, store.url.rpartition("/")[0]
        if is_file:
            return _readable(store, {own: {own: store.fs.info(f"{parent}/{own}")}})
        files = store.find(own)
    else:
        files = store.find()
    if shared and out.startswith(f"{given}/"):
        inside = out[len(store.real()) + 1 :] + "/"
        files = {name: about for name, about in files.items() if not name.startswith(inside)}
    folders = {name.rpartition("/")[0] for name in files if name.rpartition("/")[2] == "metadata.yaml"}
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name, about in files.items():
        folder, _, file = name.rpartition("/")
        is_data = name.endswith((".mcap", ".db3"))
        if folder in folders and (is_data or file == "metadata.yaml"):
            found.setdefault(folder, {})[name] = about
        elif is_data:
            found[name] = {name: about}
    return _readable(store, found)


def _readable(
    store: Store, found: dict[str, dict[str, dict[str, Any]]]
) -> tuple[dict[str, dict[str, dict[str, Any]]], list[Refused]]:
    """The recordings whose files are regular and have names in UTF-8; the others."""
    readable, refused = {}, []
    for recording, files in found.items():
        faults = (f"{shown(name)} {fault}" for name in files if (fault := _fault(store, name)))
        if fault := next(faults, None):
            refused.append(Refused(recording, f"is left out: {fault}"))
        else:
            readable[recording] = files
    return readable, refused


def _fault(store: Store, name: str) -> str | None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return "has a name that is not UTF-8: rename it"
    return store.fault(name)


def _name_of_results(recording: str) -> str:
    for suffix in (".mcap", ".db3"):
        recording = recording.removesuffix(suffix)
    return recording
