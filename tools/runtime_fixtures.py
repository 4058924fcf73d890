"""Makes testdata/runtime: a tiny random Llama in three storage dtypes, its logits by transformers, and graphs of it made with onnx.helper.

The graphs are written by hand here, apart from the crates, so that the runtimes are tested against somebody else's reading.

    python tools/runtime_fixtures.py checkpoints testdata/runtime     # needs torch, transformers, safetensors
    python tools/runtime_fixtures.py graphs testdata/runtime          # needs onnx, ml_dtypes, safetensors
"""

import json
import struct
import sys
from pathlib import Path

# head_dim 16 makes the attention scale 0.25, exact in every dtype.
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE, LAYERS, VOCAB, POSITIONS = 32, 4, 2, 16, 48, 2, 64, 32
EPS, THETA = 1e-5, 10000.0
PADDING, SEQUENCE = [4, 1, 0], 10


def checkpoints(out):
    import torch
    import transformers
    from safetensors.torch import save_file

    torch.manual_seed(20)
    config = transformers.LlamaConfig(
        hidden_size=HIDDEN, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, intermediate_size=INTERMEDIATE,
        num_hidden_layers=LAYERS, vocab_size=VOCAB, max_position_embeddings=POSITIONS, rms_norm_eps=EPS, rope_theta=THETA,
        tie_word_embeddings=False, initializer_range=0.2, attn_implementation="eager")
    source = {name: tensor.clone() for name, tensor in transformers.LlamaForCausalLM(config).state_dict().items()}
    for name in source:
        if "norm" in name:
            source[name] += 0.1 * torch.randn(HIDDEN)
    ids = torch.randint(0, VOCAB, (len(PADDING), SEQUENCE))
    mask = torch.tensor([[0] * pad + [1] * (SEQUENCE - pad) for pad in PADDING])
    positions = (mask.cumsum(1) - 1).masked_fill(mask == 0, 1)
    for name, dtype in [("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)]:
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        stored = {key: tensor.to(dtype).contiguous() for key, tensor in source.items()}
        save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
        model = transformers.LlamaForCausalLM(config).eval().float()
        model.load_state_dict({key: tensor.float() for key, tensor in stored.items()})
        with torch.no_grad():
            logits = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits
        golden = {"p0.input_ids": ids, "p0.attention_mask": mask, "p0.position_ids": positions, "p0.logits": logits.float().contiguous()}
        save_file(golden, folder / "golden.safetensors")


class Emitter:
    """One graph over the safetensors file of `folder`: `compute` is the dtype of activations and cache."""

    def __init__(self, folder, compute):
        import ml_dtypes
        import numpy as np
        from onnx import TensorProto, helper, numpy_helper

        self.np, self.proto, self.helper, self.numpy_helper = np, TensorProto, helper, numpy_helper
        self.compute = compute
        self.numpy_dtype = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16, TensorProto.BFLOAT16: ml_dtypes.bfloat16}[compute]
        with open(folder / "model.safetensors", "rb") as file:
            self.base = 8 + (length := struct.unpack("<Q", file.read(8))[0])
            self.header = json.loads(file.read(length))
        self.nodes, self.initializers, self.count = [], {}, 0

    def op(self, kind, *inputs, out=None, **attributes):
        self.count += 1
        out = out or f"{kind}_{self.count}"
        self.nodes.append(self.helper.make_node(kind, inputs, [out], name=f"{kind}_{self.count}", **attributes))
        return out

    def ints(self, *values):
        return self.constant(self.np.array(values, self.np.int64))

    def scalar(self, value):
        return self.constant(self.np.array(value, self.numpy_dtype))

    def constant(self, array):
        name = f"constant_{len(self.initializers)}"
        self.initializers[name] = self.numpy_helper.from_array(array, name)
        return name

    def weight(self, name):
        entry = self.header[name]
        stored = {"F32": self.proto.FLOAT, "F16": self.proto.FLOAT16, "BF16": self.proto.BFLOAT16}[entry["dtype"]]
        begin, end = entry["data_offsets"]
        tensor = self.proto(name=name, dims=entry["shape"], data_type=stored, data_location=self.proto.EXTERNAL)
        for key, value in [("location", "model.safetensors"), ("offset", self.base + begin), ("length", end - begin)]:
            tensor.external_data.add(key=key, value=str(value))
        self.initializers[name] = tensor
        return name if stored == self.compute else self.op("Cast", name, to=self.compute)


def decoder(folder, out, compute, portable, last=False):
    import onnx

    emit = Emitter(folder, getattr(onnx.TensorProto, compute))
    np, op, ints = emit.np, emit.op, emit.ints
    prefix = "model.layers.{}.".format

    angles = np.outer(np.arange(POSITIONS), THETA ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM))
    cos, sin = (emit.constant(table.astype(np.float32)) for table in (np.cos(angles), np.sin(angles)))
    shape = op("Shape", "input_ids")
    # A query sees what is attended and not after it.
    sequence = op("Gather", shape, ints(1))
    total = op("Gather", op("Shape", "attention_mask"), ints(1))
    scalar = lambda value: op("Squeeze", value, ints(0))
    zero, one = emit.constant(np.array(0, np.int64)), emit.constant(np.array(1, np.int64))
    queries = op("Range", scalar(op("Sub", total, sequence)), scalar(total), one)
    keys = op("Range", zero, scalar(total), one)
    causal = op("LessOrEqual", op("Unsqueeze", keys, ints(0)), op("Unsqueeze", queries, ints(1)))
    padding = op("Unsqueeze", op("Cast", "attention_mask", to=onnx.TensorProto.BOOL), ints(1, 2))
    mask = op("And", op("Unsqueeze", causal, ints(0, 1)), padding)

    def norm(x, name):
        if portable:
            return op("RMSNormalization", x, emit.weight(name), axis=-1, epsilon=EPS)
        mean = op("ReduceMean", op("Mul", x, x), ints(-1), keepdims=1)
        return op("Mul", op("Div", x, op("Sqrt", op("Add", mean, emit.scalar(EPS)))), emit.weight(name))

    def heads(x, name, count):
        y = op("Gemm", x, emit.weight(name), transB=1)
        return op("Transpose", op("Reshape", y, op("Concat", shape, ints(count, HEAD_DIM), axis=0)), perm=[0, 2, 1, 3])

    def rotate(x):
        """In fp32, as 16-bit tables would lose the angle."""
        if compute != "FLOAT":
            return op("Cast", rotate_f32(op("Cast", x, to=onnx.TensorProto.FLOAT)), to=emit.compute)
        return rotate_f32(x)

    def rotate_f32(x):
        if portable:
            return op("RotaryEmbedding", x, cos, sin, "position_ids")
        half = HEAD_DIM // 2
        first, second = (op("Slice", x, ints(start), ints(start + half), ints(3)) for start in (0, half))
        c, s = (op("Unsqueeze", op("Gather", table, "position_ids"), ints(1)) for table in (cos, sin))
        left = op("Sub", op("Mul", first, c), op("Mul", second, s))
        right = op("Add", op("Mul", second, c), op("Mul", first, s))
        return op("Concat", left, right, axis=-1)

    def repeat(x):
        grouped = op("Expand", op("Unsqueeze", x, ints(2)), ints(1, 1, HEADS // KV_HEADS, 1, 1))
        return op("Reshape", grouped, op("Concat", op("Gather", shape, ints(0)), ints(HEADS, -1, HEAD_DIM), axis=0))

    def attend(q, k, v):
        if portable:
            return op("Attention", q, k, v, mask, scale=HEAD_DIM**-0.5)
        scores = op("Mul", op("MatMul", q, op("Transpose", repeat(k), perm=[0, 1, 3, 2])), emit.scalar(HEAD_DIM**-0.5))
        lowest = emit.scalar(-65504.0 if compute == "FLOAT16" else -3e38)
        return op("MatMul", op("Softmax", op("Where", mask, scores, lowest), axis=-1), repeat(v))

    x = op("Reshape", op("Gather", emit.weight("model.embed_tokens.weight"), "input_ids"), ints(-1, HIDDEN))
    for layer in range(LAYERS):
        p = prefix(layer)
        y = norm(x, p + "input_layernorm.weight")
        q = rotate(heads(y, p + "self_attn.q_proj.weight", HEADS))
        k = rotate(heads(y, p + "self_attn.k_proj.weight", KV_HEADS))
        v = heads(y, p + "self_attn.v_proj.weight", KV_HEADS)
        k = op("Concat", f"past_key_values.{layer}.key", k, axis=2, out=f"present.{layer}.key")
        v = op("Concat", f"past_key_values.{layer}.value", v, axis=2, out=f"present.{layer}.value")
        attended = op("Reshape", op("Transpose", attend(q, k, v), perm=[0, 2, 1, 3]), ints(-1, HEADS * HEAD_DIM))
        x = op("Add", x, op("Gemm", attended, emit.weight(p + "self_attn.o_proj.weight"), transB=1))
        y = norm(x, p + "post_attention_layernorm.weight")
        gate, up = (op("Gemm", y, emit.weight(p + f"mlp.{part}_proj.weight"), transB=1) for part in ("gate", "up"))
        inner = op("Mul", op("Mul", gate, op("Sigmoid", gate)), up)
        x = op("Add", x, op("Gemm", inner, emit.weight(p + "mlp.down_proj.weight"), transB=1))
    x = op("Gemm", norm(x, "model.norm.weight"), emit.weight("lm_head.weight"), transB=1)
    x = op("Reshape", x, op("Concat", shape, ints(VOCAB), axis=0))
    if last:
        x = op("Gather", x, ints(-1), axis=1)
    op("Cast", x, to=onnx.TensorProto.FLOAT, out="logits")

    info, int64 = emit.helper.make_tensor_value_info, onnx.TensorProto.INT64
    batch, new, all_ = "batch_size", "sequence_length", "total_sequence_length"
    inputs = [info("input_ids", int64, [batch, new]), info("attention_mask", int64, [batch, all_]), info("position_ids", int64, [batch, new])]
    outputs = [info("logits", onnx.TensorProto.FLOAT, [batch, 1 if last else new, VOCAB])]
    for layer in range(LAYERS):
        for part in ("key", "value"):
            past = [batch, KV_HEADS, "past_sequence_length", HEAD_DIM]
            inputs.append(info(f"past_key_values.{layer}.{part}", emit.compute, past))
            outputs.append(info(f"present.{layer}.{part}", emit.compute, [batch, KV_HEADS, all_, HEAD_DIM]))
    graph = emit.helper.make_graph(emit.nodes, "decoder", inputs, outputs, list(emit.initializers.values()))
    opset = emit.helper.make_opsetid("", 23 if portable else 21)
    model = emit.helper.make_model(graph, opset_imports=[opset], ir_version=11 if portable else 10, producer_name="runtime_fixtures.py")
    onnx.save(model, folder / out)
    onnx.checker.check_model(folder / out, full_check=compute != "BFLOAT16")


def graphs(out):
    decoder(out / "f32", "portable.onnx", "FLOAT", portable=True)
    decoder(out / "f32", "primitive.onnx", "FLOAT", portable=False)
    decoder(out / "f32", "last.onnx", "FLOAT", portable=True, last=True)
    decoder(out / "f16", "portable.onnx", "FLOAT16", portable=True)
    decoder(out / "f16", "primitive.onnx", "FLOAT16", portable=False)
    decoder(out / "bf16", "compute_f32.onnx", "FLOAT", portable=True)
    decoder(out / "bf16", "compute_bf16.onnx", "BFLOAT16", portable=False)


if __name__ == "__main__":
    {"checkpoints": checkpoints, "graphs": graphs}[sys.argv[1]](Path(sys.argv[2]))
