"""Makes graphs in the styles of others from testdata/runtime/f32/primitive.onnx (and f16/): other names, dtypes, shapes and forms of the cache.

Each computes what the graph that it is made from computes, and onnxruntime is asked whether it does: the row without padding is prefilled
with it and compared with transformers' logits in golden.safetensors.

    python tools/foreign_styles.py testdata/runtime     # needs onnx, onnxruntime, safetensors
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from safetensors.numpy import load_file

BATCH, NEW, ALL, PAST = "batch_size", "sequence_length", "total_sequence_length", "past_sequence_length"
KV_HEADS, HEAD_DIM, LAYERS, VOCAB = 2, 16, 2, 64
ints = lambda name, *values: helper.make_tensor(name, TensorProto.INT64, [len(values)], values)


def load(root, name="f32/primitive.onnx"):
    return onnx.load(root / name, load_external_data=False)


def rename(model, names):
    """Renames values everywhere; `names` from ours to theirs."""
    for value in [*model.graph.input, *model.graph.output]:
        value.name = names.get(value.name, value.name)
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    return model


def caches():
    return [(layer, part) for layer in range(LAYERS) for part in ("key", "value")]


def front(model, *nodes):
    """Puts nodes first."""
    rest = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *rest])


def take(values, name):
    index = next(index for index, value in enumerate(values) if value.name == name)
    return values.pop(index)


def cast_inputs(model, dtype, names):
    """Inputs `names` of another dtype, widened to int64 at once."""
    rename(model, {name: name + "_wide" for name in names})
    for value in model.graph.input:
        if value.name.removesuffix("_wide") in names:
            value.name = value.name.removesuffix("_wide")
            value.type.tensor_type.elem_type = dtype
    front(model, *[helper.make_node("Cast", [name], [name + "_wide"], to=TensorProto.INT64) for name in names])
    return model


def named(root):
    """int32, and names that tell."""
    model = cast_inputs(load(root), TensorProto.INT32, ["input_ids", "attention_mask", "position_ids"])
    names = {"input_ids": "tokens", "attention_mask": "mask", "position_ids": "positions", "logits": "lm_logits"}
    for layer, part in caches():
        names[f"past_key_values.{layer}.{part}"] = f"past_{part}_{layer + 1}"
        names[f"present.{layer}.{part}"] = f"present_{part}_{layer + 1}"
    return rename(model, names)


def opaque(root):
    """Names that do not tell, and shapes that leave ids and positions alike."""
    names = {"input_ids": "a", "attention_mask": "b", "position_ids": "c", "logits": "out"}
    for layer, part in caches():
        names[f"past_key_values.{layer}.{part}"] = f"state.{layer}.{'xy'[part == 'value']}"
        names[f"present.{layer}.{part}"] = f"next.{layer}.{'xy'[part == 'value']}"
    return rename(load(root), names)


def bool_mask(root):
    return cast_inputs(load(root), TensorProto.BOOL, ["attention_mask"])


def stacked(root):
    """Key and value of a layer in one tensor, as onnxruntime's GPT-2 tools write them."""
    model = load(root)
    graph = model.graph
    graph.initializer.extend([ints("first", 0)])
    before = []
    for layer in range(LAYERS):
        pair = [f"past_key_values.{layer}.key", f"past_key_values.{layer}.value"]
        for name in pair:
            take(graph.input, name)
        graph.input.append(helper.make_tensor_value_info(f"past_{layer}", TensorProto.FLOAT, [2, BATCH, KV_HEADS, PAST, HEAD_DIM]))
        split = [name + "_split" for name in pair]
        before.append(helper.make_node("Split", [f"past_{layer}"], split, axis=0, num_outputs=2))
        before += [helper.make_node("Squeeze", [half, "first"], [name]) for half, name in zip(split, pair)]
        pair = [f"present.{layer}.key", f"present.{layer}.value"]
        for name in pair:
            take(graph.output, name)
            graph.node.append(helper.make_node("Unsqueeze", [name, "first"], [name + "_half"]))
        graph.node.append(helper.make_node("Concat", [name + "_half" for name in pair], [f"present_{layer}"], axis=0))
        graph.output.append(helper.make_tensor_value_info(f"present_{layer}", TensorProto.FLOAT, [2, BATCH, KV_HEADS, ALL, HEAD_DIM]))
    front(model, *before)
    return model


def merged(root):
    """One branch for each of a cache and none, as optimum's merge_decoders writes them."""
    with_past, without = load(root), load(root)
    for node in without.graph.node:
        if node.op_type == "Concat" and node.input[0].startswith("past_key_values."):
            node.op_type = "Identity"
            del node.input[0], node.attribute[:]
    outputs = [output.name for output in with_past.graph.output]
    for suffix, branch in [("_with", with_past), ("_without", without)]:
        rename(branch, {name: name + suffix for node in branch.graph.node for name in node.output})
    shell = load(root)
    branches = {}
    for name, branch in [("then_branch", with_past), ("else_branch", without)]:
        branches[name] = helper.make_graph(branch.graph.node, name, [], branch.graph.output)
    del shell.graph.node[:]
    shell.graph.node.append(helper.make_node("If", ["use_cache_branch"], outputs, **branches))
    shell.graph.input.append(helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1]))
    return shell


def counted(root):
    """No position_ids: the graph counts attended tokens itself."""
    model = load(root)
    take(model.graph.input, "position_ids")
    model.graph.initializer.extend([ints("one", 1), ints("axis", 1), ints("zero", 0), ints("end", 2**62)])
    front(
        model,
        helper.make_node("CumSum", ["attention_mask", "axis_scalar"], ["attended"]),
        helper.make_node("Sub", ["attended", "one"], ["counted"]),
        helper.make_node("Max", ["counted", "zero"], ["positions_of_all"]),
        helper.make_node("Shape", ["input_ids"], ["new_shape"], start=1),
        helper.make_node("Neg", ["new_shape"], ["from_end"]),
        helper.make_node("Slice", ["positions_of_all", "from_end", "end", "axis"], ["position_ids"]),
    )
    model.graph.initializer.append(helper.make_tensor("axis_scalar", TensorProto.INT64, [], [1]))
    return model


def maskless(root):
    """Neither mask nor positions: every token is attended."""
    model = load(root)
    for name in ["attention_mask", "position_ids"]:
        take(model.graph.input, name)
    model.graph.initializer.extend([ints("one", 1)])
    model.graph.initializer.append(helper.make_tensor("scalar_one", TensorProto.INT64, [], [1]))
    scalar = lambda value, name: helper.make_node("Squeeze", [value], [name])
    front(
        model,
        helper.make_node("Shape", ["past_key_values.0.key"], ["past_length"], start=2, end=3),
        helper.make_node("Shape", ["input_ids"], ["new_length"], start=1),
        helper.make_node("Shape", ["input_ids"], ["rows"], end=1),
        helper.make_node("Add", ["past_length", "new_length"], ["length"]),
        helper.make_node("Concat", ["rows", "length"], ["mask_shape"], axis=0),
        helper.make_node("Expand", ["one", "mask_shape"], ["attention_mask"]),
        scalar("past_length", "begin"),
        scalar("length", "stop"),
        helper.make_node("Range", ["begin", "stop", "scalar_one"], ["position_row"]),
        helper.make_node("Shape", ["input_ids"], ["ids_shape"]),
        helper.make_node("Expand", ["position_row", "ids_shape"], ["position_ids"]),
    )
    return model


def last_flat(root):
    """Logits of the last position as [batch, vocab], and two rows, neither more nor fewer."""
    model = load(root)
    rename(model, {"logits": "logits_of_all"})
    take(model.graph.output, "logits_of_all")
    model.graph.initializer.append(helper.make_tensor("last", TensorProto.INT64, [], [-1]))
    model.graph.node.append(helper.make_node("Gather", ["logits_of_all", "last"], ["logits"], axis=1))
    model.graph.output.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, [2, VOCAB]))
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_value = 2
    return model


def half_logits(root):
    """fp16 cache and logits."""
    model = load(root, "f16/primitive.onnx")
    cast = model.graph.node.pop()
    assert cast.op_type == "Cast" and cast.output[0] == "logits"
    rename(model, {cast.input[0]: "logits"})
    next(value for value in model.graph.output if value.name == "logits").type.tensor_type.elem_type = TensorProto.FLOAT16
    return model


def prefill(path, golden):
    """Largest difference of the logits of the row without padding, over their standard deviation."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    row = int(np.flatnonzero(golden["p0.attention_mask"].all(axis=1))[0])
    wanted = golden["p0.logits"][row]
    sequence = len(wanted)
    numpy = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_, "tensor(float)": np.float32, "tensor(float16)": np.float16}
    feed = {}
    for value in session.get_inputs():
        rows = value.shape[0] if isinstance(value.shape[0], int) and len(value.shape) == 2 else 1
        name, dtype = value.name, numpy[value.type]
        if len(value.shape) > 2:
            feed[name] = np.zeros([dim if isinstance(dim, int) else {BATCH: 1, PAST: 0}[dim] for dim in value.shape], dtype)
        elif name == "use_cache_branch":
            feed[name] = np.zeros([1], dtype)
        elif name in ("input_ids", "tokens", "a"):
            feed[name] = np.repeat(golden["p0.input_ids"][row : row + 1], rows, 0).astype(dtype)
        elif name in ("position_ids", "positions", "c"):
            feed[name] = np.repeat(np.arange(sequence)[None], rows, 0).astype(dtype)
        else:
            feed[name] = np.ones([rows, sequence], dtype)
    logits = next(output for output in session.run(None, feed) if output.shape[-1] == VOCAB)[0].astype(np.float32)
    return np.abs(logits - (wanted if logits.ndim == 2 else wanted[-1])).max() / wanted.std()


if __name__ == "__main__":
    root = Path(sys.argv[1])
    for folder, limit, styles in [
        ("f32", 1e-4, [named, opaque, bool_mask, stacked, merged, counted, maskless, last_flat]),
        ("f16", 2e-2, [half_logits]),
    ]:
        golden = load_file(root / folder / "golden.safetensors")
        for style in styles:
            path = root / folder / f"{style.__name__}.onnx"
            onnx.save(style(root), path)
            onnx.checker.check_model(path, full_check=True)
            found = prefill(path, golden)
            print(f"{path}: max_rel {found:.1e} on onnxruntime {onnxruntime.__version__}")
            assert found <= limit
