"""Greedy tokens by optimum-onnx: greedy_optimum.py FOLDER GREEDY.json [FILE] prints {"single": [...], "batch": [...]}.

FILE is the name of the graph where it is not the one that is taken unasked.
"""

import json
import sys

from optimum.onnxruntime import ORTModelForCausalLM
from transformers import AutoTokenizer

folder, cases = sys.argv[1], json.load(open(sys.argv[2]))["cases"]
new = len(cases[0]["tokens"])
tokenizer = AutoTokenizer.from_pretrained(folder)
named = {"file_name": sys.argv[3]} if len(sys.argv) > 3 else {}
model = ORTModelForCausalLM.from_pretrained(folder, **named)


def generate(prompts):
    inputs = tokenizer(prompts, return_tensors="pt", padding=True)
    tokens = model.generate(**inputs, max_new_tokens=new, do_sample=False)
    return tokens[:, inputs.input_ids.shape[1]:].tolist()


prompts = [case["prompt"] for case in cases]
print(json.dumps({"single": [generate([prompt])[0] for prompt in prompts], "batch": generate(prompts), "pad": tokenizer.pad_token_id}))
