#!/usr/bin/env python3
"""View decoders of `det_post bench views` beside the same layers in PyTorch, on one GPU in one run.

    python3 benches/peers/views_torch.py [PART] [--program PROGRAM] [--modes graph compiled]

Medians of the wall time in microseconds, from feature maps in place to the result on the host, of the
cases with PART in their name. Without --program, `cargo build --release` makes det_post. Modes of
PyTorch are those of `frame_of` in torch_frames.py; int8 maps have no peer. The ratio is that of the fastest mode.
Needs PyTorch and a GPU, and is skipped without. Exit status 1 when a mode fails or is faster.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODES = ["eager", "graph", "compiled", "whole"]


def build():
    command = ["cargo", "build", "--release", "--bin", "det_post", "--message-format=json"]
    lines = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    programs = [json.loads(line).get("executable") for line in lines.splitlines()]
    return next(filter(None, programs))


def det_post_us(program, part):
    """Medians of the wall time by the name of the case, without the first word of `part`."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.json"
        command = [program, "bench", "--device", "cuda:0", "--json", figures, part]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows = json.loads(figures.read_text())["rows"]
    return {row["case"].removeprefix(part.split()[0]).lstrip(": "): row["wall_us"]["p50"] for row in rows}


def peer_us(make_decoder, element, mode):
    """The median of a mode; None when it fails, which is said."""
    from torch_frames import median_us

    try:
        return median_us(make_decoder, element, mode)
    except Exception as error:
        print(f"{mode}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
        return None


def measure(name, make_decoder, element, modes, ours):
    """Prints a row, and returns whether all modes ran and none is faster."""
    case = f"{name}, 6 cameras {element}"
    peers = [peer_us(make_decoder, element, mode) for mode in modes]
    shown = "".join(f"{'failed' if peer is None else f'{peer:.1f}':>10}" for peer in peers)
    times = [peer for peer in peers if peer is not None]
    ratio = min(times) / ours[case] if times else float("nan")
    print(f"{case:<70}{ours[case]:>10.1f}{shown}{ratio:>8.2f}", flush=True)
    return None not in peers and ratio >= 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--program", type=Path)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["graph", "compiled"])
    args = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: needs PyTorch")
        return 0
    if not torch.cuda.is_available():
        print("skipped: needs a GPU")
        return 0

    import detr3d_torch
    import sparse4d_torch
    from torch_frames import ELEMENTS

    program, holds = args.program or build(), True
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}; us, medians")
    print(f"{'':<70}{'det_post':>10}{''.join(f'{mode:>10}' for mode in args.modes)}{'ratio':>8}", flush=True)
    for family, peer in [("detr3d", detr3d_torch), ("sparse4d", sparse4d_torch)]:
        rows = [
            (name, decoder, element)
            for name, decoder in peer.cases()
            for element in ELEMENTS
            if args.part in f"{name}, 6 cameras {element}"
        ]
        ours = det_post_us(program, f"views {family}") if rows else {}
        for name, decoder, element in rows:
            holds &= measure(name, decoder, element, args.modes, ours)
        for case in ours:
            if case.endswith("int8 maps") and args.part in case:
                print(f"{case:<70}{ours[case]:>10.1f}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
