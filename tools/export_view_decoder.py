#!/usr/bin/env python3
"""Exports the decoder of a multi-camera detector's checkpoint: its tensors as a file
of safetensors, under the names of the state dict without the prefix that they share.

    export_view_decoder.py model.pth decoder.safetensors [--half]
    export_view_decoder.py model.onnx decoder.safetensors [--half] [--names FILE]

Read are checkpoints of DETR3D (head `Detr3DHead`) and Sparse4D v3 (head `Sparse4DHead`);
the family follows from the names. Left out are tensors that detection does not use:
class branches before DETR3D's last block and its `code_weights`, and the copy of
`fix_scale` in Sparse4D's instance bank. Printed are the facts that the shapes tell, as
lines for the head's file. The checkpoint is loaded with `weights_only`: nothing in it is
executed. The backbone is exported as ONNX by its own project.

Of an ONNX file the node `SvTransformerDecoder` is read, a DETR3D as a plugin of TensorRT: its
attributes (tensors, or lists of floats in the order of torch) and initializers, under the names of
`crates/infer/src/view_decoder/sv_transformer_names.txt`. `--names` is a file of lines of two words,
a name in the ONNX file and one of the state dict.

Needs torch for checkpoints, onnx for ONNX files.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import struct
import sys
from pathlib import Path

import numpy as np

# The tensor that tells a family, and what of it detection does not use.
FAMILIES = {
    "detr3d": ("transformer.decoder.layers.0.attentions.1.attention_weights.weight", r"code_weights"),
    "sparse4d": ("instance_bank.anchor", r"instance_bank\.anchor_handler\.fix_scale"),
}


class ExportError(Exception):
    """A checkpoint that cannot be exported."""


def load_state(path):
    """The tensors of a checkpoint by name, without the prefix of a wrapper."""
    import torch

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
    arrays = {key: value.detach().float().numpy() for key, value in tensors.items()}
    return {key.removeprefix("module."): value for key, value in arrays.items()}


NODE = "SvTransformerDecoder"
NAMES = Path(__file__).parent.parent / "crates/infer/src/view_decoder/sv_transformer_names.txt"
CONSTANTS = ("query", "query_pos", "reference_points")


def load_node(path):
    """The tensors of the node by their names, and its attributes of one integer."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(path).graph
    nodes = [node for node in graph.node if node.op_type == NODE]
    if len(nodes) != 1:
        raise ExportError(f"{path} has {len(nodes)} nodes {NODE}; one is read")
    tensors, settings = {}, {}
    for attribute in nodes[0].attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if attribute.type == onnx.AttributeProto.FLOATS:
            tensors[attribute.name] = np.asarray(value, np.float32)
        elif attribute.type == onnx.AttributeProto.TENSOR:
            tensors[attribute.name] = numpy_helper.to_array(value).astype(np.float32)
        elif attribute.type == onnx.AttributeProto.INT:
            settings[attribute.name] = value
    inputs = set(nodes[0].input)
    for constant in graph.initializer:
        if constant.name in inputs:
            tensors[constant.name] = numpy_helper.to_array(constant).astype(np.float32)
    return tensors, settings


def modules():
    """Of every path that the file of names allows and whether it is of a block, its module."""
    found = {}
    for line in NAMES.read_text().splitlines():
        if line and not line.startswith("#"):
            of, module, *parts = line.split()
            for path in itertools.product(*(part.split("|") for part in parts)):
                found[of == "block", ".".join(path)] = module
    return found


def parts_of(name):
    """The block of a name, the path of its module, and `weight` or `bias` or nothing."""
    *parts, end = name.replace("__", ".").replace("in_proj_", "in_proj.").split(".")
    if end not in ("weight", "bias"):
        parts, end = [*parts, end], None
    elif parts and parts[-1] in ("fc", "linear"):
        parts.pop()
    for at, part in enumerate(parts):
        if match := re.fullmatch(r"block_(\d+)", part):
            return int(match[1]), ".".join(parts[at + 1 :]), end
    return None, ".".join(parts), end


def standard_name(name, known, first_block, last_block):
    """The name in the state dict, `None` for what is not used, or an empty text for an unknown one."""
    block, path, end = parts_of(name)
    if block is None and end is None:
        return path if path in CONSTANTS else ""
    if end is None:
        return ""
    module = known.get((block is not None, path))
    if module is None and block is not None and known.get((False, path), "").startswith("cls."):
        if block != last_block:
            return None
        module, block = known[False, path], None
    if module is None:
        return ""
    if block is None:
        prefix = f"cls_branches.{last_block - first_block}." if module.startswith("cls.") else ""
        return f"{prefix}{module.removeprefix('cls.')}.{end}"
    block -= first_block
    if module.startswith("reg."):
        return f"reg_branches.{block}.{module.removeprefix('reg.')}.{end}"
    dot = "_" if module.endswith("in_proj") else "."
    return f"transformer.decoder.layers.{block}.{module}{dot}{end}"


def node_state(tensors, settings, given):
    """DETR3D's state dict of the tensors of a node."""
    known = modules()
    blocks = [block for block in (parts_of(name)[0] for name in tensors) if block is not None]
    if not blocks:
        raise ExportError(f"{NODE} has no tensors of blocks")
    names = {name: given.get(name, standard_name(name, known, min(blocks), max(blocks))) for name in tensors}
    unknown = [name for name, standard in names.items() if standard == ""]
    if unknown:
        raise ExportError(f"unknown names: {', '.join(sorted(unknown)[:8])}; see {NAMES.name}, or give --names")
    state = {standard: tensors[name] for name, standard in names.items() if standard is not None}
    if len(state) != sum(standard is not None for standard in names.values()):
        raise ExportError("two tensors have one name")
    for first in [name for name in state if "in_proj/0." in name]:
        parts = [first.replace("in_proj/0.", f"in_proj/{index}.") for index in range(3)]
        if missing := [part for part in parts if part not in state]:
            raise ExportError(f"{NODE} has no {missing[0]}")
        state[first.replace("in_proj/0.", "in_proj_")] = np.concatenate([state.pop(part).ravel() for part in parts])
    queries = next((settings[key] for key in ("seq_len", "num_query", "num_queries") if key in settings), None)
    for name, values in state.items():
        state[name] = shaped(name, values, state, queries)
    if "query" in state and "query_pos" in state:
        pair = [state.pop("query_pos"), state.pop("query")]
        state["query_embedding.weight"] = np.concatenate(pair, axis=1)
    return state


def shaped(name, values, state, queries):
    """Values without leading dimensions of 1; values of a list in the shape that follows from its length."""
    while values.ndim > 2 and values.shape[0] == 1:
        values = values[0]
    norm = r"\.norms\.|\.position_encoder\.[14]\.|^cls_branches\.\d+\.[14]\."
    if values.ndim != 1 or name.endswith("bias") or re.search(norm, name):
        return values
    bias = state.get(name.removesuffix("weight") + "bias")
    rows = len(bias) if name.endswith("weight") and bias is not None else queries
    if not rows or len(values) % rows:
        raise ExportError(f"{len(values)} values of {name} do not fill {rows} rows")
    return values.reshape(rows, -1)


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
        with np.errstate(over="ignore"):
            values = np.ascontiguousarray(tensors[name], dtype)
        num = int((~np.isfinite(values)).sum())
        if num > 0:
            largest = float(np.abs(tensors[name]).max())
            raise ExportError(
                f"{num} of {values.size} values of {name} are not finite as {np.dtype(dtype)}: of up to {largest:g}"
            )
        raw = values.tobytes()
        header[name] = {
            "dtype": {"float32": "F32", "float16": "F16"}[np.dtype(dtype).name],
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
    parser.add_argument("--names", help="names in an ONNX file and in the state dict, two words a line")
    options = parser.parse_args()
    if options.checkpoint.endswith(".onnx"):
        lines = Path(options.names).read_text().splitlines() if options.names else []
        tensors, settings = load_node(options.checkpoint)
        family, tensors = "detr3d", node_state(tensors, settings, dict(line.split() for line in lines if line.strip()))
        # What the node computes: its attention is added to content and position.
        facts = {**detr3d_facts(tensors), "attention_residual": "query_with_position", "min_depth_m": 0.01}
    else:
        family, tensors = find_decoder(load_state(options.checkpoint))
        facts = {"detr3d": detr3d_facts, "sparse4d": sparse4d_facts}[family](tensors)
    write_safetensors(options.out, tensors, np.float16 if options.half else np.float32)
    print(f"kind: {family}")
    print("decoder: {" + ", ".join(f"{key}: {value}" for key, value in facts.items()) + "}")


if __name__ == "__main__":
    try:
        main()
    except (ExportError, OSError) as error:
        sys.exit(f"export_view_decoder.py: {error}")
