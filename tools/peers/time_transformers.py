"""Times transformers on a checkpoint: time_transformers.py FOLDER ATTENTION PREFILL DECODE REPEAT

Prints what `plansmith bench --json` prints: seconds to load, of one prefill, and decoded tokens a second (medians after one warm-up);
besides, of the prefills the fastest and the least CPU time. ATTENTION is `sdpa` or `eager`.
"""

import json
import resource
import statistics
import sys
import time

import torch
import transformers

folder, attention, prefill, decode, repeat = *sys.argv[1:3], *map(int, sys.argv[3:])
start = time.perf_counter()
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention).eval()
load = time.perf_counter() - start
prefills, cpu, decodes = [], [], []
with torch.no_grad():
    for _ in range(repeat + 1):
        start, before = time.perf_counter(), time.process_time()
        cache = model(torch.tensor([[(index * 7 + 3) % 128 for index in range(prefill)]]), use_cache=True).past_key_values
        prefills.append(time.perf_counter() - start)
        cpu.append(time.process_time() - before)
        start = time.perf_counter()
        for index in range(decode):
            cache = model(torch.tensor([[(index * 31 + 11) % 128]]), past_key_values=cache, use_cache=True).past_key_values
        decodes.append(time.perf_counter() - start)
print(json.dumps({
    "runtime": f"transformers {transformers.__version__}",
    "load_s": load,
    "prefill_tokens": prefill,
    "prefill_s": statistics.median(prefills[1:]),
    "prefill_fastest_s": min(prefills[1:]),
    "prefill_cpu_s": min(cpu[1:]),
    "decode_tokens": decode,
    "decode_tokens_per_s": decode / statistics.median(decodes[1:]),
    "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
}))
