"""Validates ONNX files with PyPI `onnx` and runs them with `onnxruntime` on zeros, for several sizes of the symbolic dimensions.

Usage: python tools/check_onnx.py FILE...

Checks: onnx.checker with full_check; shape inference by path, strict, with data propagation; ONNX Runtime loads the file without a
warning of its own and each output has the declared dtype and shape. Exits 1 where anything fails.
"""

import ast
import pathlib
import re
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

SIZES = [
    {"batch_size": 1, "sequence_length": 5, "past_sequence_length": 0},
    {"batch_size": 2, "sequence_length": 1, "past_sequence_length": 7},
]
NUMPY = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(bool)": np.bool_}


def size(dim, sizes):
    """A dimension's value: a number, or an expression such as `3*batch_size + 1`."""
    if isinstance(dim, int):
        return dim
    if not re.fullmatch(r"[\w*+\- ]+", dim):
        raise ValueError(f"unreadable dimension {dim}")
    names = {node.id for node in ast.walk(ast.parse(dim, mode="eval")) if isinstance(node, ast.Name)}
    return eval(dim, {"__builtins__": {}}, {name: sizes[name] for name in names})


def check(path):
    onnx.checker.check_model(path, full_check=True)
    with tempfile.NamedTemporaryFile(suffix=".onnx", dir=pathlib.Path(path).parent) as inferred:
        onnx.shape_inference.infer_shapes_path(path, inferred.name, check_type=True, strict_mode=True, data_prop=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 2
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for base in SIZES:
        sizes = base | {"total_sequence_length": base["past_sequence_length"] + base["sequence_length"]}
        sizes["tokens"] = sizes["batch_size"] * sizes["sequence_length"]
        feeds = {
            info.name: np.zeros([size(dim, sizes) for dim in info.shape], NUMPY[info.type]) for info in session.get_inputs()
        }
        for info, array in zip(session.get_outputs(), session.run(None, feeds), strict=True):
            wanted = [size(dim, sizes) for dim in info.shape]
            if list(array.shape) != wanted or array.dtype != NUMPY[info.type]:
                raise ValueError(f"{info.name}: {array.dtype}{list(array.shape)}, declared {info.type}{wanted}")
    return len(onnx.load(path, load_external_data=False).graph.node)


if __name__ == "__main__":
    failed = False
    for path in sys.argv[1:]:
        try:
            print(f"ok      {path}: {check(path)} nodes")
        except Exception as error:  # every failure of any of the tools is a finding
            failed = True
            print(f"FAILED  {path}: {error}")
    sys.exit(1 if failed else 0)
