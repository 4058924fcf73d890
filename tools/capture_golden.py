#!/usr/bin/env python3
"""Captures golden logits: what transformers computes of a checkpoint, as a file that `plansmith verify --golden` reads.

    capture_golden.py MODEL -o golden.safetensors --prompt "The capital of France is" --prompt "def main():"
    capture_golden.py MODEL -o golden.safetensors --ids 1,5,9 --batch --keep 4

MODEL is a folder that transformers loads (config.json and safetensors). Each prompt becomes one set `p0`, `p1`, … of the file:
`input_ids` and `position_ids` int64 `[1, seq]`, `attention_mask` int64 `[1, seq]`, `logits` float32 `[1, seq, vocab]`. `--batch`
makes one more set, `batch`, of all prompts padded on the left, positions counted from the mask. `--keep N` stores the logits of N
positions of a set only (the first, the last, and between them), named by `positions` int64 `[n]`.

The attention is transformers' eager one; weights are converted to `--dtype` (float32 unless said) before anything is computed.
Needs: torch, transformers, safetensors; a tokenizer in MODEL for prompts in words.
"""

import argparse
import hashlib
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path, help="folder with config.json and safetensors")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True, help="file to write")
    parser.add_argument("--prompt", action="append", default=[], help="a prompt in words; repeatable")
    parser.add_argument("--ids", action="append", default=[], help="a prompt as token ids, 1,2,3; repeatable")
    parser.add_argument("--prompts", type=pathlib.Path, help="a file with one prompt a line: text, or {\"text\": …} or {\"ids\": […]} as plansmith reads; or a JSON list of strings and lists of ids")
    parser.add_argument("--batch", action="store_true", help="also all prompts as one batch, padded on the left")
    parser.add_argument("--keep", type=int, help="store the logits of this many positions of each set")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"], help="what is computed in")
    return parser.parse_args()


def prompts_of(options):
    """Names of sets and their ids; lines of a JSONL file have the names that plansmith gives them."""
    prompts = list(options.prompt) + [[int(id) for id in ids.split(",")] for ids in options.ids]
    named = {f"p{index}": prompt for index, prompt in enumerate(prompts)}
    if options.prompts:
        text = options.prompts.read_text()
        if text.lstrip().startswith("["):
            named |= {f"p{len(prompts) + index}": prompt for index, prompt in enumerate(json.loads(text))}
        else:
            for number, line in enumerate(text.splitlines(), 1):
                if line.startswith("{"):
                    line = json.loads(line)
                    if not isinstance(line, dict) or sorted(line) not in (["ids"], ["text"]):
                        sys.exit(f"capture_golden.py: {options.prompts} line {number}: needs `ids` or `text`, and nothing else")
                    line = line.get("ids", line.get("text"))
                if line:
                    named[f"line-{number}"] = line
    if not named:
        sys.exit("capture_golden.py: no prompt: give --prompt, --ids or --prompts")
    if any(isinstance(prompt, str) for prompt in named.values()):
        tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
        named = {name: tokenizer(prompt)["input_ids"] if isinstance(prompt, str) else prompt for name, prompt in named.items()}
    return named


def left_padded(prompts, pad):
    """`[batch, seq]` ids, mask and positions; a position counts the attended tokens before it."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[pad] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    return ids, mask, (mask.cumsum(-1) - 1).clamp(min=0)


def kept(count, seq):
    """`count` positions of `seq`, spread evenly, the first and the last among them."""
    if count is None or count >= seq:
        return None
    if count == 1:
        return [seq - 1]
    return sorted({round(i * (seq - 1) / (count - 1)) for i in range(count)})


def capture(model, name, prompts, pad, keep):
    """The tensors of one set."""
    ids, mask, positions = left_padded(prompts, pad)
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).logits.float()
    tensors = {f"{name}.input_ids": ids, f"{name}.attention_mask": mask, f"{name}.position_ids": positions}
    if (chosen := kept(keep, ids.shape[1])) is not None:
        tensors[f"{name}.positions"] = torch.tensor(chosen)
        logits = logits[:, chosen]
    tensors[f"{name}.logits"] = logits
    return {key: tensor.contiguous() for key, tensor in tensors.items()}


def weights_digest(folder):
    """SHA-256 of each weight file."""
    digests = {}
    for path in sorted(folder.glob("*.safetensors")):
        with open(path, "rb") as file:
            digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def main():
    options = arguments()
    prompts = prompts_of(options)
    dtype = getattr(torch, options.dtype)
    model = transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype=dtype, attn_implementation="eager").eval()
    pad = model.config.pad_token_id or 0
    tensors = {}
    for name, prompt in prompts.items():
        tensors |= capture(model, name, [prompt], pad, options.keep)
    if options.batch:
        tensors |= capture(model, "batch", list(prompts.values()), pad, options.keep)
    save_file(tensors, options.output, metadata={
        "producer": "tools/capture_golden.py",
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "compute": options.dtype,
        "attention": "eager",
        "weights": json.dumps(weights_digest(options.model)),
    })
    for name, tensor in tensors.items():
        print(f"{name:24} {str(tensor.dtype).removeprefix('torch.'):8} {list(tensor.shape)}")


if __name__ == "__main__":
    main()
