"""Writes a checkpoint of train_view.py as the backbone (ONNX) and the decoder
(safetensors, f16) that det_post serves.

    python export_view.py view.pth ../models
"""

import argparse
import hashlib
import sys
from pathlib import Path

import numpy as np
import torch

import view_network as net
from export import export

sys.path.append(str(Path(__file__).parents[1] / "tools"))
import export_view_decoder  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    state = export_view_decoder.load_state(args.checkpoint)
    prefix = "backbone."
    backbone = net.Backbone()
    of_backbone = {k.removeprefix(prefix): torch.from_numpy(v) for k, v in state.items() if k.startswith(prefix)}
    backbone.load_state_dict(of_backbone)
    example = torch.zeros(net.NUM_CAMERAS, 3, net.HEIGHT, net.WIDTH)
    onnx, weights = args.out / "surround_backbone.onnx", args.out / "surround_decoder.safetensors"
    outputs = [f"map_{stride}" for stride in net.STRIDES]
    export(net.ExportedBackbone(backbone), example, onnx, "images", outputs)
    _, decoder = export_view_decoder.find_decoder(state)
    export_view_decoder.write_safetensors(weights, decoder, np.float16)
    for path in (onnx, weights):
        print(path.name, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
