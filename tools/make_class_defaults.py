"""Makes testdata/config_defaults.json: each class of transformers that a family reads, as its default config builds it.

    python tools/make_class_defaults.py

The families are those of crates/families/src. A class is built on the meta device from its own defaults, with fewer layers and what it cannot do without
(`given`). Of it the file holds the config (`to_dict`), names and shapes of the tensors as `save_pretrained` stores them, and facts:

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


def entry(model_type):
    class_ = CONFIG_MAPPING[model_type]
    keys = given(model_type, class_().to_dict())
    fails = None
    if model_type in GIVEN:
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
        "model_type": model_type, "architecture": type(model).__name__, "given": keys, "fails_without": fails, "config": written,
        "facts": facts(model, tensors), "buffers": sorted(buffers), "tensors": [[name, shape] for name, shape in tensors.items()],
    }


def main():
    transformers.utils.logging.set_verbosity_error()
    lines = []
    for model_type in families():
        try:
            lines.append(json.dumps(entry(model_type)))
        except Exception:
            print(model_type, file=sys.stderr)
            raise
    made_by = f"tools/make_class_defaults.py, transformers {transformers.__version__}, torch {torch.__version__}"
    text = ",\n".join(lines)
    (ROOT / "testdata/config_defaults.json").write_text(f'{{"made_by": "{made_by}", "classes": [\n{text}\n]}}\n')


main()
