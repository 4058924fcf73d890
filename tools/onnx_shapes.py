"""Writes what PyPI `onnx` says of operators, for our builder to be checked against, into crates/graph/tests/data:

shapes.json   what it infers for one-node graphs
dtypes.json   which dtypes the first input may have, for each operator and operator set

Usage: python tools/onnx_shapes.py   (needs `onnx` 1.23 or later)

A case has the operator, its inputs (`f32[batch,4]`, or a list of whole numbers for an int64 constant; null where absent), its
attributes, the opset and the inferred outputs. A dimension that onnx leaves unknown is written as `?`.
"""

import json
import pathlib

import onnx
from onnx import TensorProto, helper

DTYPES = {
    "f32": TensorProto.FLOAT,
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "i64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}
NAMES = {number: name for name, number in DTYPES.items()}


def parse(text):
    dtype, rest = text.rstrip("]").split("[")
    return DTYPES[dtype], [int(dim) if dim.isdigit() else dim for dim in rest.split(",") if dim]


def show(info):
    tensor = info.type.tensor_type
    dims = []
    for dim in tensor.shape.dim:
        known = dim.HasField("dim_value")
        dims.append(str(dim.dim_value) if known else dim.dim_param if dim.dim_param and not dim.dim_param.startswith("unk__") else "?")
    return f"{NAMES[tensor.elem_type]}[{','.join(dims)}]"


def infer(op, inputs, attributes, outputs, opset):
    names, infos, constants = [], [], []
    for index, operand in enumerate(inputs):
        if operand is None:
            names.append("")
            continue
        names.append(f"in{index}")
        if isinstance(operand, (list, int)):
            values = operand if isinstance(operand, list) else [operand]
            shape = [len(values)] if isinstance(operand, list) else []
            constants.append(helper.make_tensor(names[-1], TensorProto.INT64, shape, values))
        else:
            infos.append(helper.make_tensor_value_info(names[-1], *parse(operand)))
    results = [f"out{index}" for index in range(outputs)]
    node = helper.make_node(op, names, results, **attributes)
    blank = [onnx.ValueInfoProto(name=name) for name in results]
    graph = helper.make_graph([node], "case", infos, blank, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    return [show(info) for info in inferred.graph.output]


def case(op, *inputs, outputs=1, opset=23, **attributes):
    return {
        "op": op,
        "inputs": list(inputs),
        "attributes": attributes,
        "opset": opset,
        "outputs": infer(op, inputs, attributes, outputs, opset),
    }


CASES = [
    case("Gemm", "f32[tokens,576]", "f32[1536,576]", "f32[1536]", transB=1),
    case("Gemm", "f16[7,576]", "f16[576,192]", None),
    case("MatMul", "f32[batch,9,seq,64]", "f32[batch,9,64,total]"),
    case("MatMul", "f32[4,1,5,8]", "f32[3,8,2]"),
    case("MatMul", "f32[tokens,8]", "f32[8,16]"),
    *[case(op, "f32[batch,1,seq,64]", "f32[9,1,64]") for op in ["Add", "Sub", "Mul", "Div", "Min", "Max"]],
    case("Pow", "f32[batch,seq,64]", "f32[]"),
    case("Add", "i64[5,1]", "i64[3]"),
    *[case(op, "i64[seq,1]", "i64[1,total]") for op in ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]],
    *[case(op, "bool[1,1,seq,total]", "bool[batch,1,1,total]") for op in ["And", "Or"]],
    case("Not", "bool[batch,4]"),
    case("Where", "bool[batch,1,seq,total]", "f32[]", "f32[1,9,1,1]"),
    *[case(op, "bf16[batch,seq,64]") for op in ["Neg", "Sqrt", "Reciprocal", "Sigmoid", "Tanh", "Erf", "Exp", "Log", "Floor", "Relu", "Softplus", "Gelu", "Cos", "Sin"]],
    case("Softmax", "f32[batch,9,seq,total]", axis=-1),
    case("Cast", "bf16[vocab,64]", to=TensorProto.FLOAT),
    case("ReduceMean", "f32[batch,seq,64]", [-1], keepdims=1),
    case("ReduceSum", "i64[batch,total]", [1], keepdims=0),
    case("ReduceMax", "f32[batch,3,4]", [0, 2], keepdims=0),
    case("ReduceSum", "f32[2,3,4]", [-3, 1], keepdims=1),
    case("CumSum", "i64[batch,total]", 1),
    case("TopK", "f32[tokens,64]", [8], outputs=2, axis=-1),
    case("Reshape", "f32[tokens,576]", [-1, 9, 64]),
    case("Reshape", "f32[batch,seq,9,64]", [0, 0, 576]),
    case("Reshape", "f32[2,6,4]", [3, 4, 4]),
    case("Transpose", "f32[batch,seq,9,64]", perm=[0, 2, 1, 3]),
    case("Concat", "f32[batch,3,past,64]", "f32[batch,3,7,64]", axis=2),
    case("Concat", "f32[2,3]", "f32[2,5]", axis=-1),
    case("Split", "f32[tokens,960]", [576, 192, 192], outputs=3, axis=1),
    case("Unsqueeze", "f32[seq,total]", [0, 1]),
    case("Unsqueeze", "f32[seq,64]", [-1, 1]),
    case("Squeeze", "f32[batch,1,seq,1]", [1, -1]),
    case("Expand", "f32[batch,3,1,seq,64]", [1, 1, 3, 1, 1]),
    case("Expand", "f32[3,1]", [2, 1, 6]),
    case("Identity", "f32[batch,64]"),
    case("Shape", "f32[batch,seq,9,64]", start=1, end=3),
    case("Range", 2, 11, 4),
    case("Range", 11, 2, -4),
    case("Gather", "f32[vocab,576]", "i64[batch,seq]", axis=0),
    case("Gather", "f32[batch,seq,64]", 3, axis=1),
    case("Gather", "f32[batch,7,64]", [0, -1], axis=-2),
    case("GatherElements", "f32[batch,9]", "i64[batch,2]", axis=1),
    case("GatherND", "f32[batch,seq,64]", "i64[batch,2,1]", batch_dims=1),
    case("GatherND", "f32[4,5,64]", "i64[n,2]", batch_dims=0),
    case("Slice", "f32[batch,9,64]", [0], [32], [2]),
    case("Slice", "f32[batch,9,64]", [-32], [2**63 - 1], [2]),
    case("Slice", "f32[batch,9,64]", [-200], [5], [1]),
    case("Clip", "f32[batch,64]", "f32[]", None),
    case("LayerNormalization", "f32[batch,seq,64]", "f32[64]", "f32[64]", axis=-1),
    case("RMSNormalization", "f32[tokens,64]", "f32[64]", axis=-1),
    case("RotaryEmbedding", "f32[batch,9,seq,64]", "f32[512,32]", "f32[512,32]", "i64[batch,seq]"),
    case("RotaryEmbedding", "f32[batch,9,seq,64]", "f32[batch,seq,32]", "f32[batch,seq,32]"),
    case("RotaryEmbedding", "f32[batch,9,seq,64]", "f32[512,8]", "f32[512,8]", "i64[batch,seq]", rotary_embedding_dim=16, interleaved=1),
    case("RotaryEmbedding", "f32[batch,9,seq,64]", "f32[batch,seq,8]", "f32[batch,seq,8]", rotary_embedding_dim=16, interleaved=1),
    case("Attention", "f16[batch,9,seq,64]", "f16[batch,3,total,64]", "f16[batch,3,total,32]", "bool[batch,1,seq,total]", scale=0.125),
    case("TensorScatter", "f32[batch,3,2048,64]", "f32[batch,3,seq,64]", "i64[batch]", opset=24, axis=-2),
]

SAFETENSORS = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32", "int32": "I32", "uint64": "U64",
    "int64": "I64", "float16": "F16", "bfloat16": "BF16", "float": "F32", "double": "F64",
}


def dtypes(op, opset):
    """The dtypes of the operator's first input, by their safetensors names; None where the operator is younger."""
    if onnx.defs.get_schema(op).since_version > opset and not any(
        schema.name == op and schema.domain == "" and schema.since_version <= opset for schema in onnx.defs.get_all_schemas_with_history()
    ):
        return None
    schema = onnx.defs.get_schema(op, opset)
    allowed = schema.inputs[0].types
    return sorted(name for text, name in SAFETENSORS.items() if f"tensor({text})" in allowed)


folder = pathlib.Path(__file__).parent.parent / "crates/graph/tests/data"
folder.joinpath("shapes.json").write_text("[\n" + ",\n".join(json.dumps(entry) for entry in CASES) + "\n]\n")
table = {op: {str(opset): dtypes(op, opset) for opset in range(21, 25)} for op in sorted({entry["op"] for entry in CASES})}
folder.joinpath("dtypes.json").write_text("{\n" + ",\n".join(f"{json.dumps(op)}: {json.dumps(table[op])}" for op in table) + "\n}\n")
