"""Greedy tokens by onnxruntime-genai: greedy_genai.py FOLDER GREEDY.json prints {"single": [...], "batch": [...]}."""

import json
import sys

import numpy
import onnxruntime_genai as genai

folder, cases = sys.argv[1], json.load(open(sys.argv[2]))["cases"]
new = len(cases[0]["tokens"])
model = genai.Model(folder)
tokenizer = genai.Tokenizer(model)


def generate(rows):
    parameters = genai.GeneratorParams(model)
    parameters.set_search_options(batch_size=len(rows), max_length=len(rows[0]) + new)
    generator = genai.Generator(model, parameters)
    generator.append_tokens(numpy.array(rows, dtype=numpy.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return [[int(token) for token in generator.get_sequence(row)][len(rows[0]):] for row in range(len(rows))]


single = []
for case in cases:
    ids = [int(token) for token in tokenizer.encode(case["prompt"])]
    assert ids == case["ids"], (ids, case["ids"])
    single.append(generate([ids])[0])
# Its tokenizer pads on the right, whatever tokenizer_config.json says, and its generator finds the padding there.
padded = tokenizer.encode_batch([case["prompt"] for case in cases]).as_numpy().tolist()
print(json.dumps({"single": single, "batch": generate(padded), "pad": padded[1][-1]}))
