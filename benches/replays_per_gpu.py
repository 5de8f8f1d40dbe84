#!/usr/bin/env python3
"""How many replays a GPU carries: frames a second and memory of k replays side by side.

    benches/replays_per_gpu.py RECORDING --config FILE [--device cuda:0] [--replays 1 2 4 8]

Each replay is a separate process, as in a fleet. The time to open its networks is measured by replays
that end `--start-up` seconds into the recording, and taken off; the whole of a process is given beside.
Memory of the GPU is what nvidia-smi shows above what was used before, of the host the sum of the largest
resident sizes. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path


def gpu_memory_mib(gpu: str) -> int:
    query = ["nvidia-smi", "-i", gpu, "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        return int(subprocess.run(query, capture_output=True, check=True, text=True).stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return 0


class LargestGpuMemory:
    """The most memory of a GPU in use while the block runs."""

    def __init__(self, gpu: str) -> None:
        self.gpu, self.largest, self.ended = gpu, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self) -> None:
        while not self.ended.wait(0.2):
            self.largest = max(self.largest, gpu_memory_mib(self.gpu))

    def __enter__(self) -> LargestGpuMemory:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()


def replays(command: list[str], num: int, out: Path) -> tuple[float, int, int]:
    """Seconds until all of `num` processes have ended, their frames and resident MiB."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    started = time.monotonic()
    children = []
    for index in range(num):
        with open(out / f"{index}.log", "wb") as log:
            arguments = [*command, "--out", str(out / str(index))]
            children.append(subprocess.Popen(arguments, stdout=log, stderr=log))
    resident = 0
    for index, child in enumerate(children):
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        resident += usage.ru_maxrss // 1024
        if child.returncode != 0:
            sys.exit(f"replay {index} of {num}: exit code {child.returncode}\n"
                     + (out / f"{index}.log").read_text()[-2000:])
    seconds = time.monotonic() - started
    reports = [json.loads((out / str(i) / "report.json").read_text()) for i in range(num)]
    frames = sum(c["frames_out"] for report in reports for c in report["channels"].values())
    return seconds, frames, resident


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording")
    parser.add_argument("--config", required=True, action="append")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--replays", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--start-up", type=float, default=0.5, help="seconds of the recording")
    parser.add_argument("--program", default="det_post")
    parser.add_argument("-p", "--param", action="append", default=[])
    options = parser.parse_args()
    command = [options.program, "replay", options.recording, "--device", options.device]
    for path in options.config:
        command += ["--config", path]
    for param in options.param:
        command += ["-p", param]
    gpu = options.device.rpartition(":")[2]
    print("| replays | frames/s | of one | whole process, frames/s | start-up, s | GPU MiB | host MiB |")
    print("|---|---|---|---|---|---|---|", flush=True)
    rate_of_one = None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        # Once for the caches of the disk and the driver.
        replays(command, 1, out)
        before = gpu_memory_mib(gpu)
        for num in options.replays:
            short = replays([*command, "--to", f"+{options.start_up}"], num, out)
            with LargestGpuMemory(gpu) as memory:
                whole = replays(command, num, out)
            seconds, frames = whole[0] - short[0], whole[1] - short[1]
            rate = frames / seconds if seconds > 0 else float("nan")
            rate_of_one = rate_of_one or rate / num
            print(f"| {num} | {rate:.0f} | {rate / rate_of_one:.2f} | {whole[1] / whole[0]:.0f} | "
                  f"{short[0]:.1f} | {memory.largest - before} | {whole[2]} |", flush=True)


if __name__ == "__main__":
    main()
