"""A bundle in onnxruntime-genai: python genai.py BUNDLE "The capital of France is"   (pip install onnxruntime-genai==0.18.0)"""

import sys

import onnxruntime_genai as genai

bundle, prompt = sys.argv[1:]
model = genai.Model(bundle)
tokenizer = genai.Tokenizer(model)
stream = tokenizer.create_stream()

parameters = genai.GeneratorParams(model)
ids = tokenizer.encode(prompt)
parameters.set_search_options(max_length=len(ids) + 16)
generator = genai.Generator(model, parameters)
generator.append_tokens(ids)

print(prompt, end="")
while not generator.is_done():
    generator.generate_next_token()
    print(stream.decode(generator.get_next_tokens()[0]), end="", flush=True)
print()
