"""Times transformers on a checkpoint: time_transformers.py FOLDER PREFILL DECODE REPEAT

Prints what `plansmith bench --json` prints: seconds to load, of one prefill, and decoded tokens a second (medians after one warm-up).
"""

import json
import resource
import statistics
import sys
import time

import torch
import transformers

folder, prefill, decode, repeat = sys.argv[1], *map(int, sys.argv[2:])
start = time.perf_counter()
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
load = time.perf_counter() - start
prefills, decodes = [], []
with torch.no_grad():
    for _ in range(repeat + 1):
        start = time.perf_counter()
        cache = model(torch.tensor([[(index * 7 + 3) % 128 for index in range(prefill)]]), use_cache=True).past_key_values
        prefills.append(time.perf_counter() - start)
        start = time.perf_counter()
        for index in range(decode):
            cache = model(torch.tensor([[(index * 31 + 11) % 128]]), past_key_values=cache, use_cache=True).past_key_values
        decodes.append(time.perf_counter() - start)
print(json.dumps({
    "runtime": f"transformers {transformers.__version__}",
    "load_s": load,
    "prefill_tokens": prefill,
    "prefill_s": statistics.median(prefills[1:]),
    "decode_tokens": decode,
    "decode_tokens_per_s": decode / statistics.median(decodes[1:]),
    "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
}))
