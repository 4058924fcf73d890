"""Runs onnx's own checks on exported graphs, one line each: checker with full_check, then strict shape inference, both by path.

    python tools/check_graphs.py GRAPH.onnx...

Needs the PyPI package onnx. Exits 1 at the first graph that is refused.
"""

import os
import sys
import tempfile

import onnx


def check(path):
    onnx.checker.check_model(path, full_check=True)
    with tempfile.TemporaryDirectory() as folder:
        inferred = os.path.join(folder, "inferred.onnx")
        onnx.shape_inference.infer_shapes_path(path, inferred, check_type=True, strict_mode=True, data_prop=True)
        model = onnx.load(inferred, load_external_data=False)
    known = {value.name for value in model.graph.value_info} | {value.name for value in model.graph.output}
    unknown = [name for node in model.graph.node for name in node.output if name and name not in known]
    if unknown:
        raise SystemExit(f"{path}: no shape was inferred for {unknown[:5]}")
    print(f"{path}: {len(model.graph.node)} nodes")


for argument in sys.argv[1:]:
    check(argument)
