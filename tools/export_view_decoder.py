#!/usr/bin/env python3
"""Exports the decoder of a multi-camera detector's checkpoint: its tensors as a file
of safetensors, under the names of the state dict without the prefix that they share.

    export_view_decoder.py model.pth decoder.safetensors [--half]

Read are checkpoints of DETR3D (head `Detr3DHead`) and Sparse4D v3 (head `Sparse4DHead`);
the family follows from the names. Left out are tensors that detection does not use:
class branches before DETR3D's last block and its `code_weights`, and the copy of
`fix_scale` in Sparse4D's instance bank. Printed are the facts that the shapes tell, as
lines for the head's file. The checkpoint is loaded with `weights_only`: nothing in it is
executed. The backbone is exported as ONNX by its own project.

Needs torch.
"""

import argparse
import json
import re
import struct
import sys

import torch

# The tensor that tells a family, and what of it detection does not use.
FAMILIES = {
    "detr3d": ("transformer.decoder.layers.0.attentions.1.attention_weights.weight", r"code_weights"),
    "sparse4d": ("instance_bank.anchor", r"instance_bank\.anchor_handler\.fix_scale"),
}


class ExportError(Exception):
    """A checkpoint that cannot be exported."""


def load_state(path):
    """The tensors of a checkpoint by name, without the prefix of a wrapper."""
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ExportError(
            f"{path} cannot be loaded with weights_only ({str(error).splitlines()[0]}). Save its "
            "state dict only: torch.save({'state_dict': model.state_dict()}, path)"
        ) from error
    if isinstance(checkpoint, dict) and isinstance(checkpoint.get("state_dict"), dict):
        checkpoint = checkpoint["state_dict"]
    if not isinstance(checkpoint, dict):
        raise ExportError(f"{path} holds a {type(checkpoint).__name__}, not a state dict")
    tensors = {k: v for k, v in checkpoint.items() if isinstance(v, torch.Tensor)}
    return {key.removeprefix("module."): value for key, value in tensors.items()}


def find_decoder(state):
    """The family, and its tensors without the prefix."""
    for family, (known, unused) in FAMILIES.items():
        prefixes = [name[: -len(known)] for name in state if name.endswith(known)]
        if len(prefixes) > 1:
            raise ExportError(f"several decoders: {', '.join(prefixes)}")
        if prefixes:
            names = [name for name in state if name.startswith(prefixes[0])]
            tensors = {name[len(prefixes[0]) :]: state[name] for name in names}
            kept = {k: v for k, v in tensors.items() if not re.fullmatch(unused, k)}
            return family, kept
    known = ", ".join(known for known, _ in FAMILIES.values())
    raise ExportError(f"no decoder: none of {known} is in the checkpoint")


def numbers(tensors, pattern):
    """The sorted numbers that a group of a pattern has among the names."""
    found = (re.match(pattern, name) for name in tensors)
    return sorted({int(match[1]) for match in found if match})


def shape_of(tensors, name):
    if name not in tensors:
        raise ExportError(f"no {name} in the checkpoint")
    return tensors[name].shape


def detr3d_facts(tensors):
    last = numbers(tensors, r"transformer\.decoder\.layers\.(\d+)\.")[-1]
    for name in [name for name in tensors if name.startswith("cls_branches.")]:
        if not name.startswith(f"cls_branches.{last}."):
            del tensors[name]
    queries, width = shape_of(tensors, "query_embedding.weight")
    return {"channels": width // 2, "queries": queries, "blocks": last + 1}


def sparse4d_facts(tensors):
    anchors, channels = shape_of(tensors, "instance_bank.instance_feature")
    blocks = numbers(tensors, r"layers\.(\d+)\.weights_fc\.weight")
    # Blocks after the single-frame ones have two attentions.
    num_attentions = len(numbers(tensors, r"layers\.(\d+)\.attn\.in_proj_weight"))
    temporal = num_attentions - (len(blocks) - 1)
    quality = any(".quality_layers." in name for name in tensors)
    return {
        "channels": channels,
        "anchors": anchors,
        "blocks": len(blocks),
        "single_frame_blocks": len(blocks) - temporal,
        "quality": str(quality).lower(),
    }


def write_safetensors(path, tensors, dtype):
    """A file of tensors: the length of the header, the header, the values."""
    header, data, offset = {}, [], 0
    for name in sorted(tensors):
        values = tensors[name].detach().to(dtype).contiguous()
        num = int((~torch.isfinite(values)).sum())
        if num > 0:
            largest = float(tensors[name].detach().abs().max())
            raise ExportError(
                f"{num} of {values.numel()} values of {name} are not finite as {dtype}: of up to {largest:g}"
            )
        raw = values.numpy().tobytes()
        header[name] = {
            "dtype": {torch.float32: "F32", torch.float16: "F16"}[dtype],
            "shape": list(values.shape),
            "data_offsets": [offset, offset + len(raw)],
        }
        data.append(raw)
        offset += len(raw)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("checkpoint")
    parser.add_argument("out")
    parser.add_argument("--half", action="store_true", help="write f16 in place of f32")
    options = parser.parse_args()
    family, tensors = find_decoder(load_state(options.checkpoint))
    facts = {"detr3d": detr3d_facts, "sparse4d": sparse4d_facts}[family](tensors)
    write_safetensors(options.out, tensors, torch.float16 if options.half else torch.float32)
    print(f"kind: {family}")
    print("decoder: {" + ", ".join(f"{key}: {value}" for key, value in facts.items()) + "}")


if __name__ == "__main__":
    try:
        main()
    except (ExportError, OSError) as error:
        sys.exit(f"export_view_decoder.py: {error}")
