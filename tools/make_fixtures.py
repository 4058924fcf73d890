#!/usr/bin/env python3
"""Makes the tiny checkpoints `testdata/cases/made_*` and their golden logits with transformers.

    make_fixtures.py [-o testdata/cases] [NAME ...]

Each case turns on one feature of a family. Weights are random, seeded by the case's name and scaled so that attention is sharp; the
script proves that the feature matters by switching it off: the logits must move by more than a hundredth of their spread.
The golden logits come from loading the written folder again, so they hold what transformers reads from the files.
Needs: torch, transformers 5.24, safetensors.
"""

import argparse
import copy
import dataclasses
import hashlib
import inspect
import json
import math
import pathlib
import shutil

import torch
import transformers
from safetensors.torch import save_file

from capture_golden import left_padded
from fixtures import FAMILIES
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

# What classes call the keys of BASE, where they do not call them so.
ALIASES = dict(
    hidden_size=("n_embd", "d_model"), intermediate_size=("n_inner", "ffn_dim", "dff", "ffn_hidden_size"),
    num_hidden_layers=("n_layer", "n_layers", "num_layers"), num_attention_heads=("n_head", "n_heads", "num_heads", "attention_heads"),
    num_key_value_heads=("num_kv_heads",), max_position_embeddings=("n_positions", "max_seq_len"),
    rms_norm_eps=("layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon"),
)
BASE = dict(
    vocab_size=128, hidden_size=64, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=256, rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)
LEAST_EFFECT = 1e-2


@dataclasses.dataclass
class Case:
    """One checkpoint: `on` is added to the base config; with `off` instead the logits must differ."""

    family: str
    pins: str
    on: dict = dataclasses.field(default_factory=dict)
    off: dict | None = None
    zero: str | None = None  # off: tensors whose name ends so are zero
    untie: bool = False  # off: the head is a matrix of its own
    layout: str = "v5"
    prompt: int = 20
    shard: str | None = None
    absent: tuple = ()  # keys left out of config.json: the class default holds
    set: dict = dataclasses.field(default_factory=dict)  # keys written into config.json besides
    dtype: torch.dtype = torch.float32


class Unfit(Exception):
    """A case that pins nothing, or is too large."""


def rope(kind, **parameters):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **parameters}}


PLAIN = rope("default")
WINDOW = dict(use_sliding_window=True, sliding_window=8, num_hidden_layers=3, intermediate_size=16, num_key_value_heads=1)
NO_WINDOW = dict(use_sliding_window=False, sliding_window=None, layer_types=["full_attention"] * 3)

CASES = {
    "llama_tied": Case("llama", "one matrix is embedding and head", dict(tie_word_embeddings=True), untie=True),
    "llama_untied_v4_theta": Case("llama", "`rope_theta` on top, v4 layout", rope("default", rope_theta=500.0), PLAIN, layout="v4"),
    "llama_theta_v5": Case("llama", "`rope_theta` in `rope_parameters`", rope("default", rope_theta=500.0), PLAIN),
    "llama_biases": Case("llama", "biases of q, k, v, o and of the MLP", dict(attention_bias=True, mlp_bias=True), zero=".bias"),
    "llama_mlp_bias": Case("llama", "biases of the MLP only", dict(mlp_bias=True), zero=".bias"),
    "llama_head_dim": Case("llama", "head_dim 24 is not 64 / 2, kv heads as many as heads", dict(head_dim=24, num_attention_heads=2), zero="o_proj.weight"),
    "llama_one_kv_head": Case("llama", "all heads share one key and value", dict(num_key_value_heads=1), zero="v_proj.weight"),
    "llama_linear_v4": Case("llama", "linear RoPE, `rope_scaling.type`, v4 layout", rope("linear", factor=4.0), PLAIN, layout="v4-type"),
    "llama_linear_v5": Case("llama", "linear RoPE, v5 layout", rope("linear", factor=4.0), PLAIN),
    "llama_llama3": Case(
        "llama", "llama3 RoPE, prompt past the original length",
        rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16), PLAIN, prompt=48),
    "llama_llama3_v4": Case(
        "llama", "llama3 RoPE, v4 layout, theta 500000",
        rope("llama3", rope_theta=500000.0, factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32),
        rope("default", rope_theta=500000.0), layout="v4", prompt=48),
    "llama_yarn": Case("llama", "yarn RoPE, attention factor computed", rope("yarn", factor=4.0, original_max_position_embeddings=64), PLAIN, prompt=48),
    "llama_eps": Case("llama", "a large `rms_norm_eps`", dict(rms_norm_eps=0.1), dict(rms_norm_eps=1e-6)),
    "llama_defaults": Case(
        "llama", "config.json without the keys that have the class default", dict(rms_norm_eps=1e-6, num_key_value_heads=4, intermediate_size=24), zero="v_proj.weight",
        absent=("rms_norm_eps", "num_key_value_heads", "hidden_act", "attention_bias", "mlp_bias", "tie_word_embeddings", "head_dim", "rope_parameters", "pretraining_tp", "use_cache", "initializer_range", "attention_dropout", "pad_token_id")),
    "llama_bf16": Case("llama", "weights stored in bf16, computed in fp32", dtype=torch.bfloat16, zero="v_proj.weight"),
    "llama_fp16": Case("llama", "weights stored in fp16, computed in fp32", dtype=torch.float16, zero="v_proj.weight"),
    "qwen2_window": Case("qwen2", "window 8 from layer 1 on, by `layer_types`", WINDOW | dict(max_window_layers=1), NO_WINDOW, prompt=40),
    "qwen2_window_v4": Case("qwen2", "window 8 from layer 2 on, by `max_window_layers` alone", WINDOW | dict(max_window_layers=2), NO_WINDOW, layout="v4", prompt=40),
    "qwen2_tied_sharded": Case("qwen2", "tied, two shards", dict(tie_word_embeddings=True), untie=True, shard="150KB"),
    "qwen2_bias": Case("qwen2", "q, k and v biases without a flag", zero=".bias", layout="v4"),
    "qwen2_yarn": Case(
        "qwen2", "yarn RoPE as Qwen2.5 writes it, v4 layout, theta 1000000",
        rope("yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=64), rope("default", rope_theta=1000000.0), layout="v4", prompt=48),
    "qwen3_window": Case("qwen3", "window 8 in layers 1 and 2, q and k norms", WINDOW | dict(max_window_layers=1, head_dim=16), NO_WINDOW, prompt=40),
    "qwen3_tied_bias": Case("qwen3", "tied; biases of q, k, v and o by flag", dict(tie_word_embeddings=True, attention_bias=True, head_dim=16), zero=".bias"),
    "qwen3_qk_norm": Case("qwen3", "q and k norms over each head, head_dim 32", dict(head_dim=32, num_attention_heads=2, num_key_value_heads=1), zero="q_norm.weight", layout="v4"),
    "qwen3_head_dim_absent": Case(
        "qwen3", "no head_dim: 128 by class default, not 64", dict(head_dim=128, num_attention_heads=1, num_key_value_heads=1, num_hidden_layers=1, intermediate_size=24),
        zero="v_proj.weight", absent=("head_dim",)),
    "qwen3_yarn_factor": Case(
        "qwen3", "yarn RoPE with its attention factor and betas given",
        rope("yarn", factor=4.0, original_max_position_embeddings=64, attention_factor=1.5, beta_fast=16.0, beta_slow=2.0) | dict(head_dim=16),
        PLAIN | dict(head_dim=16), prompt=48),
    "qwen3_linear": Case("qwen3", "linear RoPE, v4 layout", rope("linear", factor=2.0) | dict(head_dim=16), PLAIN | dict(head_dim=16), layout="v4"),
}
CASES |= {name: Case(**fields) for name, fields in FAMILIES.items()}


def generator(name):
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big"))


def config_of(case, changes):
    config_class = CONFIG_MAPPING[case.family]
    known = {field.name for field in dataclasses.fields(config_class)}
    changes = copy.deepcopy(changes)
    keys = {}
    for key, value in (BASE | {name: changes.pop(name) for name in list(changes) if name in BASE}).items():
        keys |= {name: value for name in (key, *ALIASES.get(key, ())) if name in known}
    return config_class(**keys | changes)


def fill(model, random):
    """Random weights: unit variance through each matrix, queries and keys larger so that attention is sharp."""
    modules = dict(model.named_modules())
    kind = lambda name: type(modules[name.rpartition(".")[0]]).__name__
    hidden = model.config.hidden_size
    scaled = "gemma" in model.config.model_type or model.config.model_type == "ctrl" or getattr(model.config, "scale_embedding", False)
    factor = math.sqrt(hidden) if scaled else getattr(model.config, "embedding_multiplier", 1.0)
    attention = ("q_proj", "k_proj", "query", "qkv", "c_attn", "Wqkv", "W_pack", "Wq", "Wk")
    with torch.no_grad():
        for name, tensor in sorted(model.named_parameters()):
            noise = torch.randn(tensor.shape, generator=random)
            if "Embedding" in kind(name):
                tensor.copy_(noise / factor if tensor.shape[0] == model.config.vocab_size else 0.5 * noise)
            elif tensor.dim() < 2 and name.endswith("bias"):
                tensor.copy_(0.5 * noise)
            elif tensor.dim() < 2:
                tensor.copy_(tensor + 0.3 * noise)
            elif min(tensor.shape) > 1 and torch.all(tensor == 1):
                tensor.copy_(1 + 0.3 * noise)
            else:
                gain = 1.6 if any(part in name for part in attention) and model.config.model_type != "gpt_neo" else 1.0
                fan_in = tensor.shape[0 if kind(name) == "Conv1D" else 1]
                tensor.copy_(gain / math.sqrt(fan_in) * noise)


def new_model(case, changes, random):
    model = transformers.AutoModelForCausalLM.from_config(config_of(case, changes), attn_implementation="eager").eval()
    fill(model, random)
    return model


def write_config(case, config, architecture, folder):
    """config.json in the layout of transformers 5 (as saved) or of 4 (`rope_theta`, `rope_scaling`, `torch_dtype` on top)."""
    keys = config.to_dict() | {"architectures": [architecture], "model_type": case.family}
    for key in case.absent:
        keys.pop(key, None)
    keys["dtype"] = str(case.dtype).removeprefix("torch.")
    for unread in ("_name_or_path", "output_hidden_states", "return_dict", "chunk_size_feed_forward", "is_encoder_decoder", "id2label", "label2id", "problem_type", "output_attentions"):
        keys.pop(unread, None)
    if case.layout != "v5":
        parameters = keys.pop("rope_parameters")
        keys["rope_theta"] = parameters.pop("rope_theta")
        if "partial_rotary_factor" in parameters:
            keys["partial_rotary_factor"] = parameters.pop("partial_rotary_factor")
        if case.layout == "v4-type":
            parameters["type"] = parameters.pop("rope_type")
        keys["rope_scaling"] = None if parameters.get("rope_type") == "default" else parameters
        keys["torch_dtype"] = keys.pop("dtype")
        keys["transformers_version"] = "4.46.0"
        keys.pop("layer_types", None)
    keys |= case.set
    if "text_config" in CONFIG_MAPPING[case.family].sub_configs:
        keys = {"architectures": keys.pop("architectures"), "model_type": keys.pop("model_type"), "text_config": keys}
    (folder / "config.json").write_text(json.dumps(keys, indent=2, sort_keys=True) + "\n")


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def logits_of(model, ids, mask, positions):
    takes = inspect.signature(model.forward).parameters
    more = {"position_ids": positions} if "position_ids" in takes or "kwargs" in takes else {}
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=mask, use_cache=False, **more).logits.float()


def switch_off(case, model):
    """The same weights without the feature."""
    other = transformers.AutoModelForCausalLM.from_config(config_of(case, case.on | (case.off or {}) | ({"tie_word_embeddings": False} if case.untie else {})), attn_implementation="eager").eval()
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    if case.untie:
        weights["lm_head.weight"] = weights["lm_head.weight"].roll(1, 0)
    for name in weights:
        if case.zero and name.endswith(case.zero):
            weights[name].zero_()
    other.load_state_dict(weights)
    return other


def make(name, case, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    random = generator(name)
    model = new_model(case, case.on, random).to(case.dtype)
    model.save_pretrained(folder, **({"max_shard_size": case.shard} if case.shard else {}))
    write_config(case, model.config, type(model).__name__, folder)
    model = load(folder)
    lengths = {"plain": [case.prompt], "padded": [case.prompt // 2, case.prompt // 4, max(3, case.prompt // 2 - 3)]}
    golden, effect = {}, math.inf
    other = switch_off(case, model)
    for key, counts in lengths.items():
        prompts = [torch.randint(3, BASE["vocab_size"], (count,), generator=random).tolist() for count in counts]
        ids, mask, positions = left_padded(prompts, BASE["pad_token_id"])
        logits = logits_of(model, ids, mask, positions)
        golden |= {f"{key}.input_ids": ids, f"{key}.attention_mask": mask, f"{key}.position_ids": positions, f"{key}.logits": logits}
        moved = (logits - logits_of(other, ids, mask, positions))[mask.bool()].abs().max() / logits[mask.bool()].std()
        effect = effect if key == "padded" else moved.item()
    if effect <= LEAST_EFFECT:
        raise Unfit(f"switching the feature off moves the logits by {effect:.1e} of their spread only")
    save_file({key: tensor.contiguous() for key, tensor in golden.items()}, folder / "golden.safetensors", metadata={"producer": "tools/make_fixtures.py"})
    size = sum(path.stat().st_size for path in folder.iterdir())
    if size > 300_000:
        raise Unfit(f"{size} bytes")
    return effect, size


def update_table(cases, made):
    """Enters the cases into expected.json, which holds one case a line."""
    path = cases / "expected.json"
    table = json.loads(path.read_text())
    files = table.pop("st")
    for name, case in made.items():
        storage = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}[case.dtype]
        table[f"made_{name}"] = {"family": case.family, "verdict": "agree", "max_rel": 1e-4, "storage": storage}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in table.items()]
    lines.append('  "st": {\n' + ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in files.items()) + "\n  }")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("testdata/cases"))
    parser.add_argument("names", nargs="*", help="cases to make; all unless said")
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    chosen = {name: CASES[name] for name in options.names or CASES}
    rows, failed = [], []
    for name, case in chosen.items():
        try:
            effect, size = make(name, case, options.output / f"made_{name}")
        except Unfit as problem:
            failed.append(f"{name}: {problem}")
            continue
        rows.append(f"| made_{name} | {case.pins} | {effect:.2g} |")
        print(f"{name:24} {effect:8.2g} {size:8} bytes")
    if failed:
        raise SystemExit("\n".join(failed))
    update_table(options.output, chosen)
    if not options.names:
        (options.output / "MADE.md").write_text(
            "# Cases made by `tools/make_fixtures.py`\n\n"
            f"Random weights, seeded by the case's name; golden logits by transformers {transformers.__version__} (torch {torch.__version__.split('+')[0]}, CPU), fp32, eager\n"
            "attention, from the written files. Set `plain` is one prompt; `padded` holds three of different lengths, padded on the\n"
            "left, positions counted from the mask. \"Off\" is how far the logits of `plain` move, over their standard deviation,\n"
            "when the feature is switched off in transformers: a reading that ignores it lands there.\n\n"
            "| case | pins | off |\n|---|---|---|\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
