"""Folders of recordings and results: local ones and fsspec's."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec

PART = ".part-"
"""What the names of local folders contain that are not complete."""

TAIL_BYTES = 64 << 10
"""The end of a file that identifies it: MCAP has its summary and checksum there."""


class Store:
    """A folder on the local disk or in a store of fsspec."""

    def __init__(self, url: str) -> None:
        self.fs, path = fsspec.core.url_to_fs(url)
        self.path = path.rstrip("/") or "/"
        self.is_local = "file" in _protocols(self.fs)
        if self.is_local:
            self.path = os.path.abspath(self.path)
        self.url = self.path if self.is_local else url.rstrip("/")

    def __reduce__(self) -> tuple[type[Store], tuple[str]]:
        return Store, (self.url,)

    def at(self, name: str) -> str:
        """The path of a name below the folder."""
        return f"{self.path}/{name}" if name else self.path

    def local(self, name: str) -> Path:
        """The path of a name below a local folder."""
        assert self.is_local
        return Path(self.at(name))

    def exists(self, name: str) -> bool:
        """Whether a file or folder is there now, past any cache."""
        self.fs.invalidate_cache()
        return bool(self.fs.exists(self.at(name)))

    def read(self, name: str) -> bytes | None:
        """The contents of a file; ``None`` where there is none."""
        try:
            return bytes(self.fs.cat_file(self.at(name)))
        except FileNotFoundError:
            return None

    def read_json(self, name: str) -> Any:
        """The contents of a JSON file; ``None`` where there is none, or not a whole one."""
        data = self.read(name)
        try:
            return None if data is None else json.loads(data)
        except ValueError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Writes a file; a local one takes its name when it is complete."""
        path = self.at(name)
        self.fs.makedirs(os.path.dirname(path), exist_ok=True)
        if self.is_local:
            part = f"{path}{PART}{uuid.uuid4().hex[:8]}"
            Path(part).write_bytes(data)
            os.replace(part, path)
        else:
            self.fs.pipe_file(path, data)

    def write_json(self, name: str, value: Any) -> None:
        """Writes a JSON file, as :meth:`write` does."""
        self.write(name, (json.dumps(value, indent=2) + "\n").encode())

    def remove(self, name: str) -> None:
        """Removes a folder with all below it, if it is there."""
        if self.exists(name):
            self.fs.rm(self.at(name), recursive=True)

    def find(self) -> dict[str, dict[str, Any]]:
        """All files below the folder, by their names relative to it, sorted."""
        self.fs.invalidate_cache()
        found = self.fs.find(self.path, detail=True)
        start = len(self.path.rstrip("/")) + 1
        # Of what is no folder, or an empty one, some file systems give the path itself.
        return {path[start:]: about for path, about in sorted(found.items()) if path[start:]}

    def fetch(self, name: str, to: Path) -> Path:
        """A local copy of a file or folder; of a local one, itself."""
        if self.is_local:
            return self.local(name)
        copy = to / Path(self.at(name)).name
        if self.fs.isdir(self.at(name)):
            for path in self.fs.find(self.at(name)):
                target = copy / path[len(self.at(name)) + 1 :]
                target.parent.mkdir(parents=True, exist_ok=True)
                self.fs.get_file(path, str(target))
        else:
            self.fs.get_file(self.at(name), str(copy))
        return copy

    def commit(self, folder: Path, name: str, last: str) -> None:
        """Puts a local folder in place of what has the name; the file ``last`` is there when all
        are.

        A local folder is renamed. In a store the files are copied one by one, ``last`` at the
        end.
        """
        if not self.is_local:
            self.remove(name)
            files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
            files.sort(key=lambda path: path == folder / last)
            for path in files:
                self.fs.makedirs(os.path.dirname(self.at(name)), exist_ok=True)
                self.fs.put_file(str(path), self.at(f"{name}/{path.relative_to(folder)}"))
            return
        target = self.local(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                folder.rename(target)
                return
            except OSError:
                # What is there is of another key, of another attempt that ended first, or the
                # slices of an earlier plan.
                if not target.exists():
                    raise
                old = target.with_name(f"{target.name}{PART}{uuid.uuid4().hex[:8]}")
                try:
                    target.rename(old)
                except FileNotFoundError:
                    continue
                shutil.rmtree(old, ignore_errors=True)

    def sweep(self) -> list[str]:
        """Removes what attempts left that died, and names it."""
        if not self.is_local or not Path(self.path).is_dir():
            return []
        ours = re.compile(re.escape(PART) + "[0-9a-f]{8}$")
        left = [path for path in sorted(Path(self.path).rglob(f"*{PART}*")) if ours.search(path.name)]
        names = []
        for path in left:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.exists():
                path.unlink(missing_ok=True)
            else:
                continue
            names.append(str(path.relative_to(self.path)))
        return names

    def identity(self, name: str, about: dict[str, Any]) -> str:
        """What changes when a file does: its size with its version or hash where the store has
        one, else with the hash of its end. Recordings are not read whole for it."""
        size = about.get("size") or 0
        for key in ("VersionId", "ETag", "etag", "generation", "md5Hash", "content_md5"):
            if value := about.get(key):
                return f"{size}:{key}:{value}"
        tail = self.fs.cat_file(self.at(name), start=max(0, size - TAIL_BYTES), end=size)
        return f"{size}:tail:{hashlib.sha256(tail).hexdigest()}"


def _protocols(fs: Any) -> tuple[str, ...]:
    protocol = fs.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def iterate_json_lines(data: bytes) -> Iterator[Any]:
    """The values of a file of JSON lines."""
    for line in data.splitlines():
        if line.strip():
            yield json.loads(line)
