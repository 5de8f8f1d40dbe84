"""The times of the two sides of a comparison: a bench of det_post, and a call of the peer."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


def bench_binary(name):
    """Builds a bench and returns the path of its program."""
    command = ["cargo", "bench", "--bench", name, "--no-run", "--message-format=json"]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in lines.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == name:
            return message["executable"]
    sys.exit(f"cargo built no bench called {name}")


def criterion_ms(binary, cases, warm_up_s, **environment):
    """Criterion's medians in milliseconds of the cases that contain a text, by the name behind the group."""
    with tempfile.TemporaryDirectory() as home:
        command = [binary, "--bench", cases, "--noplot", "--warm-up-time", str(warm_up_s)]
        command += ["--measurement-time", "1", "--sample-size", "20"]
        environment = dict(os.environ, CRITERION_HOME=home, **environment)
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        found = pathlib.Path(home).glob("**/new/estimates.json")
        return {path.parts[-3]: json.loads(path.read_text())["median"]["point_estimate"] / 1e6
                for path in found}


def median_ms(call, seconds):
    """The median time of a call in milliseconds, over some seconds."""
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3
