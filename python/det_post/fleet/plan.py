"""Which units a run has: recordings, their slices, and what identifies their results."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import _program
from .._commands import override
from .stores import Store

PLAN = "plan.json"
"""The plan's name in the folder of results."""

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
        return f"{self.name}/slices/{self.slice:04}"


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

    def write(self) -> None:
        """Writes the plan into the folder of results."""
        Store(self.out).write_json(PLAN, asdict(self))

    @classmethod
    def read(cls, url: str) -> Plan:
        """Reads the plan of a folder of results."""
        value = Store(url).read_json(PLAN)
        if value is None:
            raise PlanError(f"{url} has no {PLAN}")
        units = [Unit(**unit) for unit in value.pop("units")]
        return cls(**{**value, "out": url}, units=units)


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
    common = [_hash_of_program(), checked["key"], device]
    units: list[Unit] = []
    for name, files in _recordings(store, results).items():
        identity = [f"{file}={store.identity(file, about)}" for file, about in files.items()]
        recording = name if name else Path(store.path).name
        for part in _slices(_span(store, files), slice_seconds):
            text_of_key = "\n".join([*common, *identity, repr(part["bounds"])])
            units.append(
                Unit(
                    recording=name,
                    name=_name_of_results(recording),
                    key=hashlib.sha256(text_of_key.encode()).hexdigest(),
                    slice=part["slice"],
                    num_slices=part["num_slices"],
                    from_ns=part["bounds"][0],
                    to_ns=part["bounds"][1],
                    data_seconds=part["seconds"],
                    num_bytes=sum(about.get("size") or 0 for about in files.values()),
                )
            )
    if not units:
        raise PlanError(f"{recordings} has no recording (a folder with metadata.yaml, .mcap, .db3)")
    names = {unit.name: unit.recording for unit in units}
    for unit in units:
        if names[unit.name] != unit.recording:
            raise PlanError(f"{unit.recording} and {names[unit.name]} have the same results, {unit.name}")
        inner = next((name for name in names if name.startswith(f"{unit.name}/")), None)
        if inner is not None:
            raise PlanError(f"the results of {inner} would be inside the results of {unit.name}")
    return Plan(store.url, results.url, text, device, threads, units)


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


def _recordings(store: Store, results: Store) -> dict[str, dict[str, dict[str, Any]]]:
    """The files of each recording by its name; the empty name is the folder itself.

    Results below the same folder are no recordings."""
    if store.fs.isfile(store.path):
        parent, _, name = store.path.rpartition("/")
        store.path, store.url = parent, store.url.rpartition("/")[0]
        return {name: {name: store.fs.info(f"{parent}/{name}")}}
    files = store.find()
    inside = results.path + "/"
    files = {name: about for name, about in files.items() if not store.at(name).startswith(inside)}
    folders = {name.rpartition("/")[0] for name in files if name.rpartition("/")[2] == "metadata.yaml"}
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name, about in files.items():
        folder = name.rpartition("/")[0]
        is_data = name.endswith((".mcap", ".db3"))
        if folder in folders and (is_data or name.endswith("/metadata.yaml") or name == "metadata.yaml"):
            found.setdefault(folder, {})[name] = about
        elif is_data:
            found[name] = {name: about}
    return found


def _name_of_results(recording: str) -> str:
    for suffix in (".mcap", ".db3"):
        recording = recording.removesuffix(suffix)
    return recording


def _slices(span: tuple[int, int] | None, seconds: float) -> list[dict[str, Any]]:
    """The bounds of the slices of a recording from its first to its last log time."""
    length = None if span is None else (span[1] - span[0]) * 1e-9
    num = 1
    if span is not None and length is not None and 0.0 < seconds < length:
        num = int(-(-length // seconds))
    if num == 1 or span is None or length is None:
        return [{"slice": None, "num_slices": 1, "bounds": (None, None), "seconds": length}]
    cuts = [span[0] + (span[1] - span[0]) * index // num for index in range(num + 1)]
    # The first has no start and the last no end, so that every message belongs to one.
    bounds = [
        (None if index == 0 else cuts[index], None if index == num - 1 else cuts[index + 1])
        for index in range(num)
    ]
    return [
        {"slice": index, "num_slices": num, "bounds": bound, "seconds": length / num}
        for index, bound in enumerate(bounds)
    ]


def _span(store: Store, files: dict[str, dict[str, Any]]) -> tuple[int, int] | None:
    """First and last log time of a recording as it declares them, in nanoseconds."""
    for name in files:
        if name.rpartition("/")[2] == "metadata.yaml":
            text = (store.read(name) or b"").decode(errors="replace")
            start = re.search(r"^\s*starting_time:\s*\n\s*nanoseconds_since_epoch:\s*(\d+)", text, re.M)
            length = re.search(r"^\s*duration:\s*\n\s*nanoseconds:\s*(\d+)", text, re.M)
            if start and length:
                return int(start[1]), int(start[1]) + int(length[1])
    if len(files) == 1 and (name := next(iter(files))).endswith(".mcap"):
        return _span_of_mcap(store, name, next(iter(files.values())).get("size") or 0)
    return None


def _span_of_mcap(store: Store, name: str, size: int) -> tuple[int, int] | None:
    """The times in the Statistics record of an MCAP file; ``None`` where there is none."""
    footer_len, magic = 1 + 8 + 20, b"\x89MCAP0\r\n"
    if size < footer_len + len(magic):
        return None
    end = store.fs.cat_file(store.at(name), start=size - footer_len - len(magic), end=size)
    if not end.endswith(magic) or end[0] != 0x02:
        return None
    (start,) = struct.unpack_from("<Q", end, 9)
    if not 0 < start < size:
        return None
    summary = store.fs.cat_file(store.at(name), start=start, end=size - footer_len - len(magic))
    at = 0
    while at + 9 <= len(summary):
        opcode, length = struct.unpack_from("<BQ", summary, at)
        if opcode == 0x0B and length >= 42 and at + 9 + 42 <= len(summary):
            first, last = struct.unpack_from("<QQ", summary, at + 9 + 26)
            return (first, last) if last > first else None
        at += 9 + length
    return None
