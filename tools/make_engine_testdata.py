"""Makes testdata/engine/decoder.onnx and decoder.data: one attention layer in fp16 with an explicit cache.

    python tools/make_engine_testdata.py testdata/engine     # needs PyPI onnx and numpy

Not a language model of any use: random weights (seed 0), no norm and no MLP, but the inputs, outputs and the cache of a real one. The
tests of the TensorRT worker build plans from it; so it is small, and it holds external data in a file of its own.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as H

VOCAB, HEADS, KV_HEADS, HEAD = 32, 2, 1, 16
HIDDEN = HEADS * HEAD


def main(folder: pathlib.Path) -> None:
    random = np.random.default_rng(0)
    data = bytearray()
    initialisers, nodes = [], []

    def weight(name: str, *shape: int) -> str:
        values = (random.standard_normal(shape) * 0.4).astype(np.float16).tobytes()
        tensor = onnx.TensorProto(name=name, dims=shape, data_type=T.FLOAT16, data_location=T.EXTERNAL)
        for key, value in {"location": "decoder.data", "offset": len(data), "length": len(values)}.items():
            tensor.external_data.add(key=key, value=str(value))
        data.extend(values)
        initialisers.append(tensor)
        return name

    def constant(name: str, values, dtype) -> str:
        initialisers.append(onnx.numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def node(op: str, inputs: list[str], output: str, **attributes) -> str:
        nodes.append(H.make_node(op, inputs, [output], name=f"/layers.0/{output}", **attributes))
        return output

    embedding = weight("embed.weight", VOCAB, HIDDEN)
    hidden = node("Gather", [embedding, "input_ids"], "hidden")
    rows = node("Reshape", [hidden, constant("to_rows", [-1, HIDDEN], np.int64)], "rows")

    def heads(name: str, count: int) -> str:
        product = node("Gemm", [rows, weight(f"{name}.weight", count * HEAD, HIDDEN)], f"{name}_rows", transB=1)
        split = node("Shape", ["input_ids"], f"{name}_tokens")
        shape = node("Concat", [split, constant(f"{name}_split", [count, HEAD], np.int64)], f"{name}_shape", axis=0)
        return node("Transpose", [node("Reshape", [product, shape], f"{name}_split_rows")], name, perm=[0, 2, 1, 3])

    query = heads("query", HEADS)
    key = node("Concat", ["past_key_values.0.key", heads("key", KV_HEADS)], "present.0.key", axis=2)
    value = node("Concat", ["past_key_values.0.value", heads("value", KV_HEADS)], "present.0.value", axis=2)

    # Causal and padding: key j is seen by new token i where j <= past + i and the mask has 1. Positions are those of the mask's columns.
    zero, one = constant("zero", 0, np.int64), constant("one", 1, np.int64)
    total = node("Gather", [node("Shape", ["attention_mask"], "mask_shape"), one], "total")
    new = node("Gather", [node("Shape", ["input_ids"], "ids_shape"), one], "new")
    past = node("Sub", [total, new], "past")
    columns = node("Range", [zero, total, one], "columns")
    queries = node("Unsqueeze", [node("Range", [past, total, one], "queries"), one], "query_columns")
    causal = node("LessOrEqual", [columns, queries], "causal")
    axes = constant("axes", [1, 2], np.int64)
    attended = node("Unsqueeze", [node("Cast", ["attention_mask"], "attended", to=T.BOOL), axes], "attended_keys")
    mask = node("And", [causal, attended], "mask")
    mixed = node("Attention", [query, key, value, mask], "mixed")
    # Position 0 adds nothing, so the input is used and the arithmetic stays easy.
    merged = node("Reshape", [node("Transpose", [mixed], "mixed_rows", perm=[0, 2, 1, 3]), "to_rows"], "merged")
    positions = node("Reshape", ["position_ids", constant("to_column", [-1, 1], np.int64)], "position_rows")
    scaled = node("Mul", [node("Cast", [positions], "position_values", to=T.FLOAT16), constant("step", 0.125, np.float16)], "position_steps")
    placed = node("Add", [merged, scaled], "placed")
    scores = node("Gemm", [placed, embedding], "scores", transB=1)
    shape = node("Concat", ["query_tokens", constant("vocab", [VOCAB], np.int64)], "logits_shape", axis=0)
    node("Cast", [node("Reshape", [scores, shape], "logits_half")], "logits", to=T.FLOAT)

    def info(name: str, dtype: int, *shape: int | str):
        return H.make_tensor_value_info(name, dtype, shape)

    batch, sequence, total_length = "batch_size", "sequence_length", "total_sequence_length"
    graph = H.make_graph(
        nodes,
        "decoder",
        [
            info("input_ids", T.INT64, batch, sequence),
            info("attention_mask", T.INT64, batch, total_length),
            info("position_ids", T.INT64, batch, sequence),
            *(info(f"past_key_values.0.{part}", T.FLOAT16, batch, KV_HEADS, "past_sequence_length", HEAD) for part in ("key", "value")),
        ],
        [
            info("logits", T.FLOAT, batch, sequence, VOCAB),
            *(info(f"present.0.{part}", T.FLOAT16, batch, KV_HEADS, total_length, HEAD) for part in ("key", "value")),
        ],
        initialisers,
    )
    model = H.make_model(graph, opset_imports=[H.make_opsetid("", 23)], ir_version=11, producer_name="plansmith tools/make_engine_testdata.py")
    (folder / "decoder.data").write_bytes(data)
    onnx.save(model, folder / "decoder.onnx")
    onnx.checker.check_model(folder / "decoder.onnx", full_check=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
