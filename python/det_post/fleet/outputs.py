"""What a run writes to its folder of results: only files that det_post wrote are replaced or removed.

The program decides, by the list that it keeps in each folder (``.det_post.jsonl``). Of a folder in
a store, it decides on a local copy of names, sizes and times; then the store is changed likewise.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from .. import _program
from .stores import Store

LIST = ".det_post.jsonl"
"""The program's list of its files in a folder."""

PARTIAL = "det_post.partial"
"""Folder of the files of a run that did not end."""

RECORD = "unit.json"
"""Written last: a folder that has it holds the whole results of its key."""

SLICES = "slices"
"""Folder of the slices of a recording, below its results."""


class OutputError(Exception):
    """Results cannot be written; the message names the file and what to do."""


def check(folder: Path, *names: str) -> None:
    """Refuses what would refuse a command that writes these files and, with a slash at the end,
    folders; without names, the results of a replay. Changes nothing.

    Raises :class:`OutputError`.
    """
    _call("check", str(folder), *names)


def write(folder: Path, name: str, source: bytes | IO[bytes]) -> None:
    """Writes a file, in place of one that det_post wrote.

    Raises :class:`OutputError`.
    """
    _call("write", str(folder), name, source=source)


def remove(folder: Path, *names: str) -> None:
    """Removes files and folders that det_post wrote; names as of :func:`check`.

    Raises :class:`OutputError`.
    """
    _call("remove", str(folder), *names)


def _call(*arguments: str, source: bytes | IO[bytes] = b"") -> None:
    command = [str(_program.path()), "outputs", *arguments]
    given: dict[str, Any] = {"input": source} if isinstance(source, bytes) else {"stdin": source}
    done = subprocess.run(command, capture_output=True, env=_program.environment(), **given)
    if done.returncode != 0:
        raise OutputError(done.stderr.decode(errors="replace").strip())


@contextmanager
def opened(store: Store, name: str) -> Iterator[Path]:
    """A local folder that stands for the one of this name, for the functions above and replays.

    Of a store it is a copy of names, sizes and times; what changed in it is changed in the store
    when the block ends without an exception.

    Raises :class:`OutputError` where the store has names that no folder can have.
    """
    if store.is_local:
        yield store.local(name)
        return
    with tempfile.TemporaryDirectory(prefix="det_post_results_") as scratch:
        copy = _Copy(store, name, Path(scratch) / "results")
        try:
            yield copy.folder
        except OutputError as error:
            # The user knows the store, not its copy.
            raise OutputError(str(error).replace(str(copy.folder), store.at(name))) from error
        copy.commit()


def write_all(store: Store, name: str, files: dict[str, bytes]) -> None:
    """Writes files of a folder one after the other.

    Raises :class:`OutputError`.
    """
    with opened(store, name) as folder:
        for file, data in files.items():
            write(folder, file, data)


def remove_slices(store: Store, name: str, kept: set[str]) -> list[str]:
    """Removes the slices of a recording that are not of this plan; ``kept`` are the names of its
    folders below ``NAME/slices``. Gives the reasons why some stay."""
    parent = f"{name}/{SLICES}"
    store.fs.invalidate_cache()
    if not store.fs.isdir(store.at(parent)):
        return []
    found = {path.rstrip("/").rpartition("/")[2] for path in store.fs.ls(store.at(parent), detail=False)}
    reasons = []
    for other in sorted(found - kept):
        if not other.isdigit() or not store.exists(f"{parent}/{other}/{LIST}"):
            continue
        try:
            with opened(store, f"{parent}/{other}") as folder:
                remove(folder)
        except OutputError as error:
            reasons.append(str(error))
    if store.is_local and not kept:
        try:
            store.local(parent).rmdir()
        except OSError:
            pass  # It holds other things.
    return reasons


class _Copy:
    """A folder of a store as a local one: the list itself, of other files holes of their size and
    time."""

    def __init__(self, store: Store, name: str, folder: Path) -> None:
        self.store, self.name, self.folder = store, name, folder
        for path, (size, modified) in self._listing().items():
            local = folder / path
            try:
                local.parent.mkdir(parents=True, exist_ok=True)
                if path == LIST:
                    local.write_bytes(store.fs.cat_file(self._at(path)))
                    continue
                local.touch()
                os.truncate(local, size)
                os.utime(local, ns=(modified, modified))
            except (OSError, ValueError) as error:
                raise OutputError(f"{self._at(path)} cannot be a file of a folder: {error}") from error
        self.before = self._states()

    def _at(self, path: str) -> str:
        return self.store.at(f"{self.name}/{path}" if self.name else path)

    def _listing(self) -> dict[str, tuple[int, int]]:
        """Sizes and times of the store's files. Results of slices have folders of their own; beside
        the plan are the results of recordings."""
        fs, root = self.store.fs, self.store.at(self.name)
        fs.invalidate_cache()
        found = fs.find(root, detail=True, maxdepth=None if self.name else 1)
        listing = {}
        for path, about in found.items():
            inner = path[len(root.rstrip("/")) + 1 :]
            parts = inner.split("/")
            # A key of a store may have names that lead out of a folder: none of ours has.
            if parts[0] != SLICES and not {"", ".", ".."} & set(parts):
                listing[inner] = (int(about.get("size") or 0), self._modified_ns(path, about))
        return listing

    def _modified_ns(self, path: str, about: dict[str, Any]) -> int:
        """When a file was changed; 0 where the store does not say."""
        found = next((about[key] for key in ("mtime", "LastModified", "last_modified", "updated") if about.get(key)), None)
        if found is None:
            try:
                found = self.store.fs.modified(path)
            except (NotImplementedError, OSError):
                found = about.get("created")
        if isinstance(found, str):
            try:
                found = datetime.fromisoformat(found.replace("Z", "+00:00"))
            except ValueError:
                return 0
        if isinstance(found, datetime):
            return int(found.timestamp()) * 10**9 + found.microsecond * 1000
        return int(found * 1e9) if isinstance(found, (int, float)) else 0

    def _states(self) -> dict[str, tuple[int, int]]:
        """Inodes and times of the local files: a file that was written again differs."""
        states = {}
        for path in sorted(self.folder.rglob("*")):
            inner = path.relative_to(self.folder)
            if path.is_file() and inner.parts[0] != PARTIAL and str(inner) != LIST:
                about = path.stat()
                states[str(inner)] = (about.st_ino, about.st_mtime_ns)
        return states

    def commit(self) -> None:
        """Changes the store as the local folder was changed. The list is written before and after:
        whenever this process dies, the files are still those of det_post."""
        after = self._states()
        written = [path for path, state in after.items() if self.before.get(path) != state]
        removed = [path for path in self.before if path not in after]
        if not written and not removed:
            return
        fs = self.store.fs
        head, entries = self._list()
        same = [entry for entry in entries if entry["file"] in after and entry["file"] not in written]
        self._write_list(head, same + [{"file": path} for path in sorted({*written, *removed})])
        for path in sorted(removed, key=lambda path: path != RECORD):
            fs.rm_file(self._at(path))
        for path in sorted(written, key=lambda path: path == RECORD):
            fs.makedirs(os.path.dirname(self._at(path)), exist_ok=True)
            fs.put_file(str(self.folder / path), self._at(path))
        listing = self._listing()
        states = [
            {"file": path, "state": {"bytes": size, "modified": list(divmod(modified, 10**9))}}
            for path, (size, modified) in listing.items()
            if path in written
        ]
        if same or states:
            self._write_list(head, same + states)
        else:
            fs.rm_file(self._at(LIST))

    def _list(self) -> tuple[str, list[dict[str, Any]]]:
        """The head and the entries of the program's list."""
        path = self.folder / LIST
        if not path.exists():
            # The program removed the last file, and its list with it.
            data = self.store.fs.cat_file(self._at(LIST)).decode()
            return data.splitlines()[0], []
        head, *lines = path.read_text().splitlines()
        return head, [json.loads(line) for line in lines]

    def _write_list(self, head: str, entries: list[dict[str, Any]]) -> None:
        lines = [head, *(json.dumps(entry, ensure_ascii=False) for entry in entries)]
        self.store.fs.makedirs(os.path.dirname(self._at(LIST)), exist_ok=True)
        self.store.fs.pipe_file(self._at(LIST), ("\n".join(lines) + "\n").encode())
