"""Makes testdata/rope.json: what the rotary classes of transformers make of configs.

    python tools/make_rope_cases.py

A case is a config.json in either layout, and `ropes`: inverse frequencies (fp32, in as many digits as tell it from its neighbours) and
the factor on cosine and sine of the class's own rotary embedding, at short lengths. `long` and `length`: what it holds beyond this
length, where that differs for good; `limit`: the length beyond which every step differs. `layers` says which of the ropes turns
each layer. `fails`: what transformers says of a config that it cannot build.
Needs PyPI transformers 5.24, torch and numpy.
"""

import copy
import importlib
import itertools
import json
import pathlib

import numpy
import torch
import transformers
from transformers import CONFIG_MAPPING

TESTDATA = pathlib.Path(__file__).resolve().parent.parent / "testdata"
# Module and prefix of the rotary class.
FAMILIES = {
    "llama": "llama.Llama", "qwen2": "qwen2.Qwen2", "qwen3": "qwen3.Qwen3", "phi": "phi.Phi", "phi3": "phi3.Phi3", "glm": "glm.Glm",
    "stablelm": "stablelm.StableLm", "gpt_neox": "gpt_neox.GPTNeoX", "gpt_neox_japanese": "gpt_neox_japanese.GPTNeoXJapanese",
    "nemotron": "nemotron.Nemotron", "persimmon": "persimmon.Persimmon", "gemma3_text": "gemma3.Gemma3", "olmo3": "olmo3.Olmo3",
    "modernbert-decoder": "modernbert_decoder.ModernBertDecoder", "cohere_compass_text": "cohere_compass.CohereCompass", "cwm": "cwm.Cwm",
    "apertus": "apertus.Apertus", "ministral3": "ministral3.Ministral3", "hunyuan_v1_dense": "hunyuan_v1_dense.HunYuanDenseV1",
    "glm4": "glm4.Glm4", "ernie4_5": "ernie4_5.Ernie4_5", "cohere2": "cohere2.Cohere2",
}
THETAS = [10000.0, 500000.0, 1000000.0, 130000.0, 5000000.0, 10000000.0, 2.5]
HEAD_DIMS = [16, 24, 64, 80, 96, 128, 256]
# The scaling keys of published checkpoints come first, then every optional key by itself.
SCALINGS = {
    "linear_4": {"type": "linear", "factor": 4.0},
    "linear_2.5": {"rope_type": "linear", "factor": 2.5},
    "linear_integer": {"rope_type": "linear", "factor": 3},
    "llama_3.1": {
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3",
    },
    "llama_3.2": {
        "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3",
    },
    "llama3_short": {
        "factor": 3.7, "low_freq_factor": 1.3, "high_freq_factor": 5.1, "original_max_position_embeddings": 300, "rope_type": "llama3",
    },
    "llama3_no_original": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_type": "llama3"},
    "qwen2.5_yarn": {"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"},
    "qwen3_yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
    "both_type_keys": {"rope_type": "yarn", "type": "yarn", "factor": 2.0, "original_max_position_embeddings": 4096},
    "yarn_no_original": {"rope_type": "yarn", "factor": 4.0},
    "yarn_below_one": {"rope_type": "yarn", "factor": 0.5, "original_max_position_embeddings": 4096},
    "yarn_factor_null": {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 4096},
    "yarn_attention_factor": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096, "attention_factor": 0.77},
    "yarn_attention_factor_null": {
        "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096, "attention_factor": None,
    },
    "yarn_mscale_pair": {
        "rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 0.707,
        "beta_fast": 32, "beta_slow": 1,
    },
    "yarn_mscale_alone": {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 0.5},
    "yarn_mscale_zero": {
        "rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 0.5, "mscale_all_dim": 0,
    },
    "yarn_mscale_and_attention_factor": {
        "rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 0.5,
        "attention_factor": 1.25,
    },
    "yarn_betas": {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 2048, "beta_fast": 48.5, "beta_slow": 2.5},
    "yarn_beta_zero": {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 2048, "beta_fast": 0, "beta_slow": 0},
    "yarn_betas_equal": {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 2048, "beta_fast": 1, "beta_slow": 1},
    "yarn_truncate_false": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False},
    "yarn_truncate_true": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": True},
    "yarn_everything": {
        "rope_type": "yarn", "factor": 6.3, "original_max_position_embeddings": 5000, "truncate": False, "beta_fast": 20.0,
        "beta_slow": 3.0, "mscale": 1.7, "mscale_all_dim": 0.9,
    },
}


def divisors(pairs, start, step):
    """A list as LongRoPE's searches give: slowly growing, no two alike."""
    return [round(start + step * index + 0.01 * (index % 3), 4) for index in range(pairs)]


def longrope(pairs, **more):
    return {"rope_type": "longrope", "short_factor": divisors(pairs, 1.0, 0.02), "long_factor": divisors(pairs, 1.1, 1.3), **more}


def old(scaling):
    """The same under the first name of the key."""
    return {"type" if key == "rope_type" else key: value for key, value in scaling.items()}


ORIGINAL = "original_max_position_embeddings"
PARTIAL = "partial_rotary_factor"


def longrope_configs():
    yield "longrope_phi3_v4", "phi3", 96, {"rope_scaling": old(longrope(48)), ORIGINAL: 4096, "max_position_embeddings": 131072}
    yield "longrope_phi4_v4", "phi3", 128, {
        "rope_scaling": old(longrope(48)), PARTIAL: 0.75, ORIGINAL: 4096, "max_position_embeddings": 131072, "rope_theta": 10000.0,
    }
    yield "longrope_phi4_v5", "phi3", 128, {
        "rope_parameters": longrope(48, rope_theta=10000.0, partial_rotary_factor=0.75, original_max_position_embeddings=4096),
        ORIGINAL: 4096, "max_position_embeddings": 131072,
    }
    yield "longrope_phi3_class_original", "phi3", 64, {"rope_parameters": longrope(32, rope_theta=10000.0), "max_position_embeddings": 8192}
    yield "longrope_phi3_not_longer", "phi3", 64, {"rope_scaling": longrope(32), ORIGINAL: 4096, "max_position_embeddings": 4096}
    for name, keys in {
        "factor": {"factor": 8.0}, "factor_null": {"factor": None}, "factor_below_one": {"factor": 0.5}, "factor_one": {"factor": 1.0},
        "attention_factor": {"attention_factor": 1.3}, "attention_factor_null": {"attention_factor": None, "factor": 32.0},
        "both": {"attention_factor": 0.9, "factor": 4.0},
    }.items():
        yield f"longrope_{name}_inner", "llama", 64, {"rope_scaling": longrope(32, original_max_position_embeddings=1024, **keys)}
        yield f"longrope_{name}_outer", "llama", 24, {"rope_scaling": longrope(12, **keys), ORIGINAL: 777}
    yield "longrope_no_original", "llama", 64, {"rope_scaling": longrope(32)}
    yield "longrope_no_original_factor", "qwen3", 64, {"rope_parameters": longrope(32, rope_theta=5000.0, factor=16.0)}


def outer_configs():
    """`original_max_position_embeddings` beside the object, alone or the same in both places."""
    llama3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_type": "llama3"}
    yield "outer_original_llama3", "llama", 64, {"rope_theta": 500000.0, "rope_scaling": llama3, ORIGINAL: 2048}
    yield "outer_original_yarn", "qwen2", 64, {"rope_theta": 1000000.0, "rope_scaling": {"type": "yarn", "factor": 4.0}, ORIGINAL: 2048}
    yield "outer_original_both", "llama", 64, {"rope_parameters": {**llama3, "rope_theta": 500000.0, ORIGINAL: 2048}, ORIGINAL: 2048}
    yield "outer_original_yarn_null_factor", "llama", 64, {"rope_scaling": {"type": "yarn", "factor": None}, ORIGINAL: 512}
    yield "outer_original_linear", "llama", 64, {"rope_scaling": {"type": "linear", "factor": 4.0}, ORIGINAL: 2048}
    # For readers of both layouts, as `plansmith import` writes.
    both = {"rope_theta": 500000.0, "rope_scaling": llama3, "rope_parameters": {**llama3, "rope_theta": 500000.0}}
    yield "both_layouts_llama3", "llama", 64, both


def dynamic_configs():
    dynamic = {"rope_type": "dynamic", "factor": 4.0}
    yield "dynamic_v4", "llama", 64, {"rope_theta": 500000.0, "rope_scaling": old(dynamic)}
    yield "dynamic_v5", "qwen2", 96, {"rope_parameters": {**dynamic, "rope_theta": 10000.0}}
    yield "dynamic_partial", "phi", 64, {"rope_scaling": old(dynamic), PARTIAL: 0.5}
    yield "dynamic_short", "llama", 16, {"rope_scaling": dynamic, "max_position_embeddings": 32}
    yield "dynamic_alpha", "hunyuan_v1_dense", 128, {"head_dim": 128, "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}}
    yield "dynamic_alpha_v5", "hunyuan_v1_dense", 64, {
        "head_dim": 64, "rope_parameters": {"rope_type": "dynamic", "alpha": 50.0, "factor": 1.0, "rope_theta": 500000.0},
    }


def partial_configs():
    linear = {"rope_type": "linear", "factor": 2.5}
    yarn = {"rope_type": "yarn", "factor": 4.0, ORIGINAL: 4096}
    llama3 = SCALINGS["llama_3.1"]
    for family in ("phi", "phi3", "glm", "glm4", "stablelm", "nemotron", "persimmon"):
        yield f"partial_{family}_class", family, 64, {}
        yield f"partial_{family}_v4", family, 64, {PARTIAL: 0.375, "rope_theta": 25000.0}
        yield f"partial_{family}_v5", family, 64, {"rope_parameters": {"rope_type": "default", "rope_theta": 25000.0, PARTIAL: 0.75}}
        if family != "phi3":
            yield f"partial_{family}_linear", family, 64, {PARTIAL: 0.5, "rope_scaling": old(linear)}
            yield f"partial_{family}_yarn", family, 64, {"rope_parameters": {**yarn, "rope_theta": 10000.0, PARTIAL: 0.25}}
            yield f"partial_{family}_llama3", family, 64, {"rope_theta": 500000.0, PARTIAL: 0.5, "rope_scaling": llama3}
    for family in ("gpt_neox", "gpt_neox_japanese"):
        yield f"partial_{family}_class", family, 96, {}
        yield f"partial_{family}_v4", family, 64, {"rotary_pct": 0.375, "rotary_emb_base": 25000}
        yield f"partial_{family}_whole", family, 64, {"rotary_pct": 1.0, "rotary_emb_base": 10000}
        yield f"partial_{family}_odd", family, 24, {"rotary_pct": 0.3}
        yield f"partial_{family}_odd_one", family, 16, {"rotary_pct": 0.1}
        yield f"partial_{family}_odd_v5", family, 40, {"rope_parameters": {"rope_type": "default", "rope_theta": 9000.0, PARTIAL: 0.125}}
        yield f"partial_{family}_odd_yarn", family, 24, {"rotary_pct": 0.3, "rope_scaling": {"type": "yarn", "factor": 4.0, ORIGINAL: 512}}
        yield f"partial_{family}_three_yarn", family, 24, {"rotary_pct": 0.125, "rope_scaling": {"type": "yarn", "factor": 4.0, ORIGINAL: 512}}
        yield f"partial_{family}_odd_linear", family, 24, {"rotary_pct": 0.3, "rope_scaling": {"type": "linear", "factor": 4.0}}


FULL, SLIDING = "full_attention", "sliding_attention"


def nested(full, sliding):
    return {"rope_parameters": {FULL: full, SLIDING: sliding}}


def nested_configs():
    layers = {"num_hidden_layers": 4, "layer_types": [SLIDING, FULL, SLIDING, SLIDING]}
    plain, other = {"rope_type": "default", "rope_theta": 31000.0}, {"rope_type": "default", "rope_theta": 770.0}
    yarn = {"rope_type": "yarn", "factor": 8.0, ORIGINAL: 8192, "rope_theta": 500000.0, "beta_fast": 32.0, "beta_slow": 1.0}
    linear = {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}
    for family in ("gemma3_text", "olmo3", "modernbert-decoder", "cohere_compass_text"):
        yield f"nested_{family}_plain", family, 64, {**layers, **nested(plain, other)}
        yield f"nested_{family}_linear", family, 64, {**layers, **nested(linear, plain)}
        yield f"nested_{family}_yarn", family, 64, {**layers, **nested(yarn, plain)}
        yield f"nested_{family}_null", family, 64, {**layers, **nested(None, plain)}
    yield "nested_cohere_compass_text_null_sliding", "cohere_compass_text", 64, {**layers, **nested(plain, None)}
    for family in ("gemma3_text", "olmo3", "modernbert-decoder"):
        yield f"nested_{family}_class", family, 64, layers
        yield f"nested_{family}_without_theta", family, 64, {**layers, **nested({"rope_type": "default"}, {"rope_type": "linear", "factor": 2.0})}
    yield "nested_gemma3_text_longrope", "gemma3_text", 32, {
        **layers, **nested(longrope(16, rope_theta=9000.0, original_max_position_embeddings=1024), plain),
    }
    yield "gemma3_text_v4", "gemma3_text", 64, {
        **layers, "rope_theta": 1000000.0, "rope_local_base_freq": 12000.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    }
    yield "gemma3_text_v4_local", "gemma3_text", 64, {**layers, "rope_local_base_freq": 12000.0}
    yield "gemma3_text_v4_null", "gemma3_text", 64, {**layers, "rope_theta": 70000.0, "rope_scaling": None}
    for name, parameters in {
        "flat": other, "flat_yarn": {"rope_type": "yarn", "factor": 8.0, ORIGINAL: 512, "rope_theta": 9000.0}, "full": {FULL: linear},
        "sliding": {SLIDING: yarn}, "flat_beside": {FULL: plain, SLIDING: linear, "rope_theta": 5.0},
    }.items():
        yield f"olmo3_{name}", "olmo3", 64, {**layers, "rope_parameters": parameters}
    yield "olmo3_v4", "olmo3", 64, {**layers, "rope_theta": 500000.0, "rope_scaling": {key: value for key, value in yarn.items() if key != "rope_theta"}}
    yield "olmo3_v4_theta", "olmo3", 64, {**layers, "rope_theta": 70000.0}
    yield "olmo3_v4_null", "olmo3", 64, {**layers, "rope_scaling": None}
    yield "modernbert_v4", "modernbert-decoder", 64, {**layers, "global_rope_theta": 70000.0, "local_rope_theta": 9000.0}


def default_configs():
    """Classes that rotate by more than a base where the config says nothing."""
    for family in ("cwm", "apertus", "ministral3", "ernie4_5", "cohere2"):
        layers = {"num_hidden_layers": 2, "layer_types": [SLIDING] * 2} if family == "cohere2" else {}
        yield f"class_{family}", family, 64, layers
        yield f"class_{family}_theta", family, 64, {**layers, "rope_theta": 123000.0}
        if family != "ministral3":
            linear = {"rope_type": "linear", "factor": 2.0}
            yield f"class_{family}_linear", family, 64, {**layers, "rope_parameters": linear}
            yield f"class_{family}_linear_v4", family, 64, {**layers, "rope_theta": 123000.0, "rope_scaling": linear}


def configs():
    """Name, family, width of a head and keys of every case."""
    for index, (theta, head_dim) in enumerate(itertools.product(THETAS, HEAD_DIMS)):
        family = WHOLE[index % 3]
        layout = {"rope_theta": theta} if index % 2 else {"rope_parameters": {"rope_type": "default", "rope_theta": theta}}
        yield f"default_{theta}_{head_dim}", family, head_dim, layout
    yield "theta_integer", "llama", 64, {"rope_theta": 500000}
    yield "scaling_null", "llama", 64, {"rope_theta": 500000.0, "rope_scaling": None}
    yield "nothing", "llama", 64, {}
    yield "parameters_without_type", "qwen3", 64, {"rope_parameters": {"rope_theta": 777.0}}
    yield "parameters_without_theta", "qwen2", 64, {"rope_parameters": {"rope_type": "linear", "factor": 2.0}}
    yield "parameters_and_top_theta", "qwen2", 64, {"rope_theta": 31000.0, "rope_parameters": {"rope_type": "linear", "factor": 2.0}}
    for index, (name, scaling) in enumerate(SCALINGS.items()):
        for head_dim, theta in ((64, 500000.0), (128, 1000000.0), (24, 10000.0)):
            family = WHOLE[index % 3]
            yield f"{name}_{head_dim}_v4", family, head_dim, {"rope_theta": theta, "rope_scaling": scaling}
        yield f"{name}_v5", family, 128, {"rope_parameters": {**scaling, "rope_theta": theta}}
    yield from itertools.chain(longrope_configs(), outer_configs(), dynamic_configs(), partial_configs(), nested_configs(), default_configs())


# Configs that transformers cannot build a rotation from.
FAILS = {"partial_gpt_neox_odd_yarn", "partial_gpt_neox_japanese_odd_yarn", "nested_modernbert-decoder_null"}
# Families that have a key for the width of a head.
WHOLE = ["llama", "qwen2", "qwen3"]


def config_of(family, head_dim, keys):
    """A model of one layer with two heads."""
    config = {
        "model_type": family, "hidden_size": 2 * head_dim, "intermediate_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1,
        "vocab_size": 4, "max_position_embeddings": 40960,
    }
    if family in WHOLE:
        config |= {"num_key_value_heads": 1, "head_dim": head_dim}
    elif family in ("gemma3_text", "glm", "glm4", "ernie4_5", "ministral3"):
        config |= {"head_dim": head_dim}
    if family == "gpt_neox_japanese":
        del config["intermediate_size"]
    if family in ("stablelm", "glm", "glm4", "nemotron", "cwm", "ernie4_5", "gemma3_text", "ministral3"):
        config |= {"num_key_value_heads": 1}
    return config | keys


def numbers(tensor):
    """fp32 numbers as the shortest decimals that are read back as the same."""
    values = [float(str(value)) for value in tensor.to(torch.float32).numpy()]
    assert [numpy.float32(value) for value in values] == list(tensor.to(torch.float32).numpy())
    return values


def frequencies(config_class, rotary_class, config, kind):
    """Frequencies and factor of the layers of one kind, and how they change with the length."""
    rotary = rotary_class(config_class.from_dict(copy.deepcopy(config)))
    prefix = f"{kind}_" if kind else ""
    if not hasattr(rotary, f"{prefix}inv_freq"):
        return None

    def at(length):
        arguments = {"layer_type": kind} if kind else {}
        rotary(torch.zeros(1), torch.tensor([[length - 1]]), **arguments)
        return numbers(getattr(rotary, f"{prefix}inv_freq"))

    rope = {"inv_freq": numbers(getattr(rotary, f"{prefix}inv_freq")), "attention_scaling": float(getattr(rotary, f"{prefix}attention_scaling"))}
    rope_type = rotary.rope_type[kind] if kind else rotary.rope_type
    if rope_type == "longrope":
        parameters = rotary.config.rope_parameters
        length = (parameters[kind] if kind else parameters)[ORIGINAL]
        assert at(length) == rope["inv_freq"] != at(length + 1) == at(10 * length)
        rope |= {"long": at(length + 1), "length": length}
    if rope_type == "dynamic" and "alpha" not in rotary.config.rope_parameters:
        limit = config["max_position_embeddings"]
        assert at(limit) == rope["inv_freq"] != at(limit + 1) != at(limit + 2)
        rope["limit"] = limit
    return rope


def case_of(name, family, config):
    module, prefix = FAMILIES[family].split(".")
    rotary_class = getattr(importlib.import_module(f"transformers.models.{module}.modeling_{module}"), f"{prefix}RotaryEmbedding")
    config_class = CONFIG_MAPPING[family]
    parsed = config_class.from_dict(copy.deepcopy(config))
    by_kind = not hasattr(rotary_class(copy.deepcopy(parsed)), "inv_freq")
    kinds = list(dict.fromkeys(parsed.layer_types)) if by_kind else [None]
    ropes = [frequencies(config_class, rotary_class, config, kind) for kind in kinds]
    layers = [kinds.index(kind) for kind in parsed.layer_types] if by_kind else [0] * parsed.num_hidden_layers
    return {"name": name, "config": config, "layers": layers, "ropes": ropes}


def failure_of(name, family, config):
    """What transformers says; what it cannot compute has no meaning."""
    try:
        case_of(name, family, config)
    except Exception as error:
        return {"name": name, "config": config, "fails": f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"}
    raise AssertionError(f"{name} does not fail")


def main():
    transformers.utils.logging.set_verbosity_error()
    cases = []
    for name, family, head_dim, keys in configs():
        config = config_of(family, head_dim, keys)
        cases.append(failure_of(name, family, config) if name in FAILS else case_of(name, family, config))
    made_by = f"tools/make_rope_cases.py, transformers {transformers.__version__}, torch {torch.__version__}"
    lines = ",\n".join(json.dumps(case) for case in cases)
    (TESTDATA / "rope.json").write_text(f'{{"made_by": "{made_by}", "cases": [\n{lines}\n]}}\n')


main()
