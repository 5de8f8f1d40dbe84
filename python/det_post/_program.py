"""Finds the program and the library of ONNX Runtime, and runs commands."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ._errors import Error, of_exit_code

__all__ = ["Completed", "environment", "main", "onnxruntime_library", "path", "run"]

PROGRAM_VARIABLE = "DET_POST_PROGRAM"
LIBRARY_VARIABLE = "ORT_DYLIB_PATH"


def path() -> Path:
    """The path of the program ``det_post``.

    The one that the environment variable ``DET_POST_PROGRAM`` names; else the one that was installed with
    this package; else the first one on ``PATH``.

    Raises :class:`Error` when there is none.
    """
    if named := os.environ.get(PROGRAM_VARIABLE):
        return Path(named)
    schemes = [sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")]
    for scheme in schemes:
        program = Path(sysconfig.get_path("scripts", scheme)) / "det_post"
        if program.is_file():
            return program
    if found := shutil.which("det_post"):
        return Path(found)
    raise Error(
        f"the program det_post is not beside {sys.executable}, nor on PATH: install det-post, or "
        f"name the program in {PROGRAM_VARIABLE}"
    )


def onnxruntime_library() -> Path | None:
    """The library of the installed ``onnxruntime`` or ``onnxruntime-gpu``, without importing it.

    ``None`` where neither is installed.
    """
    try:
        spec = importlib.util.find_spec("onnxruntime")
    except (ImportError, ValueError):
        return None
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or []:
        if libraries := sorted(Path(folder, "capi").glob("libonnxruntime.so*")):
            return libraries[0]
    return None


def environment(onnxruntime: bool | str | os.PathLike[str] = True) -> dict[str, str]:
    """The environment in which a command runs: this process's, with the library of ONNX Runtime.

    ``onnxruntime``: ``True`` takes the library that ``ORT_DYLIB_PATH`` names, else the one
    of an installed package, else none; ``False`` takes none, so that networks run on rten; a path is
    the library itself. Beside a library that has the CUDA provider, ``LD_LIBRARY_PATH`` gains
    the folders of CUDA's and cuDNN's libraries that pip has installed.
    """
    result = dict(os.environ)
    library: str | None
    if onnxruntime is False:
        library = None
    elif onnxruntime is True:
        installed = onnxruntime_library()
        library = result.get(LIBRARY_VARIABLE) or (str(installed) if installed else None)
    else:
        library = os.fspath(onnxruntime)
    result.pop(LIBRARY_VARIABLE, None)
    if library is None:
        return result
    result[LIBRARY_VARIABLE] = library
    folder = Path(library).parent
    if (folder / "libonnxruntime_providers_cuda.so").is_file():
        # capi/ is in onnxruntime/, which is beside nvidia/ in site-packages.
        libraries = sorted(map(str, (folder.parent.parent / "nvidia").glob("*/lib")))
        present = result.get("LD_LIBRARY_PATH")
        result["LD_LIBRARY_PATH"] = ":".join(libraries + ([present] if present else []))
    return result


@dataclass(frozen=True)
class Completed:
    """A command that ended with exit code 0 or, where it was allowed, 3."""

    exit_code: int
    stdout: str
    log: str


def run(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    onnxruntime: bool | str | os.PathLike[str] = True,
    show_log: bool = False,
) -> Completed:
    """Runs a command of the program to its end.

    ``show_log`` passes the log on to this process's stderr while the command runs. The
    interpreter's lock is free meanwhile; an exception that arrives in this thread, such as
    ``KeyboardInterrupt``, ends the command with SIGTERM and goes on when it has ended.

    Raises the exception of the exit code, except for 3, which is returned.
    """
    command = [str(path()), *(os.fspath(argument) for argument in arguments)]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment(onnxruntime),
        )
    except OSError as cause:
        raise Error(f"cannot start {command[0]}: {cause.strerror}") from cause
    assert process.stdout is not None and process.stderr is not None
    log: list[str] = []
    reader = threading.Thread(target=_read_log, args=(process.stderr, log, show_log))
    reader.start()
    try:
        stdout = process.stdout.read()
        exit_code = process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    finally:
        reader.join()
        process.stdout.close()
        process.stderr.close()
    if exit_code not in (0, 3):
        raise of_exit_code(exit_code, "".join(log))
    return Completed(exit_code, stdout, "".join(log))


def _read_log(stream: IO[str], log: list[str], show: bool) -> None:
    for line in stream:
        log.append(line)
        if show:
            sys.stderr.write(line)


def main() -> None:
    """``python -m det_post``: becomes the program, with the arguments of this process."""
    try:
        program = path()
    except Error as error:
        sys.exit(str(error))
    os.execve(program, [str(program), *sys.argv[1:]], environment())
