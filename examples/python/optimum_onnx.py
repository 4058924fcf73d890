"""A bundle in Optimum: python optimum_onnx.py BUNDLE "The capital of France is"   (pip install "optimum-onnx[onnxruntime]==0.1.0")"""

import sys

from optimum.onnxruntime import ORTModelForCausalLM
from transformers import AutoTokenizer

bundle, prompt = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(bundle)
model = ORTModelForCausalLM.from_pretrained(bundle)

inputs = tokenizer(prompt, return_tensors="pt")
tokens = model.generate(**inputs, max_new_tokens=16, do_sample=False)
print(tokenizer.decode(tokens[0], skip_special_tokens=True))
