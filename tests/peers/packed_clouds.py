"""Clouds packed by other implementations, and what these make of them again.

packed_clouds.py FOLDER [DRACO] writes for each case NAME.packed, a CDR message by rosbags, NAME.expected, the
PointCloud2 that the peer's own decoder gives, NAME.original, the points that were packed, in the same order,
and to cases.json the type and the difference from those that the format allows, by field ("exact" without
any). Of a folder DRACO every point cloud (*.drc) is a case.

packed_clouds.py --few FILE writes a few small ones as JSON: name, type, and the messages in hexadecimal.
"""

import json
import pathlib
import sys
import zlib

import DracoPy
import numpy as np
import pureini
import zstandard
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

COMPRESSED = "point_cloud_interfaces/msg/CompressedPointCloud2"
DEFINITION = """std_msgs/Header header
uint32 height
uint32 width
sensor_msgs/PointField[] fields
bool is_bigendian
uint32 point_step
uint32 row_step
uint8[] compressed_data
bool is_dense
string format
"""
CUSTOM_MSG = """std_msgs/Header header
uint64 timebase
uint32 point_num
uint8 lidar_id
uint8[3] rsvd
{package}/CustomPoint[] points
"""
CUSTOM_POINT = """uint32 offset_time
float32 x
float32 y
float32 z
uint8 reflectivity
uint8 tag
uint8 line
"""
LIVOX_PACKAGES = ["livox_ros_driver2", "livox_ros_driver", "livox_interfaces"]
DATATYPES = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 8}

store = get_typestore(Stores.ROS2_JAZZY)
store.register(get_types_from_msg(DEFINITION, COMPRESSED))
for package in LIVOX_PACKAGES:
    store.register(get_types_from_msg(CUSTOM_POINT, f"{package}/msg/CustomPoint"))
    store.register(get_types_from_msg(CUSTOM_MSG.format(package=package), f"{package}/msg/CustomMsg"))

random = np.random.default_rng(44)
folder = pathlib.Path(sys.argv[1])
cases, few = [], []


def message(type_name, /, **values):
    return store.types[type_name](**values)


def header():
    stamp = message("builtin_interfaces/msg/Time", sec=1_700_000_000, nanosec=123_456_789)
    return message("std_msgs/msg/Header", stamp=stamp, frame_id="lidar_top")


def fields_of(dtype):
    """The fields of a structured array; those whose name begins with `_` are padding."""
    fields = []
    for name, (kind, offset, *_) in dtype.fields.items():
        if name.startswith("_"):
            continue
        base, shape = kind.subdtype or (kind, ())
        count = int(np.prod(shape, dtype=int))
        code = DATATYPES[base.str[1:]]
        fields.append(message("sensor_msgs/msg/PointField", name=name, offset=offset, datatype=code, count=count))
    return fields


def layout(points, height):
    width = len(points) // height
    step = points.dtype.itemsize
    return dict(
        header=header(), height=height, width=width, fields=fields_of(points.dtype), is_bigendian=False,
        point_step=step, row_step=step * width, is_dense=False,
    )


def write(name, type_name, packed, expected, original=None, tolerance="exact"):
    """`expected` is a PointCloud2; `original` are the points that were packed, in the order of `expected`."""
    packed = bytes(store.serialize_cdr(packed, type_name))
    expected = bytes(store.serialize_cdr(expected, "sensor_msgs/msg/PointCloud2"))
    few.append({"name": name, "type": type_name, "packed": packed.hex(), "expected": expected.hex()})
    if not folder.is_dir():
        return
    (folder / f"{name}.packed").write_bytes(packed)
    (folder / f"{name}.expected").write_bytes(expected)
    if original is not None:
        (folder / f"{name}.original").write_bytes(original.tobytes())
    cases.append({"name": name, "type": type_name, "tolerance": tolerance})


def compressed(name, points, payload, format, decoded=None, height=1, tolerance="exact"):
    packed = message(COMPRESSED, **layout(points, height), format=format,
                     compressed_data=np.frombuffer(payload, np.uint8))
    decoded = points if decoded is None else decoded
    data = np.frombuffer(decoded.tobytes(), np.uint8)
    expected = message("sensor_msgs/msg/PointCloud2", **layout(decoded, height), data=data)
    write(name, COMPRESSED, packed, expected, points, tolerance)


def sweep(num, dtype):
    """Points around a sensor, ring after ring, as neighbours in the message are in space."""
    points = np.zeros(num, dtype)
    azimuth = np.linspace(0, 2 * np.pi, num, endpoint=False)
    distance = 20 + 10 * np.sin(5 * azimuth) + random.normal(0, 0.02, num)
    for name, value in {
        "x": distance * np.cos(azimuth), "y": distance * np.sin(azimuth), "z": random.uniform(-2, 3, num),
        "intensity": random.integers(0, 256, num), "ring": np.arange(num) % 64,
        "timestamp": 1_700_000_000 + azimuth / 63, "t": np.arange(num) * 1000, "tag": random.integers(0, 4, num),
        "delta": np.arange(num) // 100 - 50, "id": 2**40 + np.arange(num) // 7,
    }.items():
        if name in points.dtype.names:
            points[name] = value
    return points


XYZI = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4"), ("intensity", "f4")])
# As the driver of a real sensor lays it out: 26 bytes, nothing aligned behind `ring`.
PACKED = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4"), ("intensity", "f4"), ("ring", "u2"), ("timestamp", "f8")])
PADDED = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4"), ("_gap", "V4"), ("intensity", "u1"), ("tag", "i1"),
                   ("ring", "u2"), ("t", "u4"), ("delta", "i2"), ("_end", "V6")])


def general(num=5000):
    points = sweep(num, PACKED)
    points["z"][::17] = np.nan
    raw = points.tobytes()
    gzip = zlib.compressobj(6, zlib.DEFLATED, 31)
    # As point_cloud_transport's publisher: deflate in gzip's container under the name `zlib`.
    compressed("zlib", points, gzip.compress(raw) + gzip.flush(), "zlib")
    compressed("zlib_container", points, zlib.compress(raw, 1), "zlib", height=num // 10)
    compressed("zstd", points, zstandard.ZstdCompressor(3).compress(raw), "zstd", height=10)
    stream = zstandard.ZstdCompressor(1, write_content_size=False).compress(raw)
    compressed("zstd_unknown_size", points, stream, "zstd")
    compressed("zstd_unnamed", points, zstandard.ZstdCompressor(19).compress(raw), "")
    none = np.zeros(0, XYZI)
    compressed("zstd_empty", none, zstandard.ZstdCompressor(3).compress(b""), "zstd")
    compressed("cloudini_empty", none, b"", "cloudini")


def cloudini(name, points, encoding, compression, version, resolution=None, height=1, binary=False, format="cloudini"):
    resolution = resolution or {}
    kinds = {"i1": "INT8", "u1": "UINT8", "i2": "INT16", "u2": "UINT16", "i4": "INT32", "u4": "UINT32",
             "f4": "FLOAT32", "f8": "FLOAT64"}
    fields = []
    for field, (kind, offset, *_) in points.dtype.fields.items():
        if not field.startswith("_"):
            kind = getattr(pureini.FieldType, kinds[kind.str[1:]])
            fields.append(pureini.PointField(field, offset, kind, resolution.get(field)))
    info = pureini.EncodingInfo(fields, len(points) // height, height, points.dtype.itemsize,
                                getattr(pureini.EncodingOptions, encoding),
                                getattr(pureini.CompressionOption, compression), version)
    encoder = pureini.PointcloudEncoder(info)
    payload = encoder.encode(points.tobytes())
    if binary:
        text = len(encoder.header)
        assert payload[:text] == encoder.header
        payload = pureini._pureini.encode_header(info, pureini._pureini.HeaderEncoding.BINARY) + payload[text:]
    decoded, _ = pureini.PointcloudDecoder().decode(payload)
    decoded = np.frombuffer(decoded, points.dtype).copy()
    # Half a step, and the rounding of the product in single precision.
    tolerance = {field: 0.5 * step + 4e-6 for field, step in resolution.items() if encoding == "LOSSY"}
    compressed(name, points, payload, format, decoded, height, tolerance or "exact")


def all_of_cloudini():
    millimetres = {field: 0.001 for field in "xyz"}
    four = {**millimetres, "intensity": 0.01}
    # Two whole chunks and a part of one.
    long, short = sweep(2 * 32768 + 77, PACKED), sweep(3000, PADDED)
    short["y"][5:900:7] = np.nan
    for version in pureini_versions():
        for encoding in ["NONE", "LOSSY", "LOSSLESS"]:
            for compression in ["NONE", "LZ4", "ZSTD"]:
                name = f"cloudini_{version}_{encoding}_{compression}".lower()
                cloudini(name + "_padded", short, encoding, compression, version, millimetres, height=30)
        cloudini(f"cloudini_{version}_long", long, "LOSSY", "ZSTD", version, four)
        cloudini(f"cloudini_{version}_long_lossless", long, "LOSSLESS", "LZ4", version)
        cloudini(f"cloudini_{version}_time", long, "LOSSY", "LZ4", version, {**four, "timestamp": 1e-6})
        cloudini(f"cloudini_{version}_two", short, "LOSSY", "ZSTD", version, {"x": 0.01, "y": 0.01})
        cloudini(f"cloudini_{version}_binary", short, "LOSSY", "ZSTD", version, millimetres, binary=True)
    # Cloudini's plugin of point_cloud_transport leaves the name of the format empty.
    cloudini("cloudini_unnamed", short, "LOSSY", "ZSTD", 5, millimetres, format="")


def pureini_versions():
    """The versions that this peer writes."""
    return [version for version in [3, 4, 5] if version <= pureini._pureini.ENCODING_VERSION]


def draco(name, xyz, others, **options):
    """Draco, decoded by Google's library: an attribute of three positions, then one per other field."""
    kinds = [("xyz", "f4", 3)] + [(field, values.dtype.str[1:]) for field, values in others.items()]
    points = np.zeros(len(xyz), np.dtype(kinds))
    columns = {field: values.reshape(-1, 1) for field, values in others.items()}
    payload = DracoPy.encode(xyz, generic_attributes=columns or None, **options)
    result = DracoPy.decode(payload)
    decoded = np.zeros(len(result.points), points.dtype)
    decoded["xyz"] = result.points
    for attribute, field in zip(result.attributes[1:], others, strict=True):
        decoded[field] = attribute["data"].reshape(-1)
    points["xyz"] = xyz
    for field, values in others.items():
        points[field] = values
    # The longest side of the box around the points, in as many steps as the bits have. Steps are counted in single
    # precision, whose 24 bits leave an error of the count, and the position is rounded to it.
    bits = options["quantization_bits"]
    step = np.ptp(xyz, axis=0).max() / (2**bits - 1)
    tolerance = {"xyz": float((0.5 + 2.0 ** (bits - 24)) * step + 4e-6)}
    is_kd_tree = payload[8] == 1
    if is_kd_tree:
        # In another order: compared by the nearest step.
        order = np.lexsort(np.round(decoded["xyz"] / step).T)
        origin = np.lexsort(np.round(points["xyz"] / step).T)
        restored = np.zeros_like(points)
        restored[order] = points[origin]
        points, tolerance = restored, None
    packed = message(COMPRESSED, **layout(decoded, 1), format="draco",
                     compressed_data=np.frombuffer(payload, np.uint8))
    expected = message("sensor_msgs/msg/PointCloud2", **layout(decoded, 1),
                       data=np.frombuffer(decoded.tobytes(), np.uint8))
    write(name, COMPRESSED, packed, expected, None if tolerance is None else points, tolerance or "decoder")
    return is_kd_tree


def all_of_draco():
    points = sweep(4000, XYZI)
    xyz = np.stack([points["x"], points["y"], points["z"]], axis=1)
    others = {
        "intensity": points["intensity"],
        "ring": (np.arange(4000) % 64).astype(np.uint16),
        "tag": random.integers(0, 4, 4000).astype(np.uint8),
        "t": (np.arange(4000) * 1000).astype(np.uint32),
    }
    kinds = set()
    for level in [0, 1, 5, 7, 10]:
        for bits in [11, 16, 20]:
            options = dict(compression_level=level, quantization_bits=bits)
            kinds.add(draco(f"draco_{level}_{bits}", xyz, {}, **options))
            kinds.add(draco(f"draco_{level}_{bits}_fields", xyz, others, **options))
            kinds.add(draco(f"draco_{level}_{bits}_integers", xyz, {"ring": others["ring"]}, **options))
    # A peer that always chose one of them would leave the other untried.
    assert kinds == {True, False}, kinds


def livox(num=777):
    points = np.zeros(num, np.dtype([("offset_time", "u4"), ("x", "f4"), ("y", "f4"), ("z", "f4"), ("intensity", "u1"),
                                     ("tag", "u1"), ("line", "u1"), ("_end", "V1")]))
    points["offset_time"] = np.arange(num) * 1000
    for field in "xyz":
        points[field] = random.normal(0, 30, num)
    for field in ["intensity", "tag", "line"]:
        points[field] = random.integers(0, 256, num)
    for package in LIVOX_PACKAGES:
        custom = [
            message(f"{package}/msg/CustomPoint", offset_time=int(p["offset_time"]), x=float(p["x"]), y=float(p["y"]),
                    z=float(p["z"]), reflectivity=int(p["intensity"]), tag=int(p["tag"]), line=int(p["line"]))
            for p in points
        ]
        for name, num_points in [(package, num), (package + "_one", 1), (package + "_none", 0)]:
            packed = message(f"{package}/msg/CustomMsg", header=header(), timebase=1_700_000_000_123_456_789,
                             point_num=num_points, lidar_id=3, rsvd=np.zeros(3, np.uint8), points=custom[:num_points])
            data = np.frombuffer(points[:num_points].tobytes(), np.uint8)
            expected = message("sensor_msgs/msg/PointCloud2", **layout(points[:num_points], 1), data=data)
            write(name, f"{package}/msg/CustomMsg", packed, expected)


def draco_files(files):
    """Files of others, decoded by Google's library: the attributes in their order."""
    kinds = {value: kind for kind, value in {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 9}.items()}
    for file in sorted(pathlib.Path(files).glob("*.drc")):
        payload = file.read_bytes()
        # The eighth byte says whether it is a mesh.
        if payload[7] != 0:
            continue
        result = DracoPy.decode(payload)
        attributes = {f"attribute_{index}": of for index, of in enumerate(result.attributes)}
        dtype = [(name, kinds[of["data_type"]], (of["num_components"],)) for name, of in attributes.items()]
        points = np.zeros(len(result.points), np.dtype(dtype))
        for name, of in attributes.items():
            points[name] = np.asarray(of["data"]).reshape(len(points), -1)
        packed = message(COMPRESSED, **layout(points, 1), format="draco",
                         compressed_data=np.frombuffer(payload, np.uint8))
        data = np.frombuffer(points.tobytes(), np.uint8)
        expected = message("sensor_msgs/msg/PointCloud2", **layout(points, 1), data=data)
        write(f"file_{file.stem}", COMPRESSED, packed, expected, None, "decoder")


def write_few(file):
    general(20)
    livox(3)
    points = sweep(12, PADDED)
    points["y"][5] = np.nan
    steps = {field: 0.01 for field in "xyz"}
    for version in pureini_versions():
        for encoding, compression in [("LOSSY", "NONE"), ("LOSSY", "ZSTD"), ("LOSSLESS", "LZ4"), ("NONE", "NONE")]:
            cloudini(f"cloudini_{version}_{encoding}_{compression}".lower(), points, encoding, compression, version, steps)
        cloudini(f"cloudini_{version}_float64", sweep(12, PACKED), "LOSSY", "NONE", version, steps, binary=True)
    xyz = random.uniform(-9, 9, (12, 3)).astype(np.float32)
    ring = {"ring": (np.arange(12) % 4).astype(np.uint16)}
    draco("draco_kd_tree", xyz, {}, compression_level=5, quantization_bits=11)
    draco("draco_kd_tree_ring", xyz, ring, compression_level=1, quantization_bits=11)
    intensity = {"intensity": xyz[:, 0] * 2, **ring}
    draco("draco_sequential", xyz, intensity, compression_level=7, quantization_bits=11)
    pathlib.Path(file).write_text("[\n" + ",\n".join(json.dumps(case) for case in few) + "\n]\n")


if sys.argv[1] == "--few":
    write_few(sys.argv[2])
else:
    general()
    all_of_cloudini()
    all_of_draco()
    livox()
    if len(sys.argv) > 2:
        draco_files(sys.argv[2])
    (folder / "cases.json").write_text(json.dumps(cases))
