"""Writes the operator test vectors of the package onnx, and a few networks more, to a folder.

    python onnx_vectors.py FOLDER

Each vector becomes one or two networks, NAME.onnx and NAME.constants.onnx: the second has every tensor but
the first as a constant, as networks hold shapes, axes and weights. The networks more are what the package has no vector for;
ONNX Runtime gives their values, and each says whether it is to be equal or refused. Tensors of 8 bits enter and leave as int32, since engines
take no others. `index.json` lists the networks; `data.bin` holds what they read and are to give: float32 and int32,
into which the built-in engine turns the other types. An integer that int32 cannot hold becomes a float in the expected
values, so that no answer equals it.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.reference import ReferenceEvaluator

FOLDER = Path(sys.argv[1])
EIGHT_BITS = {TensorProto.INT8, TensorProto.UINT8}
TAKEN = EIGHT_BITS | {
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.DOUBLE,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.BOOL,
}
# Graph input or output → the same through a cast.
CAST_IN, CAST_OUT = "_in", "_out"


class Blob:
    """The values of all vectors, one after another."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")

    def put(self, values: np.ndarray) -> dict:
        """Appends values; returns where they are."""
        values = numpy_helper.to_array(values) if isinstance(values, TensorProto) else np.asarray(values)
        is_integer = values.dtype.kind in "iub" and (values == values.astype(np.int32)).all()
        with np.errstate(over="ignore"):
            narrow = values.astype(np.int32 if is_integer else np.float32)
        entry = {"offset": self.file.tell(), "shape": list(values.shape), "integer": bool(is_integer)}
        self.file.write(narrow.tobytes())
        return entry


def element(value: onnx.ValueInfoProto) -> int:
    """The element type; 0 for a sequence, a map or an optional value."""
    return value.type.tensor_type.elem_type if value.type.WhichOneof("value") == "tensor_type" else 0


def with_casts(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with int32 in place of 8-bit inputs and outputs."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    first, last = [], []
    for value in graph.input:
        if element(value) in EIGHT_BITS:
            first.append(helper.make_node("Cast", [value.name + CAST_IN], [value.name], to=element(value)))
            value.name += CAST_IN
            value.type.tensor_type.elem_type = TensorProto.INT32
    for value in graph.output:
        if element(value) in EIGHT_BITS:
            last.append(helper.make_node("Cast", [value.name], [value.name + CAST_OUT], to=TensorProto.INT32))
            value.name += CAST_OUT
            value.type.tensor_type.elem_type = TensorProto.INT32
    nodes = [*first, *graph.node, *last]
    del graph.node[:]
    graph.node.extend(nodes)
    return changed


def constant(name: str, values: np.ndarray | TensorProto) -> TensorProto:
    """An initializer."""
    if isinstance(values, TensorProto):
        values = numpy_helper.to_array(values)
    return numpy_helper.from_array(np.asarray(values), name)


def with_constants(model: onnx.ModelProto, values: list[np.ndarray]) -> onnx.ModelProto:
    """The network with every input but the first as a constant."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    for value, tensor in list(zip(graph.input, values, strict=True))[1:]:
        graph.initializer.append(constant(value.name, tensor))
        graph.input.remove(value)
    return changed


def nearest_cases() -> list[tuple]:
    """Resize by the nearest value: sizes and scales at which a reciprocal of the scale takes other values."""
    cases = []
    for coordinates in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
        for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            modes = {"mode": "nearest", "coordinate_transformation_mode": coordinates, "nearest_mode": nearest}
            for height, width in ((13, 14), (19, 28), (23, 30), (26, 17), (32, 3)):
                sizes = {"k": np.array([1, 3, height, width])}
                name = f"nearest_{coordinates}_{nearest}_{height}x{width}"
                cases.append((name, "equal", [helper.make_node("Resize", ["x", "", "", "k"], ["y"], **modes)], sizes, 13))
            if coordinates != "align_corners":
                for scale in (0.7, 1.7, 7):
                    scales = {"k": np.array([1, 1, scale, scale], np.float32)}
                    name = f"nearest_{coordinates}_{nearest}_by_{scale}"
                    cases.append((name, "equal", [helper.make_node("Resize", ["x", "", "k"], ["y"], **modes)], scales, 13))
    return cases


def integer_cases(rng: np.random.Generator) -> list[tuple]:
    """Products of 8-bit integers: of the whole range, with pads, and with sums that f32 cannot hold."""
    node = helper.make_node

    def eight_bits(*shape: int, signed: bool = True) -> np.ndarray:
        return rng.integers(-128, 128, shape).astype(np.int8) if signed else rng.integers(0, 256, shape).astype(np.uint8)

    large = [node("Abs", ["x"], ["a"]), node("Mul", ["a", "k"], ["l"]), node("Clip", ["l", "low", "high"], ["c"])]
    limits = {"k": np.float32(150), "low": np.float32(0), "high": np.float32(255)}
    cases = []
    for signed in (False, True):
        # int8 from the same values, less 128.
        start = [*large, node("Sub", ["c", "less"], ["s"]), node("Cast", ["s"], ["q"], to=3 if signed else 2)]
        limits |= {"less": np.float32(128 if signed else 0)}
        zero = np.int8(-3) if signed else np.uint8(120)
        for weights in (False, True):
            name = f"{'i' if signed else 'u'}8_{'i' if weights else 'u'}8"
            pads = {"pads": [1, 0, 2, 1]}
            conv = {"w": eight_bits(4, 3, 3, 3, signed=weights), "z": zero, "v": np.int8(5) if weights else np.uint8(5)}
            product = {"w": eight_bits(8, 5, signed=weights), "z": zero, "v": eight_bits(5, signed=weights)}
            cases += [
                (f"conv_integer_{name}", "equal", [*start, node("ConvInteger", ["q", "w"], ["y"], **pads)], limits | conv, 13),
                (f"conv_integer_zeros_{name}", "equal", [*start, node("ConvInteger", ["q", "w", "z", "v"], ["y"], **pads)], limits | conv, 13),
                (f"matmul_integer_{name}", "equal", [*start, node("MatMulInteger", ["q", "w"], ["y"])], limits | product, 13),
                (f"matmul_integer_zeros_{name}", "equal", [*start, node("MatMulInteger", ["q", "w", "z", "v"], ["y"])], limits | product, 13),
            ]
    long = [*start, node("Reshape", ["q", "n"], ["r"]), node("MatMulInteger", ["r", "w"], ["y"])]
    for size, expected in ((1, "equal"), (100, "refused")):
        weights = {"n": np.array([1, 168]), "w": np.full((168, 9), size, np.int8).repeat(6, 1)}
        tall = {"n": np.array([-1, 1]), "w": np.full((1, 9), size, np.int8)}
        cases.append((f"long_sum_of_{size}", "equal", long, limits | weights, 13))
        cases.append((f"column_{size}", "equal", long, limits | tall, 13))
        joined = [*start[:-1], node("Reshape", ["s", "n"], ["r"]), node("Concat", ["r"] * 4, ["r4"], axis=1), node("Cast", ["r4"], ["q"], to=3), node("MatMulInteger", ["q", "w"], ["y"])]
        cases.append((f"longest_sum_of_{size}", expected, joined, limits | {"n": np.array([1, 168]), "w": np.full((672, 9), size, np.int8)}, 13))
    return cases


def joined_cases() -> list[tuple]:
    """Nodes that the engine joins to another operator."""
    node = helper.make_node
    cases = []
    for axis, sizes in ((1, [1, 2, 3, 7, 8]), (2, [1, 3, 2, 7, 8]), (3, [1, 3, 7, 2, 8]), (4, [1, 3, 7, 8, 2])):
        for to in ([1, 6, 7, 8], [1, 3, 14, 8], [1, 3, 7, 16]):
            nodes = [node("Unsqueeze", ["x", "a"], ["u"]), node("Expand", ["u", "e"], ["w"]), node("Reshape", ["w", "s"], ["y"])]
            shapes = {"a": np.array([axis]), "e": np.array(sizes), "s": np.array(to)}
            cases.append((f"expanded_{axis}_{'x'.join(map(str, to))}", "equal", nodes, shapes, 13))
    for operator, value in (("Add", 0), ("Sub", 0), ("Mul", 1), ("Div", 1), ("Mul", 3), ("Pow", 2)):
        for shape in ((1, 1, 1, 1), (1, 1, 1, 1, 1)):
            number = {"k": np.full(shape, value, np.float32)}
            flat = [node("ReduceMax", ["x"], ["r"], axes=[1], keepdims=0), node(operator, ["r", "k"], ["y"])]
            cases.append((f"{operator}_{value}_of_{len(shape)}_dimensions", "equal", flat, number, 13))
    swish = [node("ReduceMax", ["x"], ["r"], axes=[1], keepdims=0), node("Mul", ["r", "k"], ["m"]), node("Sigmoid", ["m"], ["s"]), node("Mul", ["r", "s"], ["y"])]
    return [*cases, ("swish_of_4_dimensions", "equal", swish, {"k": np.full((1, 1, 1, 1), 1.7, np.float32)}, 13)]


def more() -> list[tuple]:
    """Name, what is expected, network and its input."""
    node, rng = helper.make_node, np.random.default_rng(1)

    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    image = floats(1, 3, 7, 8)
    weights, bytes_of_weights = floats(4, 3, 3, 3), rng.integers(-9, 9, (4, 3, 3, 3)).astype(np.int8)
    quantized = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("ConvInteger", ["q", "w", "zero"], ["c"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        node("Cast", ["c"], ["y"], to=1),
    ]
    point = {"scale": np.float32(0.02), "zero": np.uint8(128), "w": bytes_of_weights}
    stride = {"kernel_shape": [3, 3], "strides": [2, 2]}
    boxes, one = {"b": floats(1, 5, 4), "n": np.int64(3)}, {"one": np.float32(1)}
    branch = helper.make_graph([node("Dropout", ["x"], ["z"])], "branch", [], [helper.make_tensor_value_info("z", 1, None)])
    other = helper.make_graph([node("Sign", ["x"], ["z2"])], "other", [], [helper.make_tensor_value_info("z2", 1, None)])
    cases = [
        ("conv_same_lower", "equal", [node("Conv", ["x", "w"], ["y"], auto_pad="SAME_LOWER", **stride)], {"w": weights}, 13),
        ("conv_of_conv", "equal", [node("Conv", ["x", "w"], ["c"]), node("MaxPool", ["c"], ["y"], auto_pad="SAME_LOWER", **stride)], {"w": weights}, 13),
        ("pool_same_lower", "equal", [node("AveragePool", ["x"], ["y"], auto_pad="SAME_LOWER", **stride)], {}, 13),
        ("transposed_same_lower", "equal", [node("ConvTranspose", ["x", "w"], ["y"], auto_pad="SAME_LOWER", **stride)], {"w": floats(3, 4, 3, 3)}, 13),
        ("softmax_11", "equal", [node("Softmax", ["x"], ["y"])], {}, 11),
        ("softmax_11_axis_2", "equal", [node("LogSoftmax", ["x"], ["y"], axis=2)], {}, 11),
        ("softmax_11_last", "equal", [node("Softmax", ["x"], ["y"], axis=3)], {}, 11),
        ("argmin_of_equal", "equal", [node("Round", ["x"], ["r"]), node("ArgMin", ["r"], ["y"], axis=1, keepdims=0)], {}, 13),
        ("cast_to_bool", "equal", [node("Cast", ["x"], ["b"], to=9), node("Cast", ["b"], ["y"], to=1)], {}, 13),
        ("cast_integer_to_bool", "equal", [node("Shape", ["x"], ["s"]), node("Cast", ["s"], ["b"], to=9), node("Cast", ["b"], ["y"], to=1)], {}, 13),
        ("conv_integer", "equal", quantized, point, 13),
        ("power_of_integer", "equal", [node("Pow", ["x", "two"], ["y"])], {"two": np.int64(2)}, 13),
        ("dropout", "equal", [node("Dropout", ["x"], ["y"])], {}, 12),
        ("in_branches", "equal", [node("If", ["c"], ["y"], then_branch=other, else_branch=branch)], {"c": np.bool_(True)}, 13),
        ("slice_to_the_end", "equal", [node("Slice", ["x", "begin", "end", "axes"], ["y"])], {"begin": np.array([1]), "end": np.array([2**63 - 1]), "axes": np.array([3])}, 13),
        ("matrix_times_vector", "equal", [node("Relu", ["x"], ["r"]), node("MatMul", ["r", "v"], ["y"])], {"v": floats(8)}, 13),
        ("softplus_of_100", "equal", [node("Mul", ["x", "k"], ["l"]), node("Softplus", ["l"], ["y"])], {"k": np.float32(100)}, 13),
        ("pytorch_half_pixel", "equal", [node("Resize", ["x", "", "k"], ["y"], mode="linear", coordinate_transformation_mode="pytorch_half_pixel")], {"k": np.array([1, 1, 2, 1.5], np.float32)}, 13),
        ("pytorch_half_pixel_sizes", "equal", [node("Resize", ["x", "", "", "k"], ["y"], mode="nearest", coordinate_transformation_mode="pytorch_half_pixel")], {"k": np.array([1, 3, 5, 20])}, 13),
        ("pytorch_half_pixel_of_1", "refused", [node("Resize", ["x", "", "", "k"], ["y"], mode="linear", coordinate_transformation_mode="pytorch_half_pixel")], {"k": np.array([1, 3, 1, 1])}, 13),
        ("upsample_9", "equal", [node("Upsample", ["x", "k"], ["y"])], {"k": np.array([1, 1, 1.3, 2.9], np.float32)}, 9),
        ("nearest_of_open_size", "refused", [node("NonZero", ["x"], ["n"]), node("Cast", ["n"], ["f"], to=1), node("Resize", ["f", "", "k"], ["y"], nearest_mode="ceil")], {"k": np.array([1, 7], np.float32)}, 13),
        ("nearest_of_open_size_doubled", "equal", [node("NonZero", ["x"], ["n"]), node("Cast", ["n"], ["f"], to=1), node("Resize", ["f", "", "k"], ["y"], nearest_mode="floor")], {"k": np.array([1, 2], np.float32)}, 13),
        ("nearest_same_size", "equal", [node("Resize", ["x", "", "k"], ["y"], mode="nearest", nearest_mode="ceil")], {"k": np.array([1, 1, 1.1, 1.1], np.float32)}, 13),
        ("linear_same_size", "refused", [node("Resize", ["x", "", "k"], ["y"], mode="linear")], {"k": np.array([1, 1, 1.1, 1.1], np.float32)}, 13),
        *nearest_cases(),
        ("mean_noop", "refused", [node("ReduceMean", ["x", "none"], ["y"], noop_with_empty_axes=1)], {"none": np.array([], np.int64)}, 18),
        ("reflected_channels", "refused", [node("Pad", ["x", "k"], ["y"], mode="reflect")], {"k": np.array([0, 1, 0, 0, 0, 1, 0, 0])}, 13),
        ("long_integer", "refused", [node("Shape", ["x"], ["s"]), node("Mul", ["s", "k"], ["y"])], {"k": np.int64(2**40)}, 13),
        ("cubic", "refused", [node("Resize", ["x", "", "k"], ["y"], mode="cubic")], {"k": np.array([1, 1, 2, 2], np.float32)}, 13),
        ("suppression", "refused", [node("ReduceMax", ["x"], ["r"], axes=[2], keepdims=0), node("Slice", ["r", "o", "f", "a"], ["s"]), node("NonMaxSuppression", ["b", "s", "n"], ["y"])], boxes | {"o": np.array([0]), "f": np.array([5]), "a": np.array([2])}, 13),
        ("noop", "refused", [node("ReduceL1", ["x"], ["y"], noop_with_empty_axes=1)], {}, 18),
        ("conv_3d", "refused", [node("Unsqueeze", ["x", "a"], ["u"]), node("MaxPool", ["u"], ["y"], kernel_shape=[1, 2, 2])], {"a": np.array([2])}, 13),
        ("wrong_at_run", "refused", [node("MatMul", ["x", "v"], ["m"]), node("PRelu", ["m", "one"], ["p"]), node("GatherElements", ["p", "at"], ["y"])], one | {"v": floats(8, 8), "at": np.full((1, 1, 1, 1), 99)}, 13),
    ]
    cases += integer_cases(rng) + joined_cases()
    networks = []
    for name, expected, nodes, constants, version in cases:
        tensors = [constant(key, np.asarray(value)) for key, value in constants.items()]
        outputs = [helper.make_empty_tensor_value_info("y")]
        graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", 1, image.shape)], outputs, tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(model).graph.output
        del graph.output[:]
        model.graph.output[0].CopyFrom(inferred[0])
        networks.append((name, expected, model, image))
    return networks


class Tolerances:
    """Of the networks more."""

    rtol, atol = 1e-4, 1e-5


def main() -> None:
    blob, index = Blob(FOLDER / "data.bin"), []

    def write(name: str, model: onnx.ModelProto, data_set: tuple, case: object, expected: str = "") -> None:
        model = with_casts(model)
        (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString())
        inputs, outputs = data_set
        index.append(
            {
                "name": name,
                "expected": expected,
                "rtol": case.rtol,
                "atol": case.atol,
                "inputs": [blob.put(values) for values in inputs[: len(model.graph.input)]],
                "outputs": [blob.put(values) for values in outputs],
            }
        )

    num_others = 0
    for kind in ("node", "simple", "pytorch-converted", "pytorch-operator"):
        for case in load_model_tests(kind=kind):
            model, data_sets = case.model, case.data_sets
            if model is None:
                folder = Path(case.model_dir)
                model = onnx.load(folder / "model.onnx")
                data_sets = read_sets(model, folder)
            graph = model.graph
            if not {element(value) for value in [*graph.input, *graph.output]} <= TAKEN or not data_sets:
                num_others += 1
                continue
            given = {tensor.name for tensor in graph.initializer}
            for value in [value for value in graph.input if value.name in given]:
                graph.input.remove(value)
            for number, data_set in enumerate(data_sets):
                name = f"{case.name}.{number}" if number else case.name
                write(name, model, data_set, case)
                if len(graph.input) > 1:
                    write(f"{name}.constants", with_constants(model, data_set[0]), data_set, case)
    for name, expected, model, image in more():
        outputs = []
        if expected == "equal":
            # ONNX Runtime limits sums of 8-bit products to 16 bits on some CPUs, too.
            is_exact = any(node.op_type in ("ConvInteger", "MatMulInteger") for node in model.graph.node)
            session = ReferenceEvaluator(model) if is_exact else onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            outputs = session.run(None, {"x": image})
        write(name, model, ([image], outputs), Tolerances, expected)
    (FOLDER / "index.json").write_text(json.dumps(index))
    print(f"{len(index)} networks; {num_others} vectors hold types that no input or output of an engine has")


def read_sets(model: onnx.ModelProto, folder: Path) -> list[tuple]:
    """The data sets of a vector that lies on disk."""

    def read(path: Path) -> np.ndarray:
        tensor = onnx.TensorProto()
        tensor.ParseFromString(path.read_bytes())
        return numpy_helper.to_array(tensor)

    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        files = [sorted(data.glob(f"{side}_*.pb"), key=lambda path: int(path.stem.split("_")[-1])) for side in ("input", "output")]
        sets.append(tuple([read(path) for path in side] for side in files))
    return sets


if __name__ == "__main__":
    main()
