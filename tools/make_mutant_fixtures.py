#!/usr/bin/env python3
"""Makes the tiny checkpoints `testdata/mutants/*` that faults are seeded into, with golden logits and taps by transformers.

    make_mutant_fixtures.py [-o testdata/mutants] [NAME ...]

Each checkpoint has what its family is told apart by. Weights are random, seeded by the name and large enough that every part matters.
`golden.safetensors` holds logits for one prompt and for a left-padded batch; `taps.safetensors` holds, for the prompt, what
transformers has inside: `embedding`, `layers.N.self_attn` and `layers.N.mlp` (before they meet the stream), `layers.N` (the stream
after the layer) and `final_norm`, each `[tokens, width]`. Needs: torch, transformers 5.24, safetensors.
"""

import argparse
import json
import math
import pathlib
import shutil

import torch
import transformers
from safetensors.torch import save_file

from capture_golden import left_padded
from make_fixtures import generator, load, logits_of

PROMPT = 40
SIZES = dict(vocab_size=128, bos_token_id=1, eos_token_id=2, pad_token_id=0, max_position_embeddings=256)
LLAMA_LIKE = SIZES | dict(
    hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8, rms_norm_eps=1e-5,
    tie_word_embeddings=False)


def rope(theta, kind="default", **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


MODELS = {
    # Grouped heads, a scaled rotation, no ties.
    "llama": (transformers.LlamaConfig, LLAMA_LIKE | dict(rope_parameters=rope(
        10000.0, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32))),
    # Soft caps, windows on every other layer, norms that add one, a query scale, a scaled embedding, a tie, tanh GELU.
    "gemma2": (transformers.Gemma2Config, LLAMA_LIKE | dict(
        head_dim=12, sliding_window=8, attn_logit_softcapping=5.0, final_logit_softcapping=3.0, query_pre_attn_scalar=20,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], tie_word_embeddings=True, rope_parameters=rope(10000.0))),
    # Learned positions, biases, one matrix for q, k and v, layer norms.
    "gpt2": (transformers.GPT2Config, dict(vocab_size=128, n_positions=256, n_embd=32, n_layer=3, n_head=4, n_inner=40, bos_token_id=1, eos_token_id=2, pad_token_id=0)),
    # A partial rotation, biases, q, k and v interleaved head by head, both blocks on one stream.
    "gpt_neox": (transformers.GPTNeoXConfig, SIZES | dict(
        hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4, tie_word_embeddings=False,
        use_parallel_residual=True, rope_parameters=rope(10000.0, partial_rotary_factor=0.5))),
    # Four multipliers.
    "granite": (transformers.GraniteConfig, {key: value for key, value in LLAMA_LIKE.items() if key != "head_dim"} | dict(
        embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.4, logits_scaling=2.0, rope_parameters=rope(10000.0))),
    # Both blocks on one stream, interleaved pairs, norms of queries and keys with a gain a head, a logit scale, a tie.
    "cohere": (transformers.CohereConfig, SIZES | dict(
        hidden_size=32, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, logit_scale=0.25,
        use_qk_norm=True, layer_norm_eps=1e-5, rope_parameters=rope(10000.0))),
    # Windows from layer 1 on, norms of queries and keys, biases.
    "qwen3": (transformers.Qwen3Config, LLAMA_LIKE | dict(
        use_sliding_window=True, sliding_window=8, max_window_layers=1, attention_bias=True, rope_parameters=rope(1000000.0))),
}


def fill(model, random):
    """As in make_fixtures.py; Gemma's norms add one to what is stored, GPT-2 stores its matrices the other way round."""
    gemma = model.config.model_type.startswith("gemma")
    with torch.no_grad():
        for name, tensor in sorted(model.named_parameters()):
            noise = torch.randn(tensor.shape, generator=random)
            if "norm" in name and name.endswith("weight") or "ln_" in name and name.endswith("weight"):
                tensor.copy_((0 if gemma else 1) + 0.3 * noise)
            elif name.endswith("bias"):
                tensor.copy_(0.5 * noise)
            elif "embed_tokens" in name or "embed_in" in name or "wte" in name or "wpe" in name:
                # Small, as in real models: the first norms then divide by little, and their eps shows.
                tensor.copy_((1 / math.sqrt(model.config.hidden_size) if gemma else 0.2) * noise)
            else:
                width = tensor.shape[0] if model.config.model_type == "gpt2" and "lm_head" not in name else tensor.shape[1]
                gain = 1.6 if any(part in name for part in ("q_proj", "k_proj", "query_key_value", "c_attn")) else 1.0
                tensor.copy_(gain / math.sqrt(width) * noise)


def first(output):
    return output[0] if isinstance(output, tuple) else output


def taps_of(model, ids, mask, positions):
    """What hooks on embedding, blocks, layers and final norm see, flattened to `[tokens, width]`."""
    inner = model.base_model
    layers = inner.h if hasattr(inner, "h") else inner.layers
    norm = next(getattr(inner, name) for name in ("norm", "final_layer_norm", "ln_f") if hasattr(inner, name))
    places = {"final_norm": norm}
    for index, layer in enumerate(layers):
        places[f"layers.{index}"] = layer
        places[f"layers.{index}.self_attn"] = next(getattr(layer, name) for name in ("self_attn", "attention", "attn") if hasattr(layer, name))
        places[f"layers.{index}.mlp"] = layer.mlp
    taps, hooks = {}, []
    keep = lambda name: lambda _module, _inputs, output: taps.__setitem__(name, first(output).flatten(0, 1).clone())
    hooks += [place.register_forward_hook(keep(name)) for name, place in places.items()]
    entering = lambda _module, inputs, keywords: taps.__setitem__("embedding", (inputs[0] if inputs else keywords["hidden_states"]).flatten(0, 1).clone())
    hooks.append(layers[0].register_forward_pre_hook(entering, with_kwargs=True))
    logits_of(model, ids, mask, positions)
    for hook in hooks:
        hook.remove()
    return taps


def make(name, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kind, changes = MODELS[name]
    random = generator("mutants/" + name)
    model = transformers.AutoModelForCausalLM.from_config(kind(**changes), attn_implementation="eager").eval()
    fill(model, random)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((folder / "config.json").read_text())
    config.pop("_name_or_path", None)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    model = load(folder)
    golden = {}
    for key, counts in {"plain": [PROMPT], "padded": [20, 9, 14]}.items():
        prompts = [torch.randint(3, SIZES["vocab_size"], (count,), generator=random).tolist() for count in counts]
        ids, mask, positions = left_padded(prompts, SIZES["pad_token_id"])
        golden |= {f"{key}.input_ids": ids, f"{key}.attention_mask": mask, f"{key}.position_ids": positions, f"{key}.logits": logits_of(model, ids, mask, positions)}
        if key == "plain":
            taps = taps_of(model, ids, mask, positions)
    producer = {"producer": "tools/make_mutant_fixtures.py"}
    save_file({key: tensor.contiguous() for key, tensor in golden.items()}, folder / "golden.safetensors", metadata=producer)
    save_file({key: tensor.contiguous() for key, tensor in taps.items()}, folder / "taps.safetensors", metadata=producer)
    return sum(path.stat().st_size for path in folder.iterdir())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("testdata/mutants"))
    parser.add_argument("names", nargs="*", help="checkpoints to make; all unless said")
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    for name in options.names or MODELS:
        print(f"{name:10} {make(name, options.output / name):8} bytes")


if __name__ == "__main__":
    main()
