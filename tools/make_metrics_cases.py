#!/usr/bin/env python3
"""Makes testdata/verify/: what numpy says of logits that plansmith-verify compares, and of every golden file under testdata/cases.

    make_metrics_cases.py                     writes testdata/verify/metrics.json and goldens.json

The definitions are those of crates/verify/src/metrics.rs, computed here in float64 from float32 inputs, array-wise instead of streamed.
Needs: numpy.
"""

import json
import math
import pathlib
import struct

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARGIN = 0.05


def log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(-1, keepdims=True))


def top(row, count):
    order = numpy.argsort(-row, kind="stable")
    return [int(index) for index in order if not math.isnan(row[index])][:count]


def by_column(difference, finite, kl, whole, flips, margins, scale):
    """Row r is column r % 3; figures of each column."""
    columns = {}
    kl_of = numpy.full(len(flips), numpy.nan)
    kl_of[whole] = kl
    for column in range(min(3, len(flips))):
        rows = numpy.arange(len(flips)) % 3 == column
        values = difference[rows][finite[rows]]
        some_kl = kl_of[rows & whole] if (rows & whole).any() else numpy.zeros(1)
        flipped = [margin for margin, flip in zip(margins[rows & whole], flips[rows & whole]) if flip]
        columns[str(column)] = {
            "positions": int(rows.sum()),
            "max_abs": float(values.max()) if values.size else 0.0,
            "mean_abs": float(values.mean()) if values.size else 0.0,
            "max_rel": float(values.max() / scale) if values.size else 0.0,
            "kl_mean": float(some_kl.mean()),
            "kl_max": float(some_kl.max()),
            "flips": len(flipped),
            "flip_margin": float(max(flipped + [0]) / scale),
        }
    return columns


def expected(source, candidate):
    vocab = source.shape[1]
    source, candidate = source.astype(numpy.float64), candidate.astype(numpy.float64)
    finite = numpy.isfinite(source) & numpy.isfinite(candidate)
    difference = numpy.abs(source[finite] - candidate[finite])
    values = source[numpy.isfinite(source)]
    scale = values.std()
    if scale == 0:
        scale = numpy.abs(values).max() or 1.0
    whole = finite.all(-1)
    ours, theirs = log_softmax(source[whole]), log_softmax(candidate[whole])
    kl = (numpy.exp(ours) * (ours - theirs)).sum(-1)
    kl = numpy.maximum(kl, 0)
    flips, overlap, margins = [], 0, []
    for row, (s, c) in enumerate(zip(source, candidate)):
        best, runners = top(s, 5), top(c, 5)
        flips.append(not whole[row] or best[0] != runners[0])
        overlap += len(set(best) & set(runners)) if whole[row] else 0
        margins.append(s[best[0]] - s[best[1]] if len(best) > 1 else math.inf)
    decided = numpy.array(margins) > MARGIN * scale
    flips, margins = numpy.array(flips), numpy.array(margins)
    # The token that follows row r is (5 r + 1) % vocab.
    next = (5 * numpy.arange(len(source)) + 1) % vocab
    surprise = [-log[numpy.arange(len(log)), next[whole]] for log in (ours, theirs)]
    with numpy.errstate(over="ignore"):
        perplexity = [float(numpy.exp(nats.mean())) for nats in surprise] if whole.any() else None
    with numpy.errstate(invalid="ignore"):
        absolute = numpy.abs(source - candidate)
    worst = sorted(((float(margins[row] / scale), int(row)) for row in numpy.flatnonzero(flips & whole)), key=lambda pair: (-pair[0], pair[1]))
    return {
        "perplexity": [value if math.isfinite(value) else None for value in perplexity] if perplexity else None,
        "kl_counts": numpy.bincount(numpy.digitize(kl, [10.0 ** e for e in range(-16, 3)]), minlength=20).tolist(),
        "flips": worst[:20],
        "by_column": by_column(absolute, finite, kl, whole, flips, margins, scale),
        "positions": len(source),
        "nonfinite": int((~finite).sum()),
        "scale": float(scale),
        "max_abs": float(difference.max()) if difference.size else 0.0,
        "mean_abs": float(difference.mean()) if difference.size else 0.0,
        "max_rel": float(difference.max() / scale) if difference.size else 0.0,
        "mean_rel": float(difference.mean() / scale) if difference.size else 0.0,
        "kl_mean": float(kl.mean()) if kl.size else None,
        "kl_p99": float(numpy.percentile(kl, 99)) if kl.size else None,
        "kl_max": float(kl.max()) if kl.size else None,
        "top1_agreement": float(1 - flips.mean()),
        "top5_overlap": overlap / (len(source) * min(5, source.shape[1])),
        "decided": int(decided.sum()),
        "decided_flips": int((decided & flips).sum()),
    }


def metric_cases():
    rng = numpy.random.default_rng(20)
    normal = lambda *shape: rng.standard_normal(shape).astype(numpy.float32)
    base = normal(6, 16) * 3
    cases = {
        "equal": (base, base),
        "noise": (base, base + normal(6, 16) * numpy.float32(0.3)),
        "factor": (base, base * numpy.float32(1.01)),
        "one_shift_a_row": (base, base + normal(6, 1)),
        "unrelated": (base, normal(6, 16) * 3),
        "large_offset": (base + numpy.float32(5e4), base + numpy.float32(5e4) + normal(6, 16) * numpy.float32(0.05)),
        "far_apart": (base * 400, base * -400),
        "many_positions": (many := normal(101, 7) * 2, many + normal(101, 7) * numpy.float32(0.2)),
        "vocabulary_of_one": (normal(3, 1), normal(3, 1)),
        "vocabulary_of_three": (three := normal(4, 3), three + normal(4, 3)),
        "constant": (numpy.full((2, 8), 5, numpy.float32), numpy.full((2, 8), 5, numpy.float32)),
        "constant_off": (numpy.full((2, 8), 5, numpy.float32), numpy.full((2, 8), 5.5, numpy.float32)),
        "zeros_off": (numpy.zeros((2, 8), numpy.float32), numpy.full((2, 8), 0.25, numpy.float32)),
        "minus_zero": (numpy.zeros((1, 6), numpy.float32), -numpy.zeros((1, 6), numpy.float32)),
        "ties": (numpy.array([[1, 2, 2, 0, 2, 1, 1]], numpy.float32), numpy.array([[1, 1, 2, 0, 2, 2, 1]], numpy.float32)),
    }
    for name, value, side in [("nan_in_candidate", numpy.nan, 1), ("inf_in_candidate", numpy.inf, 1), ("nan_in_source", numpy.nan, 0),
                              ("minus_inf_in_both", -numpy.inf, 2)]:
        pair = [base.copy(), base + normal(6, 16) * numpy.float32(0.1)]
        for index in [0, 1] if side == 2 else [side]:
            pair[index][2, 5] = value
        cases[name] = tuple(pair)
    nothing = numpy.full((2, 4), numpy.nan, numpy.float32)
    cases["all_nan"] = (normal(2, 4), nothing)
    listed = lambda array: [[float(value) if math.isfinite(value) else str(value) for value in row] for row in array]
    return [{"name": name, "margin": MARGIN, "source": listed(s), "candidate": listed(c), "expected": expected(s, c)}
            for name, (s, c) in cases.items()]


def tensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    dtypes = {"I64": "<i8", "F32": "<f4"}
    cut = lambda info: data[8 + length + info["data_offsets"][0]:8 + length + info["data_offsets"][1]]
    return {name: numpy.frombuffer(cut(info), dtypes[info["dtype"]]).reshape(info["shape"]) for name, info in header.items()}


def golden_facts():
    facts = {}
    for path in sorted((ROOT / "testdata" / "cases").glob("*/golden.safetensors")):
        if path.parent.name.startswith("made_"):
            continue  # made by another script of ours, which checks them itself
        parts = tensors(path)
        sets = {}
        for name in sorted({key.rsplit(".", 1)[0] for key in parts}):
            logits, mask = parts[f"{name}.logits"], parts[f"{name}.attention_mask"]
            positions = parts.get(f"{name}.positions", numpy.arange(logits.shape[1]))
            compared = logits[mask[:, positions] == 1].astype(numpy.float64)
            sets[name] = {
                "batch": logits.shape[0], "sequence": mask.shape[1], "stored": logits.shape[1], "vocab": logits.shape[2],
                "compared": len(compared), "scale": float(compared.std()), "last": [float(x) for x in logits[-1, -1, -3:]],
            }
        facts[path.parent.name] = sets
    return facts


def main():
    folder = ROOT / "testdata" / "verify"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in metric_cases()) + "\n]\n")
    (folder / "goldens.json").write_text(json.dumps(golden_facts(), indent=1) + "\n")


if __name__ == "__main__":
    main()
