"""Writes crates/onnx/tests/data: models that PyPI `onnx` serialised, for our reader.

every_field.onnx  each field of each message of the standard set to some value (but for training and multi-device fields)
exporter.onnx     a small valid graph as exporters write it: external data, a subgraph, an optional input, IR version 3 style inputs

Usage: python tools/onnx_foreign.py
"""

import pathlib

import onnx
from onnx import TensorProto, helper

SKIPPED = {"training_info", "configuration", "device_configurations"}
counter = 0


def fill(message, depth):
    """Sets every field; messages within messages down to `depth`."""
    global counter
    seen = set()
    for field in message.DESCRIPTOR.fields:
        if field.name in SKIPPED or (field.containing_oneof and field.containing_oneof.name in seen):
            continue
        if field.message_type and depth == 0:
            continue
        if field.containing_oneof:
            seen.add(field.containing_oneof.name)
        counter += 1
        repeated = field.is_repeated
        if field.message_type:
            for _ in range(2 if repeated and depth > 2 else 1):
                fill(getattr(message, field.name).add() if repeated else getattr(message, field.name), depth - 1)
            if not repeated:
                getattr(message, field.name).SetInParent()
            continue
        kind = field.cpp_type
        value = (
            field.enum_type.values[counter % len(field.enum_type.values)].number
            if kind == field.CPPTYPE_ENUM
            else counter / 8
            if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE)
            else f"value {counter}".encode()
            if field.type == field.TYPE_BYTES
            else f"value {counter}"
            if kind == field.CPPTYPE_STRING
            else counter
        )
        if repeated:
            getattr(message, field.name).extend([value, value])
        else:
            setattr(message, field.name, value)


def every_type():
    """One value of each kind of type: only one fits into a oneof."""
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch", 3, None])
    return [
        tensor,
        helper.make_sequence_type_proto(tensor),
        helper.make_map_type_proto(TensorProto.INT64, tensor),
        helper.make_sparse_tensor_type_proto(TensorProto.FLOAT16, [4]),
        helper.make_optional_type_proto(tensor),
    ]


def exporter():
    f32, i64 = TensorProto.FLOAT, TensorProto.INT64
    weight = TensorProto(name="weight", data_type=f32, dims=[4, 3], data_location=TensorProto.EXTERNAL)
    for key, value in [("location", "weights.bin"), ("offset", "4096"), ("length", "48")]:
        weight.external_data.add(key=key, value=value)
    inner = TensorProto(name="inner", data_type=f32, dims=[3], data_location=TensorProto.EXTERNAL)
    inner.external_data.add(key="location", value="more.bin")
    branch = lambda name, initializers, source: helper.make_graph(
        [helper.make_node("Identity", [source], [name])], name, [], [helper.make_tensor_value_info(name, f32, None)], initializers
    )
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["y"], "matmul"),
        helper.make_node(
            "If", ["flag"], ["z"], "if", then_branch=branch("then", [], "y"), else_branch=branch("else", [inner], "inner")
        ),
        helper.make_node("Clip", ["z", "", "limit"], ["out"], "clip"),
    ]
    limit = helper.make_tensor("limit", f32, [], [6.0])
    inputs = [
        helper.make_tensor_value_info("x", f32, ["batch", 4]),
        helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
        helper.make_tensor_value_info("limit", f32, []),
    ]
    outputs = [helper.make_tensor_value_info("out", f32, ["batch", None])]
    graph = helper.make_graph(nodes, "exporter", inputs, outputs, [weight, limit])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


folder = pathlib.Path(__file__).parent.parent / "crates/onnx/tests/data"
model = onnx.ModelProto()
fill(model, 6)
for index, kind in enumerate(every_type()):
    model.graph.value_info.add(name=f"type {index}").type.CopyFrom(kind)
folder.joinpath("every_field.onnx").write_bytes(model.SerializeToString(deterministic=True))
folder.joinpath("exporter.onnx").write_bytes(exporter().SerializeToString(deterministic=True))
