"""Digests of float casts, for crates/checkpoint/tests/casts.rs.

Needs torch and numpy. Prints, for each cast, the SHA-256 of the little-endian result of a fixed sequence of sources:
every finite 16-bit pattern, or 100,000 finite wide patterns from xorshift64 (seed 88172645463325252). torch is the oracle
from fp32, fp16 and bf16; numpy from fp64 to fp16 and fp32; exact rationals from fp64 to bf16, where torch rounds twice.
"""

import hashlib
from fractions import Fraction

import numpy as np
import torch


def xorshift(count):
    state = 88172645463325252
    for _ in range(count):
        state ^= state << 13 & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 7
        state ^= state << 17 & 0xFFFFFFFFFFFFFFFF
        yield state


def wide():
    bits = np.fromiter(xorshift(100_000), dtype=np.uint64)
    singles = (bits >> np.uint64(32)).astype(np.uint32).view(np.float32)
    # Exponents from -30 to 33, and in every second pattern the lower 40 bits are zero but one: near ties of both targets.
    exponent = (bits >> np.uint64(52) & np.uint64(63)) + np.uint64(1023 - 30)
    sign = bits & np.uint64(1 << 63)
    mantissa = bits & np.uint64((1 << 52) - 1)
    near = (mantissa & np.uint64(0xFFF << 40)) | (mantissa & np.uint64(1))
    mantissa = np.where(np.arange(len(bits)) % 2 == 0, mantissa, near)
    doubles = (sign | exponent << np.uint64(52) | mantissa).view(np.float64)
    return singles[np.isfinite(singles)], doubles


def to_bf16(value):
    """The bits of a double in the normal range of bf16, rounded once, ties to even."""
    exact = abs(Fraction(value))
    exponent = 0
    while exact >= 2 ** (exponent + 1):
        exponent += 1
    while exact < Fraction(2) ** exponent:
        exponent -= 1
    mantissa = round(exact / Fraction(2) ** (exponent - 7))  # Python rounds ties to even.
    bits = ((exponent + 127) << 7) + mantissa - 128
    return bits | (0x8000 if value < 0 else 0)


def show(name, data):
    print(f"{name}: {hashlib.sha256(data).hexdigest()}")


def torch_bits(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


singles, doubles = wide()
patterns = torch.arange(65536, dtype=torch.int32).to(torch.uint16)
halves, brains = patterns.view(torch.float16), patterns.view(torch.bfloat16)
sources = {
    "F32": torch.from_numpy(singles.copy()),
    "F16": halves[torch.isfinite(halves)],
    "BF16": brains[torch.isfinite(brains)],
}
for name, source in sources.items():
    show(f"{name} source", torch_bits(source))
    for target in (torch.float32, torch.float16, torch.bfloat16):
        show(f"{name} -> {target}", torch_bits(source.to(target)))
with np.errstate(over="ignore"):
    show("F64 source", doubles.tobytes())
    show("F64 -> float32", doubles.astype(np.float32).tobytes())
    show("F64 -> float16", doubles.astype(np.float16).tobytes())
    show("F64 -> bfloat16", np.array([to_bf16(v) for v in doubles.tolist()], dtype=np.uint16).tobytes())
