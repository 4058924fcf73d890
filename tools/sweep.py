#!/usr/bin/env python3
"""Sweeps every causal-LM class of transformers: tiny random checkpoints with golden logits, and what plansmith says of each.

    sweep.py make OUTDIR [--seed S] [--only TYPE,…] [--random N] [--jobs N] [--again]
    sweep.py run OUTDIR PLANSMITH [--only TYPE,…] [--runtime rten] [--jobs N]

`make` writes OUTDIR/<type>-<nn>-<what>/ with config.json, model.safetensors, golden.safetensors (sets `p0`, one prompt, and `batch`, three rows
padded on the left) and case.json: how far transformers disagrees with itself (eager and sdpa attention, rows alone and in
the batch), over the standard deviation of the logits. OUTDIR/made.json lists the types and what could not be made.
`run` verifies every case against its golden: exit 0 agreed, 1 wrong, 2 refused; a refusal prints nothing to stdout and names something.
Needs: torch, transformers 5.24, safetensors. `run` needs neither.
"""

import argparse
import collections
import concurrent.futures
import copy
import hashlib
import json
import math
import multiprocessing
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

LIMIT_S = 10  # of CPU time, which other work on the machine does not count in
WALL_LIMIT_S = 120
SELF_LIMIT = 1e-4  # of the logits' standard deviation
MOST_BYTES = 600_000
TRIES = 8


def digest(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


# ---- make


def gain_of(name, config):
    """How much larger than unit variance: queries and keys, so that attention is sharp; less where the scores are not scaled."""
    leaf = name.lower()
    if not any(word in leaf for word in ("q_proj", "k_proj", "query", "key", "qkv", "c_attn", "w_pack", "q_b_proj", "k_b_proj", ".q.", ".k.", "wq", "wk", "q_lin", "k_lin")):
        return 1.0
    return 0.9 if getattr(config, "model_type", "") in ("gpt_neo",) or getattr(config, "scale_attn_weights", True) is False else 1.6


def multiplier_of(config):
    """What the class multiplies its embeddings by."""
    hidden = getattr(config, "hidden_size", 64) or 64
    if "gemma" in config.model_type or config.model_type in ("helium_unused",) or getattr(config, "scale_embedding", False) or config.model_type == "ctrl":
        return math.sqrt(hidden)
    value = getattr(config, "embedding_multiplier", None) or getattr(config, "scale_emb", None) or 1.0
    return value if isinstance(value, (int, float)) else 1.0


def fill(model, seed):
    """Random weights that keep every parameter from being trivial, by module and by what the class initialises."""
    import torch
    from torch import nn
    generator = torch.Generator().manual_seed(seed)
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    embeddings = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Embedding)}
    transposed = {f"{name}.weight" for name, module in model.named_modules() if type(module).__name__ == "Conv1D"}
    head = model.get_output_embeddings()
    vocab = getattr(config, "vocab_size", 128)
    with torch.no_grad():
        for name, tensor in sorted(model.named_parameters()):
            noise = torch.randn(tensor.shape, generator=generator)
            if name in embeddings:
                scale = 1.0 / multiplier_of(config) if tensor.shape[0] >= vocab else 0.5
                tensor.copy_(scale * noise)
            elif tensor.dim() <= 1 or min(tensor.shape) == 1:
                if name.endswith("bias") and not tensor.bool().any():
                    tensor.copy_(0.5 * noise)
                else:
                    start = tensor.nan_to_num().clamp(-3, 3)
                    tensor.copy_(start + 0.3 * noise)
            else:
                fan_in = tensor.shape[0] if name in transposed else tensor.shape[-1]
                tensor.copy_(gain_of(name, config) / math.sqrt(fan_in) * noise)
        for name, tensor in model.named_buffers():
            if name in model.state_dict() and tensor.is_floating_point() and tensor.numel() > 1 and "correction" in name:
                tensor.copy_(0.3 * torch.randn(tensor.shape, generator=generator))
    return head


def rewrite_config(folder, config, cls, variant, kept):
    """config.json: `kept` is what the composite class saved; the layout, left-out keys and keys set by hand of the variant."""
    path = folder / "config.json"
    keys = kept or json.loads(path.read_text())
    layout = variant.get("_layout", "v5")
    parameters = keys.get("rope_parameters")
    if layout != "v5" and isinstance(parameters, dict) and "rope_type" in parameters:
        keys.pop("rope_parameters")
        parameters = dict(parameters)
        keys["rope_theta"] = parameters.pop("rope_theta", 10000.0)
        if (partial := parameters.pop("partial_rotary_factor", None)) is not None:
            keys["partial_rotary_factor"] = partial
        if layout == "v4-type":
            parameters["type"] = parameters.pop("rope_type")
        keys["rope_scaling"] = None if parameters.get("rope_type", parameters.get("type")) == "default" else parameters
        keys["torch_dtype"] = keys.pop("dtype", "float32")
        keys["transformers_version"] = "4.46.0"
        if "layer_types" not in variant:
            keys.pop("layer_types", None)
    if variant.get("_sparse"):
        import dataclasses
        defaults = {field.name: field.default for field in dataclasses.fields(cls) if field.default is not dataclasses.MISSING}
        for key in [key for key, value in keys.items() if key in defaults and key not in ("model_type",) and value == defaults[key] and type(value) is type(defaults[key])]:
            del keys[key]
    for key in variant.get("_absent", ()):
        keys.pop(key, None)
    keys |= variant.get("_set", {})
    path.write_text(json.dumps(keys, indent=2, sort_keys=True) + "\n")


def strip_prefix(folder, model):
    """Tensor names without the base model's prefix, as some hub checkpoints have them."""
    from safetensors.torch import load_file, save_file
    path, prefix = folder / "model.safetensors", model.base_model_prefix + "."
    save_file({name.removeprefix(prefix): tensor for name, tensor in load_file(path).items()}, path, metadata={"format": "pt"})


def load(folder, attention):
    import torch
    import transformers
    model, report = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True, **({"attn_implementation": attention} if attention else {}))
    for kind in ("missing_keys", "mismatched_keys", "error_msgs"):
        if report.get(kind):
            raise ValueError(f"reloading: {kind}: {sorted(map(str, report[kind]))[:3]}")
    return model.eval()


def left_padded(prompts, pad):
    """`[batch, seq]` ids, mask and positions; a position counts the attended tokens before it."""
    import torch
    longest = max(map(len, prompts))
    ids = torch.tensor([[pad] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    return ids, mask, (mask.cumsum(-1) - 1).clamp(min=0)


def logits_of(model, ids, mask, positions):
    import inspect
    import torch
    accepted = inspect.signature(model.forward).parameters
    arguments = {"input_ids": ids, "attention_mask": mask} | ({"position_ids": positions} if "position_ids" in accepted else {}) | ({"use_cache": False} if "use_cache" in accepted else {})
    if "attention_mask" not in accepted and "kwargs" not in accepted:
        arguments.pop("attention_mask")
    with torch.no_grad():
        return model(**arguments).logits.float()


def apart(a, b, mask, spread):
    value = (a - b)[mask.bool()].abs().max().item() / spread
    return value if math.isfinite(value) else math.inf


def self_checks(folder, eager, sets):
    """Where transformers disagrees with itself: over the standard deviation of the logits."""
    found = {}
    try:
        other = load(folder, "sdpa")
    except Exception as error:
        other, found["sdpa_error"] = None, str(error).splitlines()[0][:160]
    for name, (ids, mask, positions, logits) in sets.items():
        spread = logits[mask.bool()].std().item()
        if other is not None:
            found[f"sdpa.{name}"] = apart(logits, logits_of(other, ids, mask, positions), mask, spread)
    ids, mask, positions, logits = sets["batch"]
    spread, worst = logits[mask.bool()].std().item(), 0.0
    for row in range(len(ids)):
        real = mask[row].bool()
        alone = logits_of(eager, ids[row:row + 1, real], mask[row:row + 1, real], positions[row:row + 1, real])
        worst = max(worst, apart(logits[row:row + 1, real], alone, mask[row:row + 1, real], spread))
    found["padded"] = worst
    try:
        ids, mask, positions, logits = sets["p0"]
        double = logits_of(copy.deepcopy(eager).double(), ids, mask, positions)
        found["noise"] = apart(logits, double, mask, logits.std().item())
    except Exception as error:
        found["noise_error"] = str(error).splitlines()[0][:100]
    return found


def build(model_type, variant, folder, seed):
    """One case folder. Returns what case.json holds."""
    import torch
    import transformers
    from safetensors.torch import save_file
    from transformers import CONFIG_MAPPING
    cls = CONFIG_MAPPING[model_type]
    def new_config():  # a class writes into the dicts that it is given
        config = cls(**copy.deepcopy({key: value for key, value in variant.items() if not key.startswith("_")}))
        if model_type != cls.model_type:
            config.model_type = model_type
        return config

    config = new_config()
    composite = config.to_dict()
    with torch.device("meta"):
        shapes = {name: tuple(tensor.shape) for name, tensor in transformers.AutoModelForCausalLM.from_config(config).named_parameters()}
    total = sum(map(math.prod, shapes.values()))
    if 4 * total > MOST_BYTES:
        raise ValueError(f"too big: {4 * total} bytes, {sorted(shapes.items(), key=lambda item: -math.prod(item[1]))[:3]}")
    config = new_config()
    torch.manual_seed(seed % 2**31)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    fill(model, seed)
    model.to(getattr(torch, variant.get("_dtype", "float32")))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model.save_pretrained(folder, **({} if variant.get("_original", True) else {"save_original_format": False}))
    saved = json.loads((folder / "config.json").read_text())
    kept = None
    if saved.get("model_type") != model_type:
        kept = json.loads(json.dumps(composite | {"model_type": model_type, "architectures": saved.get("architectures"), "dtype": "float32"}, default=str))
    rewrite_config(folder, config, cls, variant, kept)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if variant.get("_prefix") is False:
        strip_prefix(folder, model)
    try:
        eager = load(folder, "eager")
    except (ValueError, NotImplementedError) as error:
        if "eager" not in str(error):
            raise
        eager = load(folder, None)
    length = variant.get("_prompt", 40)
    rng = random.Random(seed)
    # The first row of the batch has no padding; ids of special tokens are left out.
    counts = {"p0": [length], "batch": [max(9, length // 2), max(5, length // 4), max(7, length // 2 - 3)]}
    if "longrope" in json.dumps(variant):  # all rows on the same side of the switch, else rows alone and in the batch differ by design
        counts["batch"] = [max(22, length // 2), 18, 20]
    sets, golden = {}, {}
    for name, lengths in counts.items():
        ids, mask, positions = left_padded([[rng.randint(6, 117) for _ in range(count)] for count in lengths], 0)
        logits = logits_of(eager, ids, mask, positions)
        if not torch.isfinite(logits[mask.bool()]).all():
            raise ValueError(f"logits of {name} are not finite")
        if logits[mask.bool()].std().item() < 1e-6:
            raise ValueError(f"logits of {name} do not move")
        sets[name] = ids, mask, positions, logits
        golden |= {f"{name}.input_ids": ids, f"{name}.attention_mask": mask, f"{name}.position_ids": positions, f"{name}.logits": logits}
    save_file({key: tensor.contiguous() for key, tensor in golden.items()}, folder / "golden.safetensors", metadata={"producer": "tools/sweep.py", "transformers": transformers.__version__})
    found = self_checks(folder, eager, sets)
    worst = max([value for key, value in found.items() if key.startswith("sdpa.") or key == "padded"], default=0.0)
    case = {"model_type": model_type, "class": type(eager).__name__, "variant": {key: value for key, value in variant.items()}, "self": found, "self_disagree": worst if worst > SELF_LIMIT else None}
    (folder / "case.json").write_text(json.dumps(case, indent=1, default=str) + "\n")
    return case


def short(error):
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    text = lines[-1].strip() if type(error).__name__.startswith("Strict") else lines[0].strip()
    return f"{type(error).__name__}: {text[:220]}"


def make_type(job):
    """All variants of one model type. Returns the type, the cases made and the failures."""
    model_type, out, seed, again, randoms = job
    import torch
    import transformers
    import warnings
    from transformers import CONFIG_MAPPING
    from sweep_dense import WRITTEN
    from sweep_variants import count_of, random_variant
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.filterwarnings("ignore")
    made, failed = [], []
    try:
        cls = CONFIG_MAPPING[model_type]
    except KeyError:
        return model_type, made, ["no config class"]
    slug = model_type.replace("-", "_")
    plan = [("random", index) for index in range(randoms or count_of(model_type))] + [("written", index) for index in range(0 if randoms else len(WRITTEN.get(model_type, ())))]
    for number, (kind, index) in enumerate(plan):
        done = sorted(out.glob(f"{slug}-{number:02}-*/case.json"))
        if done and not again:
            made.append(done[0].parent.name)
            continue
        for old in out.glob(f"{slug}-{number:02}-*"):
            shutil.rmtree(old)
        for attempt in range(TRIES if kind == "random" else 1):
            name = f"{model_type}/{kind}/{index}/{attempt}/{seed}"
            rng = random.Random(digest(name))
            folder = out / f"{slug}-{number:02}-{kind}"
            try:
                if kind == "random":
                    variant = random_variant(cls, model_type, rng, index)
                else:
                    what, variant = WRITTEN[model_type][index](cls, rng)
                    folder = out / f"{slug}-{number:02}-{what}"
                build(model_type, variant, folder, digest(name))
                made.append(folder.name)
                break
            except Exception as error:
                shutil.rmtree(folder, ignore_errors=True)
                failed.append(f"{folder.name} try {attempt}: {short(error)}")
                if os.environ.get("SWEEP_TRACE"):
                    traceback.print_exc()
    return model_type, made, failed


def make(options):
    import transformers  # noqa: F401  (fails early, and forked workers share it)
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    from sweep_variants import DENSE
    names = DENSE + [name for name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES if name not in DENSE]
    if options.only:
        names = options.only.split(",")
    options.out.mkdir(parents=True, exist_ok=True)
    table_path = options.out / "made.json"
    table = json.loads(table_path.read_text()) if table_path.exists() else {}
    jobs = [(name, options.out, options.seed, options.again, options.random) for name in names]
    started = time.monotonic()
    if options.jobs == 1:
        results = map(make_type, jobs)
    else:
        pool = multiprocessing.get_context("fork").Pool(options.jobs)
        results = pool.imap_unordered(make_type, jobs)
    for model_type, made, failed in results:
        shutil.rmtree(options.out / f"{model_type.replace('-', '_')}-bare", ignore_errors=True)
        if not made:
            whole = weightless(model_type, options.out)
            failed.append(f"no logits; config.json and weights only: {whole}" if whole else "nothing could be made")
        table[model_type] = {"made": made, "failed": failed}
        table_path.write_text(json.dumps(table, indent=1) + "\n")
        print(f"{time.monotonic() - started:6.0f} s  {model_type:24} {len(made)} made" + (f", {len(failed)} failures; last: {failed[-1]}" if failed else ""), flush=True)
    print(f"{sum(len(entry['made']) for entry in table.values())} cases of {sum(bool(entry['made']) for entry in table.values())} types in {options.out}")


def weightless(model_type, out):
    """Where a class cannot be made small in a generic way: its default config.json and one tensor, so that the refusal can be seen."""
    import torch
    from safetensors.torch import save_file
    from transformers import CONFIG_MAPPING
    folder = out / f"{model_type.replace('-', '_')}-bare"
    try:
        try:
            keys = CONFIG_MAPPING[model_type]().to_dict()
        except Exception:  # a class whose defaults are no valid config
            keys = {"vocab_size": 128, "hidden_size": 64}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(keys | {"model_type": model_type}, default=str, indent=1))
        save_file({"model.embed_tokens.weight": torch.ones(8, 8)}, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "case.json").write_text(json.dumps({"model_type": model_type, "bare": True, "self_disagree": None}))
        return folder.name
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        print(f"{model_type}: {short(error)}", file=sys.stderr)
        return None


# ---- run


def limit_cpu():
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 1))


def verify(job):
    """Runs plansmith on one case. Returns the outcome and what it said."""
    folder, binary, runtime = job
    case = json.loads((folder / "case.json").read_text())
    command = [str(binary), "verify", str(folder), "--runtime", runtime] + ([] if case.get("bare") else ["--golden", str(folder / "golden.safetensors")])
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=limit_cpu)
        killer = threading.Timer(WALL_LIMIT_S, process.kill)
        killer.start()
        _, status, usage = os.wait4(process.pid, 0)
        killer.cancel()
        code = os.waitstatus_to_exitcode(status)
        process.returncode = code
        out.seek(0), err.seek(0)
        stdout, stderr = out.read(), err.read()
    seconds = round(usage.ru_utime + usage.ru_stime, 2)
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return case, {"outcome": "timeout", "said": f"no answer in {LIMIT_S} s of CPU time or {WALL_LIMIT_S} s", "seconds": seconds}
    said = [line for line in stderr.splitlines() if line.strip()]
    error = next((line for line in said if line.startswith("error")), said[-1] if said else "")
    if code == 0:
        outcome, error = ("agreed", "") if "agree" in stdout else ("bad", "exit 0 without `agree`")
    elif code == 1:
        lines = [line.strip() for line in stdout.splitlines()]
        outcome, error = "wrong", next((line for line in lines if "exceeds" in line), error or (lines[-1] if lines else ""))
    elif code == 2:
        outcome = "refused"
        if stdout or "`" not in stderr:
            outcome, error = "bad", "a refusal " + ("writes to stdout" if stdout else "names nothing") + f": {error}"
    else:
        outcome = "panic" if code == 101 or code < 0 or "panicked" in stderr else "bad"
        error = f"exit {code}: {next((line for line in said if 'panicked' in line), error)}"
    if outcome == "wrong" and case.get("self_disagree"):
        outcome = "self"
    return case, {"outcome": outcome, "said": error, "seconds": seconds}


OUTCOMES = ["agreed", "refused", "wrong", "self", "timeout", "panic", "bad"]


def run(options):
    wanted = options.only.split(",") if options.only else None
    folders = sorted(path.parent for path in options.out.glob("*/case.json"))
    if wanted:
        folders = [folder for folder in folders if json.loads((folder / "case.json").read_text())["model_type"] in wanted]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        answers = list(zip(folders, pool.map(verify, [(folder, options.binary.resolve(), options.runtime) for folder in folders])))
    types, results = collections.defaultdict(list), {}
    for folder, (case, result) in answers:
        results[folder.name] = result | {"model_type": case["model_type"], "self_disagree": case.get("self_disagree")}
        types[case["model_type"]].append(results[folder.name])
    print(f"{'model_type':26}" + "".join(f"{outcome:>9}" for outcome in OUTCOMES) + "  last refusal")
    covered = []
    for model_type, entries in sorted(types.items()):
        counts = collections.Counter(entry["outcome"] for entry in entries)
        judged = [entry for entry in entries if not entry["self_disagree"]]
        if judged and all(entry["outcome"] == "agreed" for entry in judged):
            covered.append(model_type)
        refusals = [entry["said"] for entry in entries if entry["outcome"] in ("refused", "bad")]
        print(f"{model_type:26}" + "".join(f"{counts[outcome] or '.':>9}" for outcome in OUTCOMES) + f"  {refusals[-1][:110] if refusals else ''}")
    totals = collections.Counter(result["outcome"] for result in results.values())
    print(f"{'total':26}" + "".join(f"{totals[outcome]:>9}" for outcome in OUTCOMES))
    whole = [name for name in covered if all(entry["outcome"] == "agreed" for entry in types[name])]
    print(f"{len(results)} cases, {len(types)} types; covered (all variants agreed): {len(whole)}; covered but for variants where transformers disagrees with itself: {len(covered)}")
    print("covered: " + " ".join(covered))
    partly = {name: entries for name, entries in types.items() if name not in covered and any(entry["outcome"] == "agreed" for entry in entries)}
    for name in sorted(partly):
        print(f"partly covered: {name}")
        for case_name, result in results.items():
            if result["model_type"] == name and result["outcome"] != "agreed":
                print(f"    {case_name:40} {result['outcome']:8} {result['said'][:150]}")
    for outcome in ("wrong", "panic", "timeout", "bad", "self"):
        for name, result in results.items():
            if result["outcome"] == outcome:
                print(f"{outcome}: {options.out / name}: {result['said'][:200]}")
    slowest = sorted(results.items(), key=lambda item: -item[1]["seconds"])[:3]
    print("slowest: " + ", ".join(f"{name} {result['seconds']} s" for name, result in slowest))
    (options.out / "results.json").write_text(json.dumps({"totals": totals, "covered": covered, "cases": results}, indent=1) + "\n")
    return 1 if any(totals[outcome] for outcome in ("wrong", "panic", "timeout", "bad")) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    maker, runner = verbs.add_parser("make", help="make the cases"), verbs.add_parser("run", help="verify them with plansmith")
    for verb in (maker, runner):
        verb.add_argument("out", type=pathlib.Path, metavar="OUTDIR")
        verb.add_argument("--only", help="model types, separated by commas")
        verb.add_argument("--jobs", type=int, default=1)
    maker.add_argument("--seed", type=int, default=1)
    maker.add_argument("--random", type=int, help="random variants of each type; without it 5 of the dense families and 4 of others, and those written by hand")
    maker.add_argument("--again", action="store_true", help="make cases again that are there already")
    runner.add_argument("binary", type=pathlib.Path, metavar="PLANSMITH")
    runner.add_argument("--runtime", default="rten")
    options = parser.parse_args()
    if options.verb == "make":
        make(options)
    else:
        sys.exit(run(options))


if __name__ == "__main__":
    main()
