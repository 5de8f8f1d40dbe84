"""When a recording has messages, and how it is divided: after messages, not after the time between
the first and the last one, which a single wrong log time makes centuries."""

from __future__ import annotations

import re
import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .stores import Store

MAX_SLICES = 10_000
"""The most slices of a recording."""

PAUSE_SECONDS = 600.0
"""What a pause counts at most where recordings are not divided."""

MAX_METADATA_BYTES = 16 << 20
MAX_SUMMARY_BYTES = 256 << 20
"""Of an MCAP file; some hundred bytes for each chunk."""

SAMPLES = 16
"""Times that are looked up in a database for the length of a slice."""

_END = 2**63 - 1
"""The last log time at which a replay can begin."""

_DENSE_NS = 10**9
"""Messages that are closer than this on average fill the time from the first to the last one."""


@dataclass(frozen=True)
class Interval:
    """Some messages: first and last log time in nanoseconds, and how many."""

    first: int
    last: int
    num_messages: int


@dataclass(frozen=True)
class Division:
    """The slices of a recording by their bounds: log times, the end exclusive. The first has no
    start and the last no end, so that every message belongs to one."""

    bounds: list[tuple[int | None, int | None]]
    seconds: float | None
    """Time that messages cover; ``None`` where the recording does not declare it."""
    note: str | None = None
    """What is unusual about the log times."""


def divide(intervals: list[Interval], seconds: float) -> Division:
    """Divides a recording into slices that cover at most ``seconds`` each (0: does not divide).

    A pause counts as ``seconds`` at most, and no recording has more than :data:`MAX_SLICES`, or
    more slices than messages.
    """
    if not intervals:
        return Division([(None, None)], None)
    longest_pause = int((seconds or PAUSE_SECONDS) * 1e9)
    pieces = _pieces(intervals, longest_pause)
    covered = sum(piece.counted for piece in pieces)
    asked = -(-covered // max(1, int(seconds * 1e9))) if seconds else 1
    num = max(1, min(asked, MAX_SLICES, sum(interval.num_messages for interval in intervals)))
    cuts = sorted(set(_cuts(pieces, covered, num)))
    edges = [None, *cuts, None]
    note = _note(pieces, covered, longest_pause)
    if asked > MAX_SLICES:
        limited = f"{asked} slices of {seconds:g} s: divided into {num}, the limit"
        note = f"{note}; {limited}" if note else limited
    return Division(list(zip(edges, edges[1:])), covered * 1e-9, note)


@dataclass(frozen=True)
class _Piece:
    """Consecutive time: with messages throughout, or between two messages."""

    start: int
    end: int
    counted: int
    """Of its length, what counts."""


def _pieces(intervals: list[Interval], longest_pause: int) -> list[_Piece]:
    covers: list[tuple[int, int]] = []
    for interval in intervals:
        length = interval.last - interval.first
        if length <= interval.num_messages * _DENSE_NS:
            covers.append((interval.first, interval.last))
        else:
            covers += [(interval.first, interval.first), (interval.last, interval.last)]
    covers.sort()
    pieces: list[_Piece] = []
    end = covers[0][0]
    for first, last in covers:
        if first > end:
            pieces.append(_Piece(end, first, min(first - end, longest_pause)))
            end = first
        if last > end:
            pieces.append(_Piece(end, last, last - end))
            end = last
    return pieces


def _cuts(pieces: list[_Piece], covered: int, num: int) -> Iterator[int]:
    """The bounds between ``num`` slices that count the same."""
    remaining = iter(pieces)
    piece, before = next(remaining, None), 0
    for index in range(1, num):
        target = covered * index // num
        while piece is not None and before + piece.counted < target:
            before += piece.counted
            piece = next(remaining, None)
        if piece is None:
            return
        # A long pause is not divided: it belongs to the slice after it.
        is_whole = piece.counted == piece.end - piece.start
        cut = piece.start + max(1, target - before) if is_whole else piece.start + 1
        if cut < _END:
            yield cut


def _note(pieces: list[_Piece], covered: int, longest_pause: int) -> str | None:
    cut = [piece for piece in pieces if piece.counted < piece.end - piece.start]
    if not cut:
        return None
    longest = max(cut, key=lambda piece: piece.end - piece.start)
    return (
        f"log times from {pieces[0].start * 1e-9:.3f} s to {pieces[-1].end * 1e-9:.3f} s with {len(cut)} pauses of more "
        f"than {longest_pause * 1e-9:g} s (the longest after {longest.start * 1e-9:.3f} s): {covered * 1e-9:.3f} s count"
    )


def intervals_of(store: Store, files: dict[str, dict[str, Any]], seconds: float) -> list[Interval]:
    """When a recording has messages, by the indexes of its files, else as its ``metadata.yaml``
    declares; nothing where neither says."""
    data = [name for name in files if name.endswith((".mcap", ".db3"))]
    found: list[Interval] = []
    for name in data:
        if name.endswith(".mcap"):
            part = _of_mcap(store, name, files[name].get("size") or 0)
        else:
            part = _of_database(store, name, seconds or PAUSE_SECONDS)
        if not part:
            break
        found += part
    else:
        if found:
            return found
    declared = (name for name in files if name.rpartition("/")[2] == "metadata.yaml")
    return next((_of_metadata(store, name) for name in declared), [])


def _of_metadata(store: Store, name: str) -> list[Interval]:
    text = store.fs.cat_file(store.at(name), start=0, end=MAX_METADATA_BYTES).decode(errors="replace")
    start = re.search(r"^\s*starting_time:\s*\n\s*nanoseconds_since_epoch:\s*(\d{1,19})\b", text, re.M)
    length = re.search(r"^\s*duration:\s*\n\s*nanoseconds:\s*(\d{1,19})\b", text, re.M)
    # Topics and files have a count of their own, further to the right.
    counts = re.findall(r"^(\s*)message_count:\s*(\d{1,19})\b", text, re.M)
    if not (start and length and counts):
        return []
    num = int(min(counts, key=lambda count: len(count[0].rpartition("\n")[2]))[1])
    return [Interval(int(start[1]), int(start[1]) + int(length[1]), num)] if num else []


def _of_mcap(store: Store, name: str, size: int) -> list[Interval]:
    """The chunks in the summary of an MCAP file, else its statistics."""
    footer_len, magic = 1 + 8 + 20, b"\x89MCAP0\r\n"
    end = size - footer_len - len(magic)
    if end < 0:
        return []
    footer = store.fs.cat_file(store.at(name), start=end, end=size)
    if not footer.endswith(magic) or footer[0] != 0x02:
        return []
    (start,) = struct.unpack_from("<Q", footer, 9)
    if not 0 < start <= end or end - start > MAX_SUMMARY_BYTES:
        return []
    summary = store.fs.cat_file(store.at(name), start=start, end=end)
    chunks: list[Interval] = []
    whole: list[Interval] = []
    at = 0
    while at + 9 <= len(summary):
        opcode, length = struct.unpack_from("<BQ", summary, at)
        at += 9
        if opcode == 0x08 and 40 <= length <= len(summary) - at:
            if chunk := _of_chunk(summary[at : at + length]):
                chunks.append(chunk)
        elif opcode == 0x0B and 42 <= length <= len(summary) - at:
            num, first, last = struct.unpack_from("<Q18xQQ", summary, at)
            if num and last >= first:
                whole = [Interval(first, last, num)]
        at += length
    return chunks or whole


def _of_chunk(record: bytes) -> Interval | None:
    """An index of a chunk. Of messages it has the length of their index: 15 bytes a channel, 16 a
    message."""
    first, last, _, _, map_len = struct.unpack_from("<QQQQI", record)
    if len(record) < 36 + map_len + 8 or last < first:
        return None
    (index_len,) = struct.unpack_from("<Q", record, 36 + map_len)
    num = max(0, index_len - map_len // 10 * 15) // 16
    if num == 0 and last == 0:
        return None
    return Interval(first, last, max(1, num))


def _of_database(store: Store, name: str, seconds: float) -> list[Interval]:
    """Times of a local SQLite file, looked up in its index of times."""
    if not store.is_local:
        return []
    step = max(1, int(seconds * 1e9) // SAMPLES)
    found: list[Interval] = []
    try:
        database = sqlite3.connect(f"file:{quote(str(store.local(name)))}?mode=ro&immutable=1", uri=True)
        try:
            indexes = [row[1] for row in database.execute("PRAGMA index_list(messages)")]
            first_columns = [database.execute(f'PRAGMA index_info("{index}")').fetchone()[2] for index in indexes]
            if "timestamp" not in first_columns:
                return []
            at = 0
            while len(found) < MAX_SLICES * SAMPLES and at < _END:
                query = "SELECT MIN(timestamp) FROM messages WHERE timestamp >= ?"
                (time,) = database.execute(query, (at,)).fetchone()
                if time is None:
                    return found
                found.append(Interval(time, time, 1))
                at = time + step
            (time,) = database.execute("SELECT MAX(timestamp) FROM messages").fetchone()
            return [*found, Interval(time, time, 1)]
        finally:
            database.close()
    except (sqlite3.Error, TypeError, OverflowError):
        # What the file is, its replay says.
        return []
