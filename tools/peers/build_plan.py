"""Builds a TensorRT-RTX plan with NVIDIA's Python bindings: build_plan.py GRAPH PLAN MANIFEST

Architectures and shapes are those of MANIFEST, which plansmith wrote beside a plan of its own. The graph is parsed from its file and the
plan written from the builder's buffer, so that Python copies neither. `tensorrt_rtx_bindings` is on the path, its libraries on
LD_LIBRARY_PATH.
"""

import json
import sys

import tensorrt_rtx_bindings as trt

graph, plan, manifest = sys.argv[1:]
with open(manifest) as file:
    manifest = json.load(file)
logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
parser = trt.OnnxParser(network, logger)
if not parser.parse_from_file(graph):
    sys.exit("; ".join(parser.get_error(index).desc() for index in range(parser.num_errors)))
config = builder.create_builder_config()
config.clear_flag(trt.BuilderFlag.TF32)
config.num_compute_capabilities = len(manifest["architectures"])
for index, architecture in enumerate(manifest["architectures"]):
    config.set_compute_capability(getattr(trt.ComputeCapability, architecture.upper()), index)
for record in manifest["profiles"]:
    profile = builder.create_optimization_profile()
    for shapes in record["inputs"]:
        profile.set_shape(shapes["name"], shapes["min"], shapes["opt"], shapes["max"])
    config.add_optimization_profile(profile)
built = builder.build_serialized_network(network, config)
if built is None:
    sys.exit("TensorRT cannot build this plan")
with open(plan, "wb") as file:
    file.write(built)
