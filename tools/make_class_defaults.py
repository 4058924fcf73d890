"""Makes testdata/config_defaults.json: each class of transformers that a family reads, as its default config builds it.

    python tools/make_class_defaults.py

The families are those of crates/families/src. A class is built on the meta device from its own defaults, with fewer layers and what it
cannot do without (`given`), and from a few variants. Of each the file holds the config (`to_dict`; of a variant, what differs from
the default), names and shapes of the tensors as `save_pretrained` stores them (with N for the layer, and the layers), and facts:

- `attention`, for each layer: what reaches the attention function. Heads, key heads, width, scale, soft cap, the window that
  the mask leaves a far query, whether there are sinks, and which of `ropes` turned the query (null: none). Of classes that
  compute attention without that function: as much of it as their modules expose.
- `ropes`: number of pairs, the frequencies of the first three and the last (fp32, written exactly), factor on cosine and sine.
- `turned`: what the class makes of 1, 2, 3, 4 where it turns pairs by a right angle; tells which elements form pairs.
- `norms`: epsilon by the stored name, with N for the layer.
- `activations`: classes of the feed-forward part's.
- `scalars`: factors that modules of the model hold.

Needs PyPI transformers 5.24 and torch.
"""

import json
import math
import pathlib
import re
import sys

import torch
import transformers
from transformers import CONFIG_MAPPING, AttentionInterface, AutoModelForCausalLM, masking_utils
from transformers.core_model_loading import revert_weight_conversion
from transformers.masking_utils import AttentionMaskInterface
from transformers.modeling_utils import remove_tied_weights_from_state_dict

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYER_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
NOT_WRITTEN = ("id2label", "label2id", "transformers_version", "vocabulary_map")
# Of classes whose defaults alone build no model, and of those that need more layers than `layer_types` tells.
GIVEN = {
    "cohere_compass_text": {
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 50000.0}, "full_attention": None},
    },
    "gpt_neo": {},  # its default `attention_types` name 24 layers
    "hunyuan_v1_dense": {"num_hidden_layers": 2, "head_dim": 128},
    "ministral": {"num_hidden_layers": 2, "head_dim": 128},
    "nemotron": {"num_hidden_layers": 2, "num_key_value_heads": 48},
    "smollm3": {"num_hidden_layers": 4},
}
FULL, SLIDING = "full_attention", "sliding_attention"
TWO = {"num_hidden_layers": 2}
# Options away from their defaults, several at once; what tells layers apart is set so that it does in two or three layers.
VARIANTS = {
    "apertus": [TWO | {"hidden_act": "gelu", "attention_bias": True, "head_dim": 40, "rms_norm_eps": 0.003}],
    "apertus1p5_text": [TWO | {"attention_bias": True, "num_key_value_heads": 4, "tie_word_embeddings": True}],
    "arcee": [TWO | {"attention_bias": True, "mlp_bias": True, "head_dim": 32, "tie_word_embeddings": True}],
    "biogpt": [TWO | {"scale_embedding": False, "hidden_act": "relu", "tie_word_embeddings": False}],
    "bitnet": [TWO | {"attention_bias": True, "rms_norm_eps": 0.003}],
    "bloom": [{"n_layer": 2, "hidden_size": 60, "n_head": 6, "apply_residual_connection_post_layernorm": True, "layer_norm_epsilon": 0.003}],
    "codegen": [{"n_layer": 2, "rotary_dim": 32, "n_inner": 100, "activation_function": "relu", "layer_norm_epsilon": 0.003}],
    "cohere": [TWO | {"use_qk_norm": True, "num_key_value_heads": 8, "logit_scale": 0.3, "attention_bias": True, "layer_norm_eps": 0.003}],
    "cohere2": [{"num_hidden_layers": 3, "layer_types": [FULL, SLIDING, FULL], "sliding_window": 33, "logit_scale": 0.3}],
    "cohere_compass_text": [
        {"num_hidden_layers": 2, "layer_types": [SLIDING, FULL], "sliding_window": 33, "logit_scale": 0.3, "num_key_value_heads": 4,
         "rope_parameters": {SLIDING: None, FULL: {"rope_type": "linear", "factor": 2.0, "rope_theta": 900.0}}},
    ],
    "ctrl": [{"n_layer": 2, "dff": 100, "layer_norm_epsilon": 0.003, "tie_word_embeddings": False}],
    "cwm": [{"num_hidden_layers": 2, "layer_types": [SLIDING, FULL], "sliding_window": 33, "mlp_bias": True}],
    "emu3": [{"text_config": TWO | {"attention_bias": True, "mlp_bias": True, "rope_parameters": {"rope_type": "default", "rope_theta": 900.0}}}],
    "ernie4_5": [TWO | {"use_bias": True, "head_dim": 32, "tie_word_embeddings": False}],
    "exaone": [TWO | {"rms_norm_eps": 0.003, "hidden_act": "gelu", "attention_bias": True, "mlp_bias": True}],
    "exaone4": [
        {"num_hidden_layers": 3, "layer_types": [FULL, SLIDING, FULL], "sliding_window": 33},
        {"num_hidden_layers": 3, "layer_types": [FULL, FULL, FULL], "sliding_window": None},
        {"num_hidden_layers": 4, "sliding_window_pattern": 2},
    ],
    "falcon": [
        TWO | {"hidden_size": 4096, "num_attention_heads": 64, "new_decoder_architecture": True, "num_kv_heads": 8, "bias": True},
        TWO | {"hidden_size": 4096, "num_attention_heads": 64, "new_decoder_architecture": True, "num_kv_heads": 8, "num_ln_in_parallel_attn": 1},
        TWO | {"multi_query": False, "parallel_attn": False, "activation": "relu", "ffn_hidden_size": 100, "tie_word_embeddings": False},
    ],
    "gemma": [TWO | {"hidden_act": "gelu", "attention_bias": True, "num_key_value_heads": 2, "rms_norm_eps": 0.003}],
    "gemma2": [
        {"num_hidden_layers": 3, "query_pre_attn_scalar": 144, "attn_logit_softcapping": 7.5, "final_logit_softcapping": 11.0, "sliding_window": 33},
        {"num_hidden_layers": 3, "layer_types": [FULL, FULL, SLIDING], "attn_logit_softcapping": None, "final_logit_softcapping": None},
    ],
    "gemma3_text": [
        {"num_hidden_layers": 3, "layer_types": [FULL, SLIDING, FULL], "query_pre_attn_scalar": 144, "final_logit_softcapping": 11.0, "sliding_window": 33},
        {"num_hidden_layers": 4, "sliding_window_pattern": 2, "attention_bias": True, "hidden_activation": "silu"},
    ],
    "glm": [TWO | {"attention_bias": False, "head_dim": 32, "rms_norm_eps": 0.003}],
    "glm4": [TWO | {"attention_bias": False, "num_key_value_heads": 8, "tie_word_embeddings": True}],
    "gpt2": [
        {"n_layer": 3, "scale_attn_by_inverse_layer_idx": True, "n_inner": 100, "activation_function": "relu", "layer_norm_epsilon": 0.003},
        {"n_layer": 2, "scale_attn_weights": False, "tie_word_embeddings": False},
    ],
    "gpt_bigcode": [{"n_layer": 2, "multi_query": False, "scale_attn_weights": False, "n_inner": 100}],
    "gpt_neo": [
        {"num_layers": 3, "attention_types": [[["local", "global"], 1], [["local"], 1]], "window_size": 33, "intermediate_size": 100},
    ],
    "gpt_neox": [TWO | {"use_parallel_residual": False, "attention_bias": False, "rotary_pct": 0.5, "layer_norm_eps": 0.003}],
    "gpt_neox_japanese": [TWO | {"intermediate_multiple_size": 3, "rotary_pct": 0.5, "hidden_act": "relu", "layer_norm_eps": 0.003}],
    "gptj": [{"n_layer": 2, "rotary_dim": 32, "n_inner": 100, "activation_function": "relu", "layer_norm_epsilon": 0.003}],
    "granite": [
        TWO | {"embedding_multiplier": 12.0, "attention_multiplier": 0.015, "residual_multiplier": 0.22, "logits_scaling": 8.0, "mlp_bias": True},
    ],
    "granite_swa": [
        {"num_hidden_layers": 3, "layer_types": [SLIDING, FULL, SLIDING], "layer_rope_theta": [900.0, 0, 5000.0], "sliding_window": 33,
         "embedding_multiplier": 12.0, "attention_multiplier": 0.015, "residual_multiplier": 0.22, "logits_scaling": 8.0},
    ],
    "helium": [TWO | {"num_key_value_heads": 5, "rms_norm_eps": 0.003, "attention_bias": True, "mlp_bias": True}],
    "hunyuan_v1_dense": [TWO | {"head_dim": 32, "num_key_value_heads": 8, "attention_bias": True}],
    "hyperclovax": [
        TWO | {"embedding_multiplier": 12.0, "attention_multiplier": 0.015, "residual_multiplier": 0.22, "logits_scaling": 0.3, "use_post_norm": False},
    ],
    "internlm3": [TWO | {"attention_bias": True, "mlp_bias": True, "head_dim": None}],
    "iquestcoder": [TWO | {"head_dim": None, "hidden_act": "gelu", "tie_word_embeddings": True}],
    "jais2": [TWO | {"attention_bias": False, "mlp_bias": False, "head_dim": 32, "layer_norm_eps": 0.003}],
    "llama": [TWO | {"attention_bias": True, "mlp_bias": True, "head_dim": 32, "num_key_value_heads": 8, "hidden_act": "gelu", "rms_norm_eps": 0.003}],
    "ministral": [{"num_hidden_layers": 3, "head_dim": 32, "layer_types": [FULL, SLIDING, FULL], "sliding_window": 33}],
    "ministral3": [TWO | {"sliding_window": 33, "head_dim": 32}],
    "mistral": [TWO | {"sliding_window": None, "head_dim": 32}, TWO | {"sliding_window": 33, "rms_norm_eps": 0.003}],
    "modernbert-decoder": [
        TWO | {"norm_bias": True, "attention_bias": True, "mlp_bias": True, "decoder_bias": False, "classifier_bias": True, "norm_eps": 0.003},
        {"num_hidden_layers": 5, "global_attn_every_n_layers": 2, "local_attention": 66, "tie_word_embeddings": False},
    ],
    "mpt": [{"n_layers": 2, "n_heads": 6, "d_model": 96, "attn_config": {"softmax_scale": 0.3, "clip_qkv": 2.0}, "layer_norm_epsilon": 0.003}],
    "nanochat": [TWO | {"final_logit_softcapping": 7.5, "attention_bias": True, "num_key_value_heads": 2}],
    "nemotron": [TWO | {"num_key_value_heads": 8, "mlp_bias": True, "attention_bias": True, "norm_eps": 0.003}],
    "olmo": [TWO | {"clip_qkv": 2.0, "attention_bias": True, "num_key_value_heads": 4}],
    "olmo2": [TWO | {"attention_bias": True, "num_key_value_heads": 4, "rms_norm_eps": 0.003}],
    "olmo3": [{"num_hidden_layers": 3, "layer_types": [FULL, SLIDING, FULL], "sliding_window": 33, "attention_bias": True}],
    "openai-gpt": [{"n_layer": 2, "afn": "relu", "layer_norm_epsilon": 0.003, "tie_word_embeddings": False}],
    "opt": [
        TWO | {"do_layer_norm_before": False, "word_embed_proj_dim": 100, "activation_function": "gelu"},
        TWO | {"enable_bias": False, "layer_norm_elementwise_affine": False, "tie_word_embeddings": False},
        TWO | {"_remove_final_layer_norm": True},
    ],
    "persimmon": [TWO | {"qk_layernorm": False, "hidden_act": "relu", "layer_norm_eps": 0.003}],
    "phi": [TWO | {"qk_layernorm": True, "num_key_value_heads": 4, "layer_norm_eps": 0.003}],
    "phi3": [TWO | {"sliding_window": 33, "num_key_value_heads": 4, "rms_norm_eps": 0.003}],
    "qwen2": [{"num_hidden_layers": 3, "use_sliding_window": True, "max_window_layers": 1, "sliding_window": 33, "num_key_value_heads": 4}],
    "qwen3": [{"num_hidden_layers": 3, "use_sliding_window": True, "layer_types": [FULL, SLIDING, FULL], "sliding_window": 33, "attention_bias": True}],
    "seed_oss": [TWO | {"attention_bias": False, "attention_out_bias": True, "mlp_bias": True, "head_dim": None, "hidden_size": 8000}],
    "smollm3": [
        {"num_hidden_layers": 3, "no_rope_layers": [1, 0, 1], "use_sliding_window": True, "sliding_window": 33, "attention_bias": True},
        {"num_hidden_layers": 4, "no_rope_layer_interval": 2, "mlp_bias": True, "tie_word_embeddings": False},
    ],
    "stablelm": [
        TWO | {"use_parallel_residual": True, "qk_layernorm": True, "num_attention_heads": 4, "num_key_value_heads": 2, "layer_norm_eps": 0.003},
        TWO | {"use_qkv_bias": True, "tie_word_embeddings": True},
    ],
    "starcoder2": [TWO | {"sliding_window": 33, "use_bias": False, "norm_epsilon": 0.003}],
    "vaultgemma": [{"num_hidden_layers": 3, "query_pre_attn_scalar": 144, "attn_logit_softcapping": 7.5, "sliding_window": 33}],
    "xglm": [{"num_layers": 2, "scale_embedding": False, "activation_function": "relu", "ffn_dim": 100}],
}
FAR = 20_000
SCALARS = ("embed_scale", "scalar_embed_scale", "embedding_multiplier", "residual_multiplier", "logit_scale", "logits_scaling")


def families():
    sources = sorted((ROOT / "crates/families/src").glob("*.rs"))
    return sorted({name for source in sources for name in re.findall(r'model_type: "([^"]+)"', source.read_text())})


def given(model_type, defaults):
    """The layers that show every kind of layer the class has by default, at least two."""
    if model_type in GIVEN:
        return GIVEN[model_type]
    if "text_config" in defaults:
        return {"text_config": given(model_type, defaults["text_config"])}
    key = next(key for key in LAYER_KEYS if key in defaults)
    kinds = defaults.get("layer_types") or []
    return {key: max(2, 1 + max((kinds.index(kind) for kind in set(kinds)), default=0))}


def build(model_type, keys):
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(CONFIG_MAPPING[model_type](**json.loads(json.dumps(keys)))).eval()


def stored(model):
    """Names and shapes as `save_pretrained` stores them."""
    tensors = model.state_dict()
    for name in model._keys_to_ignore_on_save or ():
        tensors.pop(name, None)
    tensors = remove_tied_weights_from_state_dict(tensors, model)
    return {name: list(tensor.shape) for name, tensor in revert_weight_conversion(model, tensors).items()}


def by_layer(tensors):
    """Name with N for the layer, shape, and the layers that have it; or name and shape alone."""
    found = {}
    for name, shape in tensors.items():
        layer = re.search(r"\.(\d+)\.", name)
        key = (re.sub(r"\.\d+\.", ".N.", name, count=1), tuple(shape))
        found.setdefault(key, []).extend([int(layer[1])] if layer else [])
    return [[name, shape, layers] if layers else [name, shape] for (name, shape), layers in found.items()]


class Recorder:
    """Stands in for the attention function, and notes what it is given."""

    def __init__(self):
        self.layers, self.windows, self.turns, self.rope = [], {}, {}, None

    def mask(self, *args, mask_function=None, device=None, **kwargs):
        """A marker for the window that `mask_function` leaves."""
        with torch.device("cpu"):
            zero = torch.zeros((), dtype=torch.long)
            seen = int(torch.as_tensor(mask_function(zero, zero, torch.full((), FAR), torch.arange(FAR + 1))).expand(FAR + 1).sum())
        marker = torch.empty((1, 1, 1, 1), device="meta")
        self.windows[id(marker)] = (marker, None if seen == FAR + 1 else seen)
        return marker

    def attention(self, module, query, key, value, attention_mask, scaling=None, sliding_window=None, softcap=None, s_aux=None, **kwargs):
        known = self.windows[id(attention_mask)]
        # OPT scales its queries beforehand.
        scaling = module.scaling if scaling == 1.0 else scaling
        self.layers.append({
            "heads": query.shape[1], "kv_heads": key.shape[1], "head_dim": query.shape[3],
            "scale": query.shape[3] ** -0.5 if scaling is None else float(scaling),
            "softcap": softcap, "window": known[1], "sinks": s_aux is not None, "rope": self.rope,
        })
        assert sliding_window in (None, known[1]), (sliding_window, known[1])
        self.rope = None
        return torch.empty(query.shape[0], query.shape[2], query.shape[1], value.shape[3], device="meta"), None

    def watch(self, model):
        """Notes which rotation a query is turned by: cosines are told apart by identity."""
        def turned(name):
            def hook(module, args, kwargs, output):
                kind = kwargs.get("layer_type") or next((arg for arg in args if isinstance(arg, str)), None)
                self.turns[id(output[0])] = (output[0], rope_key(name, kind))
            return hook

        for name, module in model.named_modules():
            if "RotaryEmbedding" in type(module).__name__:
                module.register_forward_hook(turned(name), with_kwargs=True)
        source = sys.modules[type(model).__module__]
        original = getattr(source, "apply_rotary_pos_emb", None)
        if original is None:
            return lambda: None

        def apply(query, key, cos, *args, **kwargs):
            self.rope = self.turns[id(cos)][1] if id(cos) in self.turns else "a table"
            return original(query, key, cos, *args, **kwargs)

        source.apply_rotary_pos_emb = apply
        return lambda: setattr(source, "apply_rotary_pos_emb", original)


def rope_key(name, kind):
    return f"{name}/{kind}" if kind else name


EXPOSED = {"heads": ("num_heads", "n_heads", "n_head"), "head_dim": ("head_dim",), "scale": ("inv_norm_factor", "softmax_scale", "scaling")}


def exposed(model):
    """What the attention modules of a class hold that has no attention function."""
    layers, widths = [], {}
    for module in model.modules():
        found = {fact: getattr(module, name) for fact, names in EXPOSED.items() for name in names if number(getattr(module, name, None))}
        if "heads" in found and "head_dim" in found:
            if (kind := getattr(module, "attention_type", None)) is not None:  # GPT-Neo: the mask is a buffer
                if kind not in widths:
                    widths[kind] = mask_width(type(module), model.config, kind)
                found["window"] = widths[kind]
            layers.append(found)
    return layers or None


def mask_width(class_, config, kind):
    seen = int(class_(config, kind, 0).bias[0, 0, -1].sum())
    return None if seen == config.max_position_embeddings else seen


def attention(model):
    """What reaches the attention function in each layer, `None` where the class does not call it."""
    recorder = Recorder()
    AttentionInterface.register("recorder", recorder.attention)
    AttentionMaskInterface.register("recorder", recorder.mask)
    try:
        model.set_attn_implementation("recorder")
    except ValueError:
        return None
    undo = recorder.watch(model)
    masking_utils.find_packed_sequence_indices = lambda positions: None  # looks at values, of which there are none on the meta device
    try:
        with torch.no_grad(), torch.device("meta"):
            model(input_ids=torch.zeros((1, 3), dtype=torch.long), use_cache=False)
    finally:
        undo()
    return recorder.layers or None


def ropes(model):
    """The rotations of the model's rotary modules, computed anew off the meta device."""
    found = {}
    for name, module in model.named_modules():
        if "RotaryEmbedding" not in type(module).__name__ or not hasattr(module, "config"):
            continue
        again = type(module)(module.config) if module.config is not None else None
        for buffer, values in again.named_buffers():
            if not buffer.endswith("inv_freq") or "original" in buffer:
                continue
            kind = buffer.removesuffix("inv_freq").removesuffix("_")
            scaling = getattr(again, f"{kind}_attention_scaling" if kind else "attention_scaling")
            values = [float(value) for value in values.to(torch.float32)]
            found[rope_key(name, kind)] = {"pairs": len(values), "first": values[:3], "last": values[-1], "amplitude": float(scaling)}
    return found


def norms(model, rename):
    found = {}
    for name, module in model.named_modules():
        eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
        if f"{name}.weight" in rename and isinstance(eps, float):
            key = re.sub(r"\.\d+\.", ".N.", rename[f"{name}.weight"])
            assert found.setdefault(key, eps) == eps, key
    return found


def facts(model, tensors):
    # Stored names, by the names in memory.
    rename = {name: next(iter(revert_weight_conversion(model, {name: tensor}))) for name, tensor in model.state_dict().items()}
    rename = {name: after for name, after in rename.items() if after in tensors}
    activations = {
        type(module).__name__ for name, module in model.named_modules() if re.search(r"(^|\.)(act|act_fn|activation_fn|gelu_impl)$", name)
    }
    scalars = {key: float(getattr(module, key)) for module in model.modules() for key in SCALARS if number(getattr(module, key, None))}
    for key in ("final_logit_softcapping", "logits_scaling"):
        if (value := getattr(model.config, key, None)) is not None:
            scalars[key] = float(value)
    source = sys.modules[type(model).__module__]
    rotate = getattr(source, "rotate_half", getattr(source, "rotate_every_two", None))
    turned = rotate(torch.arange(1.0, 5.0).view(1, 1, 1, 4)).flatten().tolist() if rotate else None
    return {
        "turned": turned, "attention": attention(model) or exposed(model), "ropes": ropes(model), "norms": norms(model, rename), "activations": sorted(activations), "scalars": scalars,
    }


def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def entry(model_type, variant=None):
    class_ = CONFIG_MAPPING[model_type]
    keys = variant or given(model_type, class_().to_dict())
    fails = None
    if model_type in GIVEN and variant is None:
        layers = {key: value for key, value in keys.items() if key in LAYER_KEYS}
        try:
            build(model_type, layers)
        except Exception as error:
            fails = f"{type(error).__name__}: {error}"
    config = class_(**json.loads(json.dumps(keys)))
    model = build(model_type, keys)
    tensors = stored(model)
    written = {key: value for key, value in config.to_dict().items() if key not in NOT_WRITTEN}
    buffers = {name for name, _ in model.named_buffers()} & tensors.keys()
    return {
        "model_type": model_type, "variant": variant is not None, "architecture": type(model).__name__, "given": keys, "fails_without": fails, "config": written,
        "facts": facts(model, tensors), "buffers": sorted(buffers), "tensors": by_layer(tensors),
    }


def main():
    transformers.utils.logging.set_verbosity_error()
    lines = []
    for model_type in families():
        try:
            default = entry(model_type)
            variants = [entry(model_type, variant) for variant in VARIANTS.get(model_type, ())]
            for variant in variants:
                assert variant["config"].keys() >= default["config"].keys()
                variant["config"] = {key: value for key, value in variant["config"].items() if key not in default["config"] or value != default["config"][key]}
            lines.extend(json.dumps(one, separators=(",", ":")) for one in [default, *variants])
        except Exception:
            print(model_type, file=sys.stderr)
            raise
    made_by = f"tools/make_class_defaults.py, transformers {transformers.__version__}, torch {torch.__version__}"
    text = ",\n".join(lines)
    (ROOT / "testdata/config_defaults.json").write_text(f'{{"made_by": "{made_by}", "classes": [\n{text}\n]}}\n')


main()
