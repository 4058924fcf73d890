"""Makes testdata/reference/CASE.safetensors: logits of transformers under padding that no tokenizer makes.

    python tools/make_mask_goldens.py

Set `right` is padded on the right, set `inner` in the middle and at both ends; positions count attended columns, except that the
last row of `inner` has positions with a gap. Weights are those of testdata/cases/CASE, computed in fp32 with eager attention.
Needs PyPI transformers 5.24 and torch.
"""

import pathlib

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

TESTDATA = pathlib.Path(__file__).resolve().parent.parent / "testdata"
COLUMNS = 30
MASKED = {
    "right": [range(0, 0), range(19, 30), range(7, 30)],
    "inner": [range(10, 14), [0, 1, 5, 11, 12, 20, 29], range(3, 16)],
}


def main():
    (TESTDATA / "reference").mkdir(exist_ok=True)
    for case in ("left_pad_batch", "made_qwen2_window"):
        model = AutoModelForCausalLM.from_pretrained(TESTDATA / "cases" / case, dtype=torch.float32, attn_implementation="eager").eval()
        tensors = {}
        for name, rows in MASKED.items():
            generator = torch.Generator().manual_seed(len(name))
            ids = torch.randint(3, model.config.vocab_size, (len(rows), COLUMNS), generator=generator)
            mask = torch.ones_like(ids)
            for row, columns in enumerate(rows):
                mask[row, list(columns)] = 0
            positions = (mask.cumsum(-1) - 1).clamp(min=0)
            if name == "inner":
                positions[-1, 20:] += 9
            with torch.no_grad():
                logits = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).logits
            assert torch.isfinite(logits).all()
            tensors |= {f"{name}.input_ids": ids, f"{name}.attention_mask": mask, f"{name}.position_ids": positions, f"{name}.logits": logits}
        save_file(tensors, TESTDATA / "reference" / f"{case}.safetensors")


main()
