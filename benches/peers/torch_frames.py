"""What the view decoders in PyTorch share: cameras, maps, and the wall time of frames.

Six cameras of 736x288 in a ring, 256 channels, four levels, as in `det_post bench views`.
"""

import time

import torch

CHANNELS, CLASSES = 256, 10
WIDTH, HEIGHT = 736, 288
LEVELS = [(36, 92), (18, 46), (9, 23), (5, 12)]
NUM_VIEWS = 6
NUM_RUNS = 300
ELEMENTS = {"f16": torch.float16, "f32": torch.float32}


def ring():
    """Projections of cameras 60 degrees apart, to fractions of the image times depth."""
    yaw = torch.arange(NUM_VIEWS) * (2 * torch.pi / NUM_VIEWS)
    sin, cos, none, one = yaw.sin(), yaw.cos(), torch.zeros(NUM_VIEWS), torch.ones(NUM_VIEWS)
    focal = 0.5 * WIDTH / torch.tan(torch.tensor(35.5) * torch.pi / 180)
    ahead = torch.stack([cos, sin, none, none], 1)
    right = torch.stack([sin, -cos, none, none], 1)
    down = torch.stack([none, none, -one, 1.6 * one], 1)
    rows = [focal / WIDTH * right + 0.5 * ahead, focal / HEIGHT * down + 0.5 * ahead, ahead]
    return torch.stack(rows, 1)


def project(points, projections):
    """Where points [Q, P, 3] are in the views [N, 3, 4]: fractions of the image, and whether they are seen."""
    ones = torch.ones_like(points[..., :1])
    rows = torch.einsum("nij,qpj->nqpi", projections, torch.cat([points, ones], -1))
    depth = rows[..., 2:]
    places = rows[..., :2] / depth.clamp(min=1e-5)
    seen = (depth[..., 0] > 1e-5) & ((places > 0) & (places < 1)).all(-1)
    return places, seen


def median_us(make_decoder, element, mode):
    """The median wall time from maps in place to the result on the host."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.compiler.reset()
    torch.manual_seed(7)
    dtype = ELEMENTS[element]
    decoder = make_decoder().to("cuda").to(dtype).eval()
    decoder.constants = [value.cuda() for value in decoder.constants]
    maps = [torch.randn(NUM_VIEWS, CHANNELS, *level, device="cuda", dtype=dtype) for level in LEVELS]
    maps = [level.contiguous(memory_format=torch.channels_last) for level in maps]
    with torch.inference_mode():
        run = frame_of(decoder, maps, mode)
        host = torch.empty(run().shape, pin_memory=True)
        times = []
        for _ in range(NUM_RUNS):
            torch.cuda.synchronize()
            start = time.perf_counter()
            host.copy_(run(), non_blocking=True)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
    times = sorted(times[NUM_RUNS // 3 :])
    assert host.isfinite().all()
    return 1e6 * times[len(times) // 2]


def frame_of(decoder, maps, mode):
    """A function that queues a frame and returns its result on the GPU.

    Modes: `eager`, launch by launch; `graph`, these launches as one CUDA graph; `compiled`, its blocks
    compiled, in one CUDA graph (they share their code, which is compiled once); `whole`, compiled in one
    piece, which takes minutes, with the CUDA graphs of torch.compile. A decoder returns its result and
    what it keeps for the next frame.
    """
    if mode == "whole":
        compiled = torch.compile(decoder, mode="reduce-overhead", fullgraph=True)
        return lambda: compiled(maps)[0]
    if mode == "eager":
        return lambda: decoder(maps)[0]
    if mode == "compiled":
        for part in decoder.parts():
            part.compile(fullgraph=True, dynamic=False)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            decoder(maps)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result, _kept = decoder(maps)

    def replay():
        graph.replay()
        return result

    return replay
