"""Writes a network as ONNX, its batch normalisations folded away."""

from pathlib import Path

import onnx
import torch
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


def export(
    network: nn.Module,
    example: torch.Tensor,
    path: Path,
    input_name: str,
    output_names: list[str],
    dynamic_rows: bool = False,
) -> None:
    """Writes `network` for inputs like `example` to `path` and checks the file."""
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
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
