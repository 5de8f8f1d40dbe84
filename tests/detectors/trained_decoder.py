#!/usr/bin/env python3
"""Writes a random network of training/view_network.py as a checkpoint, and what torch
computes with its decoder in f64 over three frames.

    trained_decoder.py model.pth reference.safetensors
"""

import sys
from pathlib import Path

import numpy as np
import torch

root = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(root / "training"), str(root / "tools")]
import export_view_decoder  # noqa: E402
import view_network as net  # noqa: E402

checkpoint, reference = sys.argv[1:]
torch.manual_seed(3)
anchors = torch.randn(net.NUM_ANCHORS, net.NUM_COLUMNS) * torch.tensor(
    [25.0, 25.0, 0.5, 0.4, 0.3, 0.3, 1.0, 1.0, 2.0, 2.0, 0.0]
)
decoder = net.Decoder(anchors)
with torch.no_grad():
    for name, values in decoder.named_parameters():
        # Nothing stays zero or small; norms keep their factors near 1.
        if values.dim() > 1:
            values.normal_(std=values.shape[1] ** -0.5)
        elif "scale" not in name:
            values.add_(torch.randn_like(values) * 0.1)
parts = {"backbone": net.Backbone(), "head": decoder}
state = {f"{part}.{k}": v for part, module in parts.items() for k, v in module.state_dict().items()}
torch.save({"state_dict": state}, checkpoint)

# Six cameras around a rig, a pinhole each.
angle = torch.arange(net.NUM_CAMERAS) * torch.pi / 3
zero, one = torch.zeros_like(angle), torch.ones_like(angle)
axes = [angle.sin(), -angle.cos(), zero, zero, zero, -one, angle.cos(), angle.sin(), zero]
turn = torch.stack(axes, 1).view(-1, 3, 3)
place = torch.stack([1 + angle.cos() / 2, angle.sin() / 2, one * 1.6], 1)[..., None]
pinhole = torch.tensor([[450.0, 0.0, 319.5], [0.0, 450.0, 171.5], [0.0, 0.0, 1.0]])
matrices = pinhole @ torch.cat([turn, -turn @ place], dim=2)

last_row = torch.tensor([0.0, 0.0, 0.0, 1.0]).expand(net.NUM_CAMERAS, 1, 4)
tensors = {"matrices": torch.cat([matrices, last_row], dim=1)}
tensors["image_wh"] = torch.tensor([[640.0, 352.0]]).repeat(net.NUM_CAMERAS, 1)
decoder, memory = decoder.double().eval(), None
step = torch.tensor([[0.999, -0.04, -1.2], [0.04, 0.999, 0.1], [0.0, 0.0, 1.0]])
with torch.no_grad():
    for frame in range(3):
        maps = []
        for level, stride in enumerate(net.STRIDES):
            rows, columns = net.HEIGHT // stride, net.WIDTH // stride
            coarse = torch.randn(net.NUM_CAMERAS, net.CHANNELS, 6, 11)
            fine = torch.nn.functional.interpolate(
                coarse, (rows, columns), mode="bilinear", align_corners=False
            )
            maps.append(fine)
            tensors[f"frame{frame}.features.{level}"] = fine
        if memory is not None:
            memory = memory.moved(step[None].double(), torch.tensor([0.3]).double())
        maps = [x.double() for x in maps]
        outputs, memory = decoder(maps, matrices[None].double(), memory)
        logits, boxes = outputs[-1]
        tensors[f"frame{frame}.logits"], tensors[f"frame{frame}.boxes"] = logits[0], boxes[0]
        tensors[f"frame{frame}.confidence"] = memory.confidence[0]
tensors["current_from_past"] = step
arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
export_view_decoder.write_safetensors(reference, arrays, np.float32)
