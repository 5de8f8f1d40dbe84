"""Folders of recordings and results: local ones and fsspec's."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec

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

    def fault(self, name: str) -> str | None:
        """Why a local file cannot be read as one: opening a pipe would wait for ever."""
        if not self.is_local:
            return None
        try:
            mode = os.stat(self.at(name)).st_mode
        except FileNotFoundError:
            return "is a link to nothing" if os.path.islink(self.at(name)) else "no longer exists"
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        return None if stat.S_ISREG(mode) else "is not a regular file"

    def real(self, name: str = "") -> str:
        """The path of a name with links resolved, to compare paths of one file system."""
        return os.path.realpath(self.at(name)) if self.is_local else self.at(name)

    def shares_names_with(self, other: Store) -> bool:
        """Whether equal paths mean the same file in both."""
        return (self.is_local and other.is_local) or self.fs == other.fs

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

    def find(self, name: str = "") -> dict[str, dict[str, Any]]:
        """All files below the folder, or one of its folders, by their names relative to it, sorted."""
        self.fs.invalidate_cache()
        found = self.fs.find(self.at(name), detail=True)
        start = len(self.path.rstrip("/")) + 1
        # Of what is no folder, or an empty one, some file systems give the path itself.
        return {path[start:]: about for path, about in sorted(found.items()) if path[start:] != name}

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
