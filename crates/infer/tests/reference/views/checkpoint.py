#!/usr/bin/env python3
"""Writes the tensors of a safetensors file as a checkpoint with a prefix and with
tensors that detection does not use.

    checkpoint.py decoder.safetensors model.pth PREFIX UNUSED...
"""

import json
import struct
import sys

import torch

source, out, prefix, *unused = sys.argv[1:]
with open(source, "rb") as file:
    (length,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(length))
    data = file.read()
state = {"img_backbone.conv1.weight": torch.ones(2, 3)}
for name, entry in header.items():
    begin, end = entry["data_offsets"]
    values = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32)
    state[prefix + name] = values.reshape(entry["shape"])
for name in unused:
    state[prefix + name] = torch.ones(7, 3)
torch.save({"state_dict": state, "meta": {"epoch": 3}}, out)
