"""Writes a network as ONNX, its batch normalisations folded away."""

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval


def fold(module: nn.Module) -> None:
    """Folds every batch normalisation into the convolution before it."""
    for child in module.children():
        fold(child)
    if isinstance(module, nn.Sequential):
        layers = list(module)
        for index, (first, second) in enumerate(zip(layers, layers[1:])):
            if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
                module[index] = fuse_conv_bn_eval(first, second)
                module[index + 1] = nn.Identity()


def open_batch(model: onnx.ModelProto) -> None:
    """Opens the first dimension of all inputs and outputs of a network of images.

    Shapes that were exported for one image keep the first dimension (0 in the shape of a Reshape),
    and `flatten(2)` is a Reshape to [0, 0, -1], so that no shape is computed at run time."""
    graph = model.graph
    for value in [*graph.input, *graph.output]:
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    made_by = {output: node for node in graph.node for output in node.output}
    for node in [node for node in graph.node if node.op_type == "Reshape"]:
        shape = made_by[node.input[1]]
        if shape.op_type == "Constant":
            dims = numpy_helper.to_array(shape.attribute[0].t).tolist()
            assert dims[0] == 1, (node.name, dims)
            dims[0] = 0
        else:
            kept, rest = (made_by[name] for name in shape.input)
            assert (shape.op_type, kept.op_type) == ("Concat", "Slice"), node.name
            assert numpy_helper.to_array(rest.attribute[0].t).tolist() == [-1], node.name
            dims = [0, 0, -1]
        value = numpy_helper.from_array(np.array(dims, np.int64))
        constant = helper.make_node("Constant", [], [f"{node.output[0]}_shape"], value=value)
        graph.node.insert(list(graph.node).index(node), constant)
        node.input[1] = constant.output[0]
    while True:
        read = {name for node in graph.node for name in node.input}
        read.update(value.name for value in graph.output)
        unread = [node for node in graph.node if not read.intersection(node.output)]
        if not unread:
            return
        for node in unread:
            graph.node.remove(node)


def halve(path: Path, least: int = 64) -> None:
    """Stores the floating-point constants of a file that have `least` values or more as f16, each
    followed by a Cast to f32: the file is half as large, and everything computes in f32."""
    model = onnx.load(str(path))
    graph, casts = model.graph, []
    for constant in graph.initializer:
        values = numpy_helper.to_array(constant)
        if values.dtype != np.float32 or values.size < least:
            continue
        halves = values.astype(np.float16)
        assert np.isfinite(halves).all(), constant.name
        name = constant.name
        constant.CopyFrom(numpy_helper.from_array(halves, f"{name}_f16"))
        casts.append(helper.make_node("Cast", [f"{name}_f16"], [name], f"{name}_cast", to=onnx.TensorProto.FLOAT))
    for cast in reversed(casts):
        graph.node.insert(0, cast)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def export(
    network: nn.Module,
    example: torch.Tensor,
    path: Path,
    input_name: str,
    output_names: list[str],
    dynamic_rows: bool = False,
    dynamic_batch: bool = False,
) -> None:
    """Writes `network` for inputs like `example` to `path` and checks the file.

    With `dynamic_batch` the first dimension of all inputs and outputs is open."""
    network = network.eval()
    fold(network)
    names = [input_name, *output_names]
    torch.onnx.export(
        network,
        (example,),
        str(path),
        input_names=[input_name],
        output_names=output_names,
        dynamic_axes={name: {0: "num_voxels"} for name in names} if dynamic_rows else None,
        opset_version=17,
        dynamo=False,
    )
    model = onnx.load(str(path))
    # No trace of the machine that wrote it.
    for node in model.graph.node:
        node.doc_string = ""
    if dynamic_batch:
        open_batch(model)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
