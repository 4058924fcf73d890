#!/usr/bin/env python3
"""Makes testdata/reference/noise.json: how far transformers in fp32, fp16 and bf16 is from itself in fp64.

    make_noise.py                             cases below, over the prompts of their golden files
    make_noise.py MODEL GOLDEN                prints the same of one checkpoint, over the prompts of a golden file

Figures are those of crates/verify/src/metrics.rs, of each set's attended positions, the worst over the sets: `max_rel` and `mean_rel` in
standard deviations of the fp64 logits, `kl_mean` and `kl_max` in nats. Attention is eager: scores are stored in the dtype, softmax is fp32.
Needs: torch, transformers, safetensors.
"""

import contextlib
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file

CASES = pathlib.Path(__file__).resolve().parent.parent / "testdata" / "cases"
CHOSEN = [
    "left_pad_batch", "llama3_rope", "linear_rope", "llama_attention_bias", "made_llama_head_dim", "made_llama_yarn", "made_qwen2_window",
    "made_qwen3_qk_norm", "made_qwen3_window", "yarn_no_attention_factor",
]


@contextlib.contextmanager
def wide(dtype):
    """transformers takes norms, rotations and softmax to fp32 by name; in an fp64 run they are to be fp64."""
    if dtype != torch.float64:
        yield
        return
    single, cast = torch.float32, torch.Tensor.float
    torch.float32, torch.Tensor.float = torch.float64, torch.Tensor.double
    yield
    torch.float32, torch.Tensor.float = single, cast


def logits_of(folder, dtype, sets):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    with torch.no_grad(), wide(dtype):
        return [model(**inputs, use_cache=False).logits.double()[:, columns] for inputs, columns, _ in sets]


def sets_of(golden):
    tensors = load_file(golden)
    sets = []
    for name in sorted(key.removesuffix(".input_ids") for key in tensors if key.endswith(".input_ids")):
        ids = tensors[f"{name}.input_ids"]
        mask = tensors.get(f"{name}.attention_mask", torch.ones_like(ids))
        positions = tensors.get(f"{name}.position_ids", (mask.cumsum(-1) - 1).clamp(min=0))
        columns = tensors.get(f"{name}.positions", torch.arange(ids.shape[1]))
        sets.append(({"input_ids": ids, "attention_mask": mask, "position_ids": positions}, columns, mask[:, columns] == 1))
    return sets


def figures(source, candidate, attended):
    source, candidate = source[attended], candidate[attended]
    scale = source.std(correction=0)
    difference = (source - candidate).abs()
    ours, theirs = source.log_softmax(-1), candidate.log_softmax(-1)
    kl = (ours.exp() * (ours - theirs)).sum(-1).clamp(min=0)
    values = [difference.max() / scale, difference.mean() / scale, kl.mean(), kl.max()]
    return dict(zip(("max_rel", "mean_rel", "kl_mean", "kl_max"), (float(value) for value in values)))


def noise(folder, golden, show=False):
    sets = sets_of(golden)
    source = logits_of(folder, torch.float64, sets)
    result = {}
    for name, dtype in [("fp32", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16)]:
        found = [figures(*three) for three in zip(source, logits_of(folder, dtype, sets), [attended for _, _, attended in sets])]
        if show:
            for each in found:
                print(name, {key: f"{value:.2e}" for key, value in each.items()})
        result[name] = {key: max(each[key] for each in found) for key in found[0]}
    return result


def main():
    if len(sys.argv) == 3:
        print(json.dumps(noise(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), show=True), indent=1))
        return
    table = {case: noise(CASES / case, CASES / case / "golden.safetensors") for case in CHOSEN}
    rounded = {case: {dtype: {key: float(f"{value:.4g}") for key, value in each.items()} for dtype, each in of.items()} for case, of in table.items()}
    path = CASES.parent / "reference" / "noise.json"
    path.write_text(json.dumps(rounded, indent=1) + "\n")


if __name__ == "__main__":
    main()
