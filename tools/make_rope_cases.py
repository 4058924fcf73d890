"""Makes testdata/rope.json and testdata/config_defaults.json: what transformers makes of configs.

    python tools/make_rope_cases.py

rope.json holds, for configs in both layouts, the inverse frequencies (fp32, written exactly) and the factor on cosine and sine
of the class's own rotary embedding. config_defaults.json holds each class's defaults (`to_dict`), and names and shapes of the
parameters of a model built from them. Needs PyPI transformers 5.24 and torch.
"""

import copy
import itertools
import json
import pathlib

import torch
import transformers
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

TESTDATA = pathlib.Path(__file__).resolve().parent.parent / "testdata"
FAMILIES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM, LlamaRotaryEmbedding),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM, Qwen2RotaryEmbedding),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM, Qwen3RotaryEmbedding),
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


def configs():
    """Name and config.json of every case."""
    for index, (theta, head_dim) in enumerate(itertools.product(THETAS, HEAD_DIMS)):
        family = list(FAMILIES)[index % 3]
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
            family = list(FAMILIES)[index % 3]
            yield f"{name}_{head_dim}_v4", family, head_dim, {"rope_theta": theta, "rope_scaling": scaling}
        yield f"{name}_v5", family, 128, {"rope_parameters": {**scaling, "rope_theta": theta}}


def main():
    cases = []
    for name, family, head_dim, layout in configs():
        config = {
            "model_type": family, "hidden_size": 2 * head_dim, "intermediate_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
            "head_dim": head_dim, "num_hidden_layers": 1, "vocab_size": 4, "max_position_embeddings": 40960, **layout,
        }
        config_class, _, rotary_class = FAMILIES[family]
        rotary = rotary_class(config_class.from_dict(copy.deepcopy(config)))
        inverse = [float(value) for value in rotary.inv_freq.to(torch.float32)]
        assert len(inverse) == head_dim // 2
        cases.append({"name": name, "config": config, "inv_freq": inverse, "attention_scaling": float(rotary.attention_scaling)})
    provenance = f"tools/make_rope_cases.py, transformers {transformers.__version__}, torch {torch.__version__}"
    write("rope.json", provenance, "cases", cases)

    classes = []
    for family, (config_class, model_class, _) in FAMILIES.items():
        config = config_class()
        with torch.device("meta"):
            model = model_class(config)
        shapes = [[key, list(tensor.shape)] for key, tensor in model.state_dict().items()]
        classes.append({
            "model_type": family, "architecture": model_class.__name__, "defaults": config.to_dict(), "parameters": shapes,
            "scaling": model.model.layers[0].self_attn.scaling,
        })
    write("config_defaults.json", provenance, "classes", classes)


def write(name, provenance, key, rows):
    lines = ",\n".join(json.dumps(row) for row in rows)
    (TESTDATA / name).write_text(f'{{"made_by": "{provenance}", "{key}": [\n{lines}\n]}}\n')


main()
