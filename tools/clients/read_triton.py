"""Reads a config.pbtxt with Triton's own message: read_triton.py CONFIG.pbtxt prints it as JSON; an unknown field fails."""

import importlib.metadata
import importlib.util
import sys

from google.protobuf import json_format, text_format

# The package around this module wants grpc, which it does not need itself.
path = importlib.metadata.distribution("tritonclient").locate_file("tritonclient/grpc/model_config_pb2.py")
spec = importlib.util.spec_from_file_location("model_config_pb2", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
config = text_format.Parse(open(sys.argv[1]).read(), module.ModelConfig())
print(json_format.MessageToJson(config, indent=None, preserving_proto_field_name=True))
