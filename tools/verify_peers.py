"""Has other exporters make graphs of a checkpoint, verifies each with plansmith, and prints a Markdown table.

    ~/.cache/plansmith/peers-1-cp311/python tools/verify_peers.py CHECKPOINT PLANSMITH [NAME ...]

PLANSMITH is the executable; NAME picks some of the graphs below. The Python is the one that `cargo xtask bench` makes (onnxruntime-genai,
mobius-onnx); what optimum-onnx needs besides (tools/peers/optimum.txt) is put beside it once. A graph is made in a temporary folder
and deleted after its verification; its verdict.json stays in verdicts/ of the working directory. A graph that does not agree is verified
again with --unpadded, then also without the checks that the runtime could not run.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
PEERS = pathlib.Path(os.environ.get("PYTHONPATH", "").split(os.pathsep)[0])


def optimum_site():
    """A folder with what tools/peers/optimum.txt lists."""
    site = PEERS.with_name(PEERS.name.replace("peers", "optimum"))
    if not site.exists():
        beside = site.with_name(site.name + ".tmp")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--target", beside, "--requirement", HERE / "peers/optimum.txt"], check=True)
        beside.rename(site)
    return site


def module(*command, before=None):
    path = os.pathsep.join([*map(str, filter(None, [before])), os.environ["PYTHONPATH"]])
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    result = subprocess.run([sys.executable, "-m", *map(str, command)], env=environment, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(result.stderr.strip().splitlines()[-1])


def genai(checkpoint, precision, out):
    module("onnxruntime_genai.models.builder", "-e", "cpu", "-p", precision, "-m", checkpoint, "-i", checkpoint, "-o", out, "-c", out / "c")


def mobius(checkpoint, dtype, out):
    module("mobius", "build", "--config", checkpoint, "--dtype", dtype, "--ep", "cpu", out)


def optimum(checkpoint, dtype, out):
    task = ["--task", "text-generation-with-past", "--dtype", dtype, "--no-post-process"]
    module("optimum.exporters.onnx", "--model", checkpoint, *task, out, before=optimum_site())


GRAPHS = {
    "onnxruntime-genai 0.18.0, fp32": (genai, "fp32"),
    "onnxruntime-genai 0.18.0, fp16": (genai, "fp16"),
    "mobius-onnx 0.1.0, fp32": (mobius, "f32"),
    "mobius-onnx 0.1.0, fp16": (mobius, "f16"),
    "optimum-onnx 0.1.0, fp32": (optimum, "fp32"),
    "optimum-onnx 0.1.0, fp16": (optimum, "fp16"),
}


def verify(plansmith, checkpoint, graph, name, *more):
    """The exit code, the candidate's part of the verdict, and seconds."""
    verdict = pathlib.Path("verdicts") / (name.replace(" ", "_").replace(",", "") + "".join(more) + ".json")
    verdict.parent.mkdir(exist_ok=True)
    verdict.unlink(missing_ok=True)
    start = time.monotonic()
    command = [plansmith, "verify", checkpoint, "--onnx", graph, "--runtime", "ort", "--json", verdict, *more]
    result = subprocess.run(command, capture_output=True, text=True)
    if not verdict.exists():
        raise RuntimeError(result.stderr.strip())
    return result.returncode, json.loads(verdict.read_text())["candidates"][0], time.monotonic() - start


def row(name, code, candidate, seconds):
    figure = lambda value: "–" if value is None else f"{value:.1e}"
    print(f"\n### {name}: `{candidate['verdict']}` (exit {code}, {seconds:.0f} s)\n")
    if candidate["reason"]:
        print(candidate["reason"], end="\n\n")
    print("| check | | positions | max_rel | KL max | top-1 | error ÷ floor | worst in |\n|---|---|---|---|---|---|---|---|")
    for check in candidate["checks"]:
        top1, worst, over = check["top1_agreement"], check["worst"], check.get("error_over_floor")
        place = f"{worst['set']}, row {worst['row']}, column {worst['column']}" if worst else ""
        cells = [
            check["name"], "agrees" if check["passed"] else "**differs**", check["positions"], figure(check["max_rel"]), figure(check["kl_max"]),
            "–" if top1 is None else f"{top1:.2%}", "–" if over is None else f"{over:.1f}", place]
        print("| " + " | ".join(map(str, cells)) + " |")
    for skipped in candidate["skipped"]:
        print(f"\n`{skipped['name']}` does not apply: {skipped['reason']}")
    sys.stdout.flush()


def milder(flags, candidate):
    """What to leave out next: rows with padding, then what the runtime failed."""
    if "--unpadded" not in flags:
        return ["--unpadded"]
    names = sorted({check["name"] for check in candidate.get("failed_to_run", [])} - set(flags))
    return [flag for name in names for flag in ("--without", name)]


def main(checkpoint, plansmith, *names):
    for name in names or GRAPHS:
        make, dtype = GRAPHS[name]
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "graph"
            try:
                make(pathlib.Path(checkpoint).absolute(), dtype, out)
                row(name, *(first := verify(plansmith, checkpoint, out / "model.onnx", name)))
                flags, candidate = [], first[1]
                while candidate["verdict"] != "agree" and (more := milder(flags, candidate)):
                    flags += more
                    again = verify(plansmith, checkpoint, out / "model.onnx", name, *flags)
                    row(f"{name}, `{' '.join(flags)}`", *again)
                    candidate = again[1]
            except RuntimeError as error:
                print(f"\n### {name}: failed\n\n{error}")


main(*sys.argv[1:])
