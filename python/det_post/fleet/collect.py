"""The results of all units as one: joined slices, the table of units, tables of boxes."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from . import outputs
from .outputs import OutputError
from .plan import BOXES, DRIVES, FAILURES, MANIFEST, Plan, Unit, shown
from .stores import Store, iterate_json_lines
from .unit import Outcome

LINES = "detections.jsonl"
REPORT = "report.json"

_NAME = pa.dictionary(pa.int32(), pa.string())

SCHEMA_OF_MANIFEST = pa.schema(
    [
        ("name", pa.string()),
        ("recording", pa.string()),
        ("slice", pa.int32()),
        ("num_slices", pa.int32()),
        ("from_ns", pa.int64()),
        ("to_ns", pa.int64()),
        ("data_seconds", pa.float64()),
        ("num_bytes", pa.int64()),
        ("key", pa.string()),
        ("state", _NAME),
        ("exit_code", pa.int32()),
        ("attempt", pa.int32()),
        ("seconds", pa.float64()),
        ("host", _NAME),
        ("device", pa.string()),
        ("frames", pa.int64()),
        ("detections", pa.int64()),
        ("dropped", pa.int64()),
        ("log", pa.string()),
    ]
)

_OF_FRAME = [
    ("recording", _NAME),
    ("channel", _NAME),
    ("stamp_ns", pa.int64()),
    ("frame_id", _NAME),
    ("index", pa.int32()),
    ("class_id", pa.int32()),
    ("class_name", _NAME),
    ("score", pa.float32()),
]

SCHEMAS_OF_BOXES = {
    # A box has x1 to y2, a rotated one the other five.
    "detections_2d": [
        *_OF_FRAME,
        *((name, pa.float32()) for name in ("x1", "y1", "x2", "y2")),
        *((name, pa.float32()) for name in ("center_x", "center_y", "width", "height", "theta")),
    ],
    "detections_3d": [
        *_OF_FRAME,
        *((name, pa.float32()) for name in ("x", "y", "z", "length", "width", "height", "yaw")),
        *((name, pa.float32()) for name in ("velocity_x", "velocity_y")),
    ],
}

ROWS_PER_GROUP = 1 << 16


def state_of(outcome: Outcome | None) -> str:
    """The state of a unit in one word."""
    if outcome is None:
        return "missing"
    return {0: "done", 3: "damaged", 4: "interrupted"}.get(outcome.exit_code, "failed")


def collect(plan: Plan, outcomes: dict[str, Outcome], *, boxes: bool = False) -> list[str]:
    """Writes what a run has to say as a whole into the folder of results.

    ``outcomes`` are by the folder of the unit. Slices of a recording are joined when all are
    kept. Gives the reasons why recordings with results are not among them.

    Raises :class:`.OutputError` for a file of the run that det_post did not write.
    """
    store = Store(plan.out)
    names, reasons = join_slices(plan, outcomes, store)
    rows = [_row(unit, outcomes.get(unit.folder)) for unit in plan.units]
    rows += [_row_of_refused(one.recording, one.reason) for one in plan.refused]
    failures = [row for row in rows if row["state"] not in ("done", "damaged")]
    recordings = Store(plan.recordings)
    drives = ({"detections": name, "truth": recordings.at(recording)} for name, recording in names.items())
    manifest = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA_OF_MANIFEST), manifest, compression="zstd")
    files = {
        MANIFEST: manifest.getvalue().to_pybytes(),
        FAILURES: _lines({key: row[key] for key in ("name", "slice", "state", "log")} for row in failures),
        DRIVES: _lines(drives),
    }
    outputs.write_all(store, "", files)
    if boxes:
        for kind, file in BOXES.items():
            _write_boxes(store, names, kind, file)
    return reasons


def join_slices(plan: Plan, outcomes: dict[str, Outcome], store: Store) -> tuple[dict[str, str], list[str]]:
    """Joins the lines of slices in their order and removes slices of earlier plans; gives the names
    with results, by recording, and why others have none."""
    units: dict[str, list[Unit]] = {}
    for unit in plan.units:
        units.setdefault(unit.name, []).append(unit)
    names: dict[str, str] = {}
    reasons: list[str] = []
    for name, parts in units.items():
        found = [outcomes.get(part.folder) for part in parts]
        if not all(outcome is not None and outcome.is_kept for outcome in found):
            continue
        try:
            if parts[0].slice is not None:
                _join(store, name, parts)
            names[name] = parts[0].recording
        except OutputError as error:
            reasons.append(f"{name}: {error}")
            continue
        kept = {part.folder.rpartition("/")[2] for part in parts if part.slice is not None}
        reasons += [f"{name}: {reason}" for reason in outputs.remove_slices(store, name, kept)]
    return names, reasons


def _join(store: Store, name: str, parts: list[Unit]) -> None:
    joined = b"".join(store.read(f"{part.folder}/{LINES}") or b"" for part in parts)
    report = _join_reports([store.read_json(f"{part.folder}/{REPORT}") for part in parts])
    with outputs.opened(store, name) as folder:
        # What a replay of the whole wrote here is of another key.
        outputs.remove(folder)
        outputs.write(folder, LINES, joined)
        outputs.write(folder, REPORT, (json.dumps(report, indent=2) + "\n").encode())


def _join_reports(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Counters of slices added up; times and values of single frames stay in theirs."""
    first, *_ = reports
    channels = {}
    for name, channel in first["channels"].items():
        parts = [report["channels"][name] for report in reports]
        joined = {key: channel[key] for key in ("input", "output", "device", "engine")}
        for key in ("frames_in", "frames_out", "detections"):
            joined[key] = sum(part[key] for part in parts)
        for key in ("dropped", "degraded"):
            joined[key] = _join_reasons([part[key] for part in parts])
        truncated = [Counter(part["truncated"]) for part in parts]
        joined["truncated"] = dict(sorted(sum(truncated, Counter()).items()))
        channels[name] = joined
    return {
        "recording": first["recording"],
        "num_slices": len(reports),
        "damage": [damage for report in reports for damage in report["damage"]],
        "channels": channels,
    }


def _join_reasons(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Frames by reason with the message of the first."""
    joined: dict[str, Any] = {}
    for part in parts:
        for reason, found in part.items():
            known = joined.setdefault(reason, {**found, "count": 0})
            known["count"] += found["count"]
    return joined


def _row(unit: Unit, outcome: Outcome | None) -> dict[str, Any]:
    about = outcome or Outcome(unit, -1, host="", attempt=0)
    value = {**vars(unit), **{key: getattr(about, key) for key in vars(about) if key != "unit"}}
    value["state"] = state_of(outcome)
    return {name: value[name] for name in SCHEMA_OF_MANIFEST.names}


def _row_of_refused(recording: str, reason: str) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(SCHEMA_OF_MANIFEST.names)
    name = shown(recording)
    return {**row, "name": name, "recording": name, "state": "refused", "log": shown(reason)}


def _lines(values: Any) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def _write_boxes(store: Store, names: dict[str, str], kind: str, file: str) -> None:
    """One row a box, in the order of recordings, lines and boxes."""
    schema = pa.schema(SCHEMAS_OF_BOXES[kind])
    with tempfile.TemporaryFile() as sink:
        with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
            rows: list[dict[str, Any]] = []
            for name in names:
                for row in _boxes(store, name, kind):
                    rows.append(row)
                    if len(rows) == ROWS_PER_GROUP:
                        writer.write_table(pa.Table.from_pylist(rows, schema=schema))
                        rows = []
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
        sink.seek(0)
        with outputs.opened(store, "") as folder:
            outputs.write(folder, file, sink)


def _boxes(store: Store, name: str, kind: str) -> Iterator[dict[str, Any]]:
    for line in iterate_json_lines(store.read(f"{name}/{LINES}") or b""):
        for index, box in enumerate(line.get(kind) or []):
            row = {
                "recording": name,
                "channel": line["channel"],
                "stamp_ns": line["stamp_ns"],
                "frame_id": line["frame_id"],
                "index": index,
                "class_id": box["class_id"],
                "class_name": box["class_name"],
                "score": box["score"],
            }
            yield {**row, **(_box_2d(box) if kind == "detections_2d" else _box_3d(box))}


def _box_2d(box: dict[str, Any]) -> dict[str, Any]:
    if "box" in box:
        return dict(zip(("x1", "y1", "x2", "y2"), box["box"]))
    (x, y), (width, height) = box["center"], box["size"]
    return {"center_x": x, "center_y": y, "width": width, "height": height, "theta": box["theta"]}


def _box_3d(box: dict[str, Any]) -> dict[str, Any]:
    values = dict(zip(("x", "y", "z"), box["center"]))
    values.update(zip(("length", "width", "height"), box["size"]))
    velocity = box.get("velocity") or (None, None)
    return {**values, "yaw": box["yaw"], "velocity_x": velocity[0], "velocity_y": velocity[1]}
