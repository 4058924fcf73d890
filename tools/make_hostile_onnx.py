"""Makes testdata/onnx_hostile: a tiny Llama, a right graph of it (`base.onnx`), and copies of that graph with one thing wrong each.

    python tools/make_hostile_onnx.py testdata/onnx_hostile      # needs onnx, numpy, ml_dtypes

The folder is a checkpoint too, so that `plansmith verify FOLDER --onnx FOLDER/base.onnx` agrees. `expected.json` says for each graph whether
`inspect` refuses it (`verify` refuses all but the base), and what the refusal must name.
"""

import json
import struct
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import runtime_fixtures

SIZES = dict(HIDDEN=8, HEADS=2, KV_HEADS=1, HEAD_DIM=4, INTERMEDIATE=8, LAYERS=1, VOCAB=32, POSITIONS=32)
WEIGHT = "lm_head.weight"
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def checkpoint(folder):
    for key, value in SIZES.items():
        setattr(runtime_fixtures, key, value)
    hidden, inner, vocab, layer = SIZES["HIDDEN"], SIZES["INTERMEDIATE"], SIZES["VOCAB"], "model.layers.0."
    queries, keys = SIZES["HEADS"] * SIZES["HEAD_DIM"], SIZES["KV_HEADS"] * SIZES["HEAD_DIM"]
    shapes = {
        "model.embed_tokens.weight": (vocab, hidden), layer + "input_layernorm.weight": (hidden,),
        layer + "self_attn.q_proj.weight": (queries, hidden), layer + "self_attn.k_proj.weight": (keys, hidden),
        layer + "self_attn.v_proj.weight": (keys, hidden), layer + "self_attn.o_proj.weight": (hidden, queries),
        layer + "post_attention_layernorm.weight": (hidden,), layer + "mlp.gate_proj.weight": (inner, hidden),
        layer + "mlp.up_proj.weight": (inner, hidden), layer + "mlp.down_proj.weight": (hidden, inner),
        "model.norm.weight": (hidden,), WEIGHT: (vocab, hidden),
    }
    random, header, payload = np.random.default_rng(4), {}, b""
    for name, shape in shapes.items():
        data = (random.standard_normal(shape) * 0.5 + (1 if "norm" in name else 0)).astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(payload), len(payload) + len(data)]}
        payload += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.joinpath("model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + payload)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "num_attention_heads": SIZES["HEADS"],
        "num_key_value_heads": SIZES["KV_HEADS"], "head_dim": SIZES["HEAD_DIM"], "intermediate_size": inner,
        "num_hidden_layers": SIZES["LAYERS"], "vocab_size": vocab, "max_position_embeddings": SIZES["POSITIONS"], "hidden_act": "silu",
        "rms_norm_eps": runtime_fixtures.EPS, "rope_theta": runtime_fixtures.THETA, "tie_word_embeddings": False, "dtype": "float32",
    }
    folder.joinpath("config.json").write_text(json.dumps(config, indent=1) + "\n")


# Reading and changing the base.


def initialiser(model, name=WEIGHT):
    return next(tensor for tensor in model.graph.initializer if tensor.name == name)


def node(model, kind):
    return next(node for node in model.graph.node if node.op_type == kind)


def entry(tensor, key, value):
    """Sets a key of `external_data`, or removes it."""
    kept = [(item.key, item.value) for item in tensor.external_data if item.key != key]
    del tensor.external_data[:]
    for name, old in kept + ([] if value is None else [(key, value)]):
        tensor.external_data.add(key=name, value=str(value if name == key else old))


def inline(tensor):
    """Makes the tensor an inline one of zeros."""
    del tensor.external_data[:]
    tensor.ClearField("data_location")
    tensor.raw_data = bytes(4 * int(np.prod(tensor.dims)))
    return tensor


def external(location, name="planted"):
    tensor = TensorProto(name=name, data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in [("location", location), ("offset", "0"), ("length", "8")]:
        tensor.external_data.add(key=key, value=value)
    return tensor


def constant(array, name):
    return onnx.numpy_helper.from_array(np.asarray(array), name)


def before(model, *nodes):
    """Puts nodes before all others."""
    kept = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(list(nodes) + kept)


def function(name, calls):
    return helper.make_function("local", name, ["x"], ["y"], [
        helper.make_node(call, ["x" if index == 0 else f"v{index}"], ["y" if index + 1 == len(calls) else f"v{index + 1}"], domain=domain)
        for index, (domain, call) in enumerate(calls)
    ], [helper.make_opsetid("", 23), helper.make_opsetid("local", 1)])


def with_functions(model, functions):
    model.functions.extend(functions)
    model.opset_import.append(helper.make_opsetid("local", 1))
    before(model, helper.make_node(functions[0].name, [WEIGHT], ["called"], "call", domain="local"))


def branch(output, initialisers=(), nodes=None):
    nodes = nodes or [helper.make_node("Identity", [initialisers[0].name if initialisers else WEIGHT], [output])]
    return helper.make_graph(nodes, output, [], [helper.make_tensor_value_info(output, FLOAT, None)], list(initialisers))


def choice(then, other):
    return helper.make_node("If", ["flag"], ["chosen"], "choice", then_branch=then, else_branch=other)


def flag(model):
    model.graph.initializer.append(constant(True, "flag"))


CASES, EVERY_VERB, VERIFY = {}, True, False


def case(name, names, inspect=EVERY_VERB):
    """Registers a change of the base under `name`; the refusal must hold every one of `names`."""

    def register(change):
        CASES[name] = (change, [names] if isinstance(names, str) else list(names), inspect)
        return change

    return register


def change_entry(name, key, value, *names, inspect=EVERY_VERB):
    case(name, [WEIGHT, *names], inspect)(lambda model: entry(initialiser(model), key, value))


# External data.

for name, location in {
    "parent": "../onnx_hostile/model.safetensors", "far_parent": "../../../../../../../../etc/passwd", "absolute": "/etc/passwd",
    "through_a_folder": "here/../model.safetensors", "current_folder": "./model.safetensors", "backslash": "..\\model.safetensors",
    "drive": "C:model.safetensors", "dot": ".", "dot_dot": "..", "empty": "", "nul": "model.safetensors\0.bin", "newline": "a\nb",
}.items():
    change_entry(f"external_{name}", "location", location, "location")
change_entry("external_no_location", "location", None, "location")
change_entry("external_missing_file", "location", "nothing.bin", "nothing.bin", inspect=VERIFY)
for name, offset in {
    "negative": "-8", "plus": "+8", "hex": "0x10", "spaces": " 8", "text": "eight", "fraction": "1.5", "beyond_int64": 2**63, "empty": "",
    "overflow": 2**63 - 1,
}.items():
    change_entry(f"external_offset_{name}", "offset", offset, "offset")
change_entry("external_offset_past_end", "offset", 2**40, "model.safetensors", inspect=VERIFY)
for name, length in {"negative": "-1", "beyond_int64": 2**64, "overflow": 2**63 - 1}.items():
    change_entry(f"external_length_{name}", "length", length, "length")
for name, length in {"short": 1020, "long": 1028, "zero": 0}.items():
    change_entry(f"external_length_{name}", "length", length, "1024", str(length), inspect=VERIFY)


@case("external_past_end", [WEIGHT, "model.safetensors", "has only"], VERIFY)
def past_end(model):
    tensor = initialiser(model)
    offset = int(next(item.value for item in tensor.external_data if item.key == "offset"))
    entry(tensor, "offset", offset + 4)


@case("external_huge", [WEIGHT, "model.safetensors"], VERIFY)
def huge(model):
    tensor = initialiser(model)
    tensor.dims[:] = [2**30, 2**28]
    entry(tensor, "length", 2**60)


@case("external_overlap", ["model.norm.weight", "overlap"])
def overlap(model):
    tensor = initialiser(model, "model.norm.weight")
    offset = int(next(item.value for item in tensor.external_data if item.key == "offset"))
    entry(tensor, "offset", offset - 4)


@case("external_key_twice", [WEIGHT, "location", "twice"])
def key_twice(model):
    initialiser(model).external_data.add(key="location", value="other.bin")


@case("external_and_inline", [WEIGHT, "raw_data"])
def and_inline(model):
    initialiser(model).raw_data = bytes(1024)


@case("external_not_marked", [WEIGHT, "external_data"])
def not_marked(model):
    initialiser(model).ClearField("data_location")


@case("external_strings", [WEIGHT, "STRING"])
def strings(model):
    initialiser(model).data_type = TensorProto.STRING


@case("external_in_a_subgraph", ["planted", "/etc/passwd"])
def in_a_subgraph(model):
    flag(model)
    before(model, choice(branch("a"), branch("b", [external("/etc/passwd")])))


@case("external_in_an_attribute", ["planted", "../up.bin"])
def in_an_attribute(model):
    before(model, helper.make_node("Constant", [], ["c"], "c", value=external("../up.bin")))


@case("external_in_a_function", ["planted", "../up.bin"])
def in_a_function(model):
    body = helper.make_node("Constant", [], ["y"], "c", value=external("../up.bin"))
    model.functions.append(helper.make_function("local", "f", ["x"], ["y"], [body], [helper.make_opsetid("", 23)]))
    model.opset_import.append(helper.make_opsetid("local", 1))
    before(model, helper.make_node("f", [WEIGHT], ["called"], "call", domain="local"))


@case("external_in_a_sparse_tensor", ["planted", "/etc/passwd"])
def in_a_sparse_tensor(model):
    sparse = model.graph.sparse_initializer.add(dims=[8])
    sparse.values.CopyFrom(external("/etc/passwd"))
    sparse.indices.CopyFrom(constant(np.arange(2), "indices"))


# Structure.


@case("node_cycle", ["/a", "circle"])
def node_cycle(model):
    before(model, helper.make_node("Add", ["y", WEIGHT], ["x"], "/a"), helper.make_node("Identity", ["x"], ["y"], "/b"))


@case("node_feeds_itself", ["/a", "circle"])
def feeds_itself(model):
    before(model, helper.make_node("Add", ["x", WEIGHT], ["x"], "/a"))


@case("node_dangling_input", ["/a", "`nowhere`"])
def dangling_input(model):
    before(model, helper.make_node("Add", ["nowhere", WEIGHT], ["x"], "/a"))


@case("node_before_its_input", ["Reshape", "order"])
def before_its_input(model):
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))


@case("node_value_twice", ["logits", "twice"])
def value_twice(model):
    model.graph.node.append(helper.make_node("Identity", [WEIGHT], ["logits"], "/again"))


@case("node_overwrites_an_input", ["input_ids", "twice"])
def overwrites_an_input(model):
    before(model, helper.make_node("Identity", [WEIGHT], ["input_ids"], "/over"))


@case("node_overwrites_a_weight", [WEIGHT, "twice"])
def overwrites_a_weight(model):
    before(model, helper.make_node("Identity", ["model.norm.weight"], [WEIGHT], "/over"))


@case("node_without_operator", ["/empty", "operator"])
def without_operator(model):
    before(model, helper.make_node("", [WEIGHT], ["x"], "/empty"))


@case("node_of_an_unknown_domain", ["/a", "com.example"])
def unknown_domain(model):
    before(model, helper.make_node("Add", [WEIGHT, WEIGHT], ["x"], "/a", domain="com.example"))


@case("node_of_an_unknown_operator", ["Nonsense"], VERIFY)
def unknown_operator(model):
    node(model, "RotaryEmbedding").op_type = "Nonsense"


@case("node_dangling_in_a_subgraph", ["/deep", "`nowhere`"])
def dangling_in_a_subgraph(model):
    flag(model)
    before(model, choice(branch("a"), branch("b", nodes=[helper.make_node("Identity", ["nowhere"], ["b"], "/deep")])))


@case("node_uses_a_branch_s_value", ["/out", "`inner`"])
def uses_a_branchs_value(model):
    flag(model)
    inner = [helper.make_node("Identity", [WEIGHT], ["inner"], "/in"), helper.make_node("Identity", ["inner"], ["b"], "/end")]
    before(model, choice(branch("a"), branch("b", nodes=inner)), helper.make_node("Identity", ["inner"], ["x"], "/out"))


@case("initializer_twice", [WEIGHT, "twice"])
def initialiser_twice(model):
    model.graph.initializer.append(initialiser(model))


@case("initializer_without_name", "no name")
def without_name(model):
    initialiser(model, "model.norm.weight").name = ""


@case("input_twice", ["input_ids", "twice"])
def input_twice(model):
    model.graph.input.append(model.graph.input[0])


@case("output_twice", ["logits", "twice"])
def output_twice(model):
    model.graph.output.append(model.graph.output[0])


@case("output_of_no_node", ["`nothing`", "no node"])
def output_of_no_node(model):
    model.graph.output[0].name = "nothing"


@case("no_operator_sets", "operator set")
def no_operator_sets(model):
    del model.opset_import[:]


@case("operator_set_twice", "twice")
def operator_set_twice(model):
    model.opset_import.append(helper.make_opsetid("ai.onnx", 21))


@case("no_nodes", ["logits", "no node"])
def no_nodes(model):
    del model.graph.node[:]


@case("function_calls_itself", ["`f`", "circle"])
def calls_itself(model):
    with_functions(model, [function("f", [("local", "f")])])


@case("functions_in_a_circle", ["`f`", "circle"])
def in_a_circle(model):
    with_functions(model, [function("f", [("local", "g")]), function("g", [("local", "f")])])


@case("functions_that_double", ["function", "nodes"])
def that_double(model):
    doubling = [function(f"f{index}", [("local", f"f{index + 1}")] * 2) for index in range(60)]
    with_functions(model, doubling + [function("f60", [("", "Identity")])])


@case("function_twice", ["`f`", "twice"])
def function_twice(model):
    with_functions(model, [function("f", [("", "Identity")]), function("f", [("", "Neg")])])


@case("function_dangling", ["`f`", "`nowhere`"])
def function_dangling(model):
    body = helper.make_node("Identity", ["nowhere"], ["y"], "/a")
    with_functions(model, [helper.make_function("local", "f", ["x"], ["y"], [body], [helper.make_opsetid("", 23)])])


# Shapes, dtypes and sizes.


def tensor_case(name, names, inspect=EVERY_VERB):
    def register(change):
        return case(name, [WEIGHT, *names], inspect)(lambda model: change(inline(initialiser(model))))

    return register


@tensor_case("shape_negative", ["-8"])
def shape_negative(tensor):
    tensor.dims[1] = -8


@tensor_case("shape_overflows", ["4611686018427387904"])
def shape_overflows(tensor):
    tensor.dims[:] = [2**62, 2**62]


@tensor_case("shape_huge", ["1099511627776"])
def shape_huge(tensor):
    tensor.dims[:] = [2**40]


@tensor_case("shape_huge_and_nothing_there", ["4294967296"])
def nothing_there(tensor):
    tensor.dims[:] = [2**32]
    tensor.ClearField("raw_data")


@tensor_case("shape_of_many_ones", ["dimensions"])
def many_ones(tensor):
    tensor.dims[:] = [1] * 5000


@tensor_case("data_short", ["1024", "1020"])
def data_short(tensor):
    tensor.raw_data = tensor.raw_data[:-4]


@tensor_case("data_long", ["1024", "1028"])
def data_long(tensor):
    tensor.raw_data += b"1234"


@tensor_case("data_ragged", ["1024", "1023"])
def data_ragged(tensor):
    tensor.raw_data = tensor.raw_data[:-1]


@tensor_case("data_in_another_field", ["int64_data"])
def another_field(tensor):
    tensor.ClearField("raw_data")
    tensor.int64_data.extend([0] * 256)


@tensor_case("data_in_two_fields", ["raw_data", "float_data"])
def two_fields(tensor):
    tensor.float_data.extend([0] * 256)


@tensor_case("data_few_floats", ["256", "255"])
def few_floats(tensor):
    tensor.ClearField("raw_data")
    tensor.float_data.extend([0] * 255)


@tensor_case("data_in_segments", ["segment"])
def in_segments(tensor):
    tensor.segment.begin, tensor.segment.end = 0, 1 << 40


@tensor_case("dtype_unknown", ["99"])
def dtype_unknown(tensor):
    tensor.data_type = 99


@tensor_case("dtype_undefined", ["0"])
def dtype_undefined(tensor):
    tensor.data_type = 0


@tensor_case("dtype_negative", ["-1"])
def dtype_negative(tensor):
    tensor.data_type = -1


@tensor_case("dtype_of_another_size", ["2048"])
def another_size(tensor):
    tensor.data_type = TensorProto.DOUBLE


def port(name, names, change, which=0, kind="input", inspect=EVERY_VERB):
    case(name, names, inspect)(lambda model: change(getattr(model.graph, kind)[which]))


port("input_dtype_unknown", ["input_ids", "99"], lambda info: setattr(info.type.tensor_type, "elem_type", 99))
port("input_dtype_string", ["input_ids"], lambda info: setattr(info.type.tensor_type, "elem_type", TensorProto.STRING))
port("input_without_type", ["input_ids"], lambda info: info.ClearField("type"))
port("input_without_shape", ["input_ids", "shape"], lambda info: info.type.tensor_type.ClearField("shape"))
port("input_negative", ["input_ids", "-2"], lambda info: setattr(info.type.tensor_type.shape.dim[0], "dim_value", -2))
port("input_sequence", ["input_ids"], lambda info: info.type.CopyFrom(helper.make_sequence_type_proto(helper.make_tensor_type_proto(INT64, [1]))))
port("output_dtype_unknown", ["logits", "77"], lambda info: setattr(info.type.tensor_type, "elem_type", 77), kind="output")
port("output_huge", ["logits", "1125899906842624"], lambda info: setattr(info.type.tensor_type.shape.dim[2], "dim_value", 2**50), kind="output")
port("cache_heads_huge", ["past_key_values.0.key"], lambda info: setattr(info.type.tensor_type.shape.dim[1], "dim_value", 2**62), 3)
port("cache_width_huge", ["past_key_values.0.key"], lambda info: setattr(info.type.tensor_type.shape.dim[3], "dim_value", 2**62), 3)


def planted(name, initialisers, new, *names):
    """An operator on constants that would make a terabyte, feeding the logits so that nobody drops it."""

    @case(name, names)
    def plant(model):
        model.graph.initializer.extend(constant(value, key) for key, value in initialisers.items())
        last = next(node for node in model.graph.node if "logits" in node.output)
        last.output[0] = "true_logits"
        model.graph.node.extend([
            new, helper.make_node("ReduceMax", ["bomb"], ["most"], "/most", keepdims=0), helper.make_node("Cast", ["most"], ["cast"], "/cast", to=FLOAT),
            helper.make_node("Add", ["true_logits", "cast"], ["logits"], "/logits"),
        ])


SHAPE = np.array([2**20, 2**20], np.int64)
planted("bomb_constant_of_shape", {"s": SHAPE}, helper.make_node("ConstantOfShape", ["s"], ["bomb"], "/bomb"), "/bomb", "1099511627776")
planted("bomb_expand", {"s": SHAPE, "x": np.float32(1)}, helper.make_node("Expand", ["x", "s"], ["bomb"], "/bomb"), "/bomb", "1099511627776")
planted("bomb_tile", {"s": SHAPE, "x": np.ones((1, 1), np.float32)}, helper.make_node("Tile", ["x", "s"], ["bomb"], "/bomb"), "/bomb", "1099511627776")
planted("bomb_range", {"a": np.int64(0), "b": np.int64(2**40), "c": np.int64(1)}, helper.make_node("Range", ["a", "b", "c"], ["bomb"], "/bomb"), "/bomb", "1099511627776")


# Bytes.


def varint(number):
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def nested(depth, tags, innermost=b""):
    for _ in range(depth):
        for tag in reversed(tags):
            innermost = field(tag, innermost)
    return innermost


def replaced(base, old, new):
    assert base.count(old) >= 1 and len(old) == len(new)
    return base.replace(old, new)


def raw_cases(base):
    graph = base.graph.SerializeToString()
    whole = base.SerializeToString()
    opset = field(8, b"\x10\x17")
    yield "bytes_none", b"", ["no graph"]
    yield "bytes_zero", bytes(64), []
    yield "bytes_text", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935\nsize 12345\n", []
    yield "bytes_json", b'{"model_type": "llama"}\n', []
    yield "bytes_high", b"\xff" * 64, []
    yield "bytes_of_a_safetensors_file", struct.pack("<Q", 16) + b'{"__metadata__":', []
    yield "bytes_of_a_graph_alone", graph, []
    yield "bytes_without_a_graph", opset, ["no graph"]
    yield "bytes_of_an_empty_graph", field(7, b"") + opset, ["output"]
    yield "bytes_after_the_end", whole + b"\x0a\xff\xff\xff\xff\x0f", []
    yield "length_of_an_exabyte", varint(7 << 3 | 2) + varint(2**60) + graph, []
    yield "length_of_all_bits", varint(7 << 3 | 2) + b"\xff" * 9 + b"\x01" + graph, []
    yield "length_of_an_inner_field", field(7, varint(5 << 3 | 2) + varint(2**31) + graph), []
    yield "varint_of_twelve_bytes", b"\x08" + b"\x80" * 12 + b"\x01" + whole, []
    yield "field_number_zero", b"\x02\x00" + whole, []
    yield "wire_type_seven", b"\x0f" + whole, []
    yield "wire_type_of_another", b"\x38\x01" + whole, ["graph"]
    yield "group_without_end", b"\xa3\x06" * 5000 + whole, []
    yield "group_end_alone", b"\xa4\x06" + whole, []
    yield "deep_subgraphs", field(7, nested(200, [1, 5, 6])) + opset, []
    yield "deep_types", field(7, field(11, field(1, b"x") + field(2, nested(500, [4, 1])))) + opset, []
    yield "not_utf8_in_a_name", replaced(whole, b"lm_head.weight", b"lm_head\xff\xfe\x80weigh"[:14]), ["UTF-8"]
    yield "not_utf8_in_an_operator", replaced(whole, b"RotaryEmbedding", b"RotaryEmbeddin\xc3"), ["UTF-8"]
    yield "not_utf8_in_a_location", replaced(whole, b"model.safetensors", b"model.safetensor\xf8"), ["UTF-8"]
    yield "surrogate_in_a_name", replaced(whole, b"input_ids", b"input\xed\xa0\x80s"), ["UTF-8"]
    yield "many_empty_nodes", field(7, b"\x0a\x00" * 40_000) + opset, ["operator"]
    yield "many_empty_attributes", field(7, field(1, field(4, b"Add") + b"\x2a\x00" * 100_000)) + opset, ["memory"]
    for share in (1, 5, 10, 25, 50, 75, 90, 99):
        yield f"truncated_at_{share:02}_percent", whole[: len(whole) * share // 100], []
    yield "truncated_by_one", whole[:-1], []


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.onnx"):
        old.unlink()
    checkpoint(folder)
    runtime_fixtures.decoder(folder, "base.onnx", "FLOAT", portable=True)
    expected = {}
    for name, (change, names, inspect) in CASES.items():
        model = onnx.load(folder / "base.onnx", load_external_data=False)
        change(model)
        folder.joinpath(f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
        expected[name] = {"inspect": inspect, "names": names}
    for name, content, names in raw_cases(onnx.load(folder / "base.onnx", load_external_data=False)):
        folder.joinpath(f"{name}.onnx").write_bytes(content)
        expected[name] = {"inspect": True, "names": names}
    folder.joinpath("expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
    print(len(expected), "hostile graphs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
