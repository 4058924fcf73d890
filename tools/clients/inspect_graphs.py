"""Has polygraphy and onnxslim read graphs: inspect_graphs.py GRAPH.onnx... prints a line for each; anything else fails."""

import contextlib
import io
import os
import sys
import tempfile

import onnx
import onnxslim
from polygraphy.tools._main import main as polygraphy

for path in sys.argv[1:]:
    sys.argv = ["polygraphy", "inspect", "model", path, "--show", "layers"]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            ended = polygraphy()
        except SystemExit as end:
            ended = end.code
    assert not ended, (ended, said.getvalue())
    model = onnx.load(path, load_external_data=False)
    assert all(node.op_type in said.getvalue() for node in model.graph.node), said.getvalue()
    with tempfile.TemporaryDirectory() as folder:
        slim = os.path.join(folder, "slim.onnx")
        with contextlib.redirect_stdout(io.StringIO()):
            onnxslim.slim(path, slim)
        slimmed = onnx.load(slim, load_external_data=False)
    names = [value.name for value in model.graph.output]
    assert [value.name for value in slimmed.graph.output] == names, names
    print(f"{path}: {len(model.graph.node)} nodes, {len(slimmed.graph.node)} after onnxslim")
