"""Streams of x264 and their pictures by FFmpeg's decoder.

video.py FOLDER writes for each case NAME.N.packet, the Nth packet with start codes, and NAME.N.planes, the picture
of the same time as planes of 4:2:0; to cases.json names, numbers of packets and whether there are B frames.
"""

import fractions
import json
import pathlib
import sys

import av
import numpy as np

SIZE = (208, 120)
NUM_PICTURES = 40
CASES = {
    "baseline": {"profile": "baseline"},
    "main": {"profile": "main", "bf": "0"},
    "high": {"profile": "high", "bf": "0"},
    "references": {"profile": "high", "bf": "0", "refs": "5"},
    "slices": {"profile": "high", "bf": "0", "slices": "4"},
    "fine": {"profile": "high", "bf": "0", "crf": "4", "preset": "slower"},
    "coarse": {"profile": "main", "bf": "0", "crf": "45", "preset": "ultrafast"},
    "zerolatency": {"tune": "zerolatency"},
    "long": {"profile": "high", "bf": "0", "refs": "4", "g": "250"},
    "long_main": {"profile": "main", "bf": "0", "refs": "4", "g": "250"},
    "b_frames": {"profile": "high", "bf": "2", "b-pyramid": "none"},
}

random = np.random.default_rng(44)
folder = pathlib.Path(sys.argv[1])


def pictures():
    """Planes of pictures with noise, edges and motion."""
    width, height = SIZE
    noise = random.integers(0, 24, (height * 3 // 2, width), np.uint8)
    for number in range(NUM_PICTURES):
        planes = noise + np.uint8(80)
        planes[20:60, 5 * number : 5 * number + 40] = 220
        planes[height:, 3 * number : 3 * number + 20] += np.uint8(60)
        yield planes


def packets_of(options):
    """Packets of the pictures, with their times of presentation."""
    encoder = av.CodecContext.create("libx264", "w")
    encoder.width, encoder.height = SIZE
    encoder.pix_fmt = "yuv420p"
    encoder.time_base = fractions.Fraction(1, 10)
    encoder.options = {"g": "8", "keyint_min": "8", "sc_threshold": "0", "threads": "1", **options}
    packets = []
    for number, planes in enumerate(pictures()):
        frame = av.VideoFrame.from_ndarray(planes, format="yuv420p")
        frame.pts = number
        packets += encoder.encode(frame)
    packets += encoder.encode(None)
    return [(packet.pts, bytes(packet)) for packet in packets]


def planes_of(packets):
    """Planes of the pictures of packets, by their times of presentation."""
    decoder = av.CodecContext.create("h264", "r")
    frames = []
    for pts, data in packets:
        packet = av.Packet(data)
        packet.pts = pts
        frames += decoder.decode(packet)
    frames += decoder.decode(None)
    return {frame.pts: frame.to_ndarray(format="yuv420p").tobytes() for frame in frames}


cases = []
for name, options in CASES.items():
    packets = packets_of(options)
    planes = planes_of(packets)
    assert len(packets) == len(planes) == NUM_PICTURES, (name, len(packets), len(planes))
    for number, (pts, data) in enumerate(packets):
        (folder / f"{name}.{number}.packet").write_bytes(data)
        (folder / f"{name}.{number}.planes").write_bytes(planes[pts])
    cases.append({"name": name, "num": len(packets), "has_b_frames": name == "b_frames"})
(folder / "cases.json").write_text(json.dumps(cases))
