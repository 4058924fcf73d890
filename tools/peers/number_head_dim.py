"""Writes model_numbered.onnx beside the graph of onnxruntime-genai's builder: number_head_dim.py FOLDER

The builder leaves the head dimension of the cache symbolic; who makes the empty cache from the graph alone needs the number, which is in
genai_config.json. Nothing else changes; the weights stay where they are.
"""

import json
import pathlib
import sys

import onnx

folder = pathlib.Path(sys.argv[1])
head = json.loads((folder / "genai_config.json").read_text())["model"]["decoder"]["head_size"]
model = onnx.load(folder / "model.onnx", load_external_data=False)
for value in [*model.graph.input, *model.graph.output]:
    if value.name.startswith(("past_key_values.", "present.")):
        value.type.tensor_type.shape.dim[3].dim_value = head
onnx.save(model, folder / "model_numbered.onnx")
