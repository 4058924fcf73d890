"""Has other exporters make graphs of a tiny random Llama, into testdata/runtime/exported, where its weights and logits by transformers lie.

    python tools/foreign_exports.py checkpoint|genai|mobius|torch testdata/runtime/exported  # python of tools/peers/requirements.txt
    python tools/foreign_exports.py optimum testdata/runtime/exported                        # with that of tools/peers/optimum.txt before it

genai/, genai_fp16/   onnxruntime-genai's builder for CPUs: GroupQueryAttention, no position_ids, open dimensions in the cache
mobius.onnx           mobius-onnx for CPUs: the same operator
optimum.onnx          optimum-onnx, text-generation-with-past; optimum_prefill.onnx: text-generation, no cache
torch_dynamo.onnx     torch.onnx, dynamo, nested tuples for the cache: outputs get the names of nodes
torch_script.onnx     torch.onnx by TorchScript, without names
torch_fixed.onnx      torch.onnx, dynamo, one example of 2 x 8 tokens and no dynamic shape; no mask, no cache

Weights are put inside. What exporters note on nodes (stack traces of the machine that ran them) is dropped; nothing else is changed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import onnx

# The vocabulary is no other dimension: the builder of onnxruntime-genai takes any matrix of its size for the head.
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 80, "max_position_embeddings": 32, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "float32"}


def keep(made, path):
    """Writes the graph `made` to `path`, weights inside, notes out."""
    model = onnx.load(made)
    del model.metadata_props[:]
    model.doc_string, model.graph.name = "", "exported"
    graphs = [model.graph, *model.functions]
    for graph in graphs:
        graph.doc_string = ""
        del graph.metadata_props[:]
        for node in graph.node:
            node.doc_string = ""
            del node.metadata_props[:]
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info, *model.graph.initializer]:
        del value.metadata_props[:]
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    print(path, path.stat().st_size)


def run(*command):
    subprocess.run([sys.executable, "-m", *map(str, command)], check=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})


def checkpoint(out):
    import torch
    import transformers
    from safetensors.torch import save_file

    torch.manual_seed(21)
    config = transformers.LlamaConfig(**CONFIG, initializer_range=0.2, attn_implementation="eager")
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, weight in model.state_dict().items():
            if "norm" in name:
                weight += 0.1 * torch.randn(weight.shape)
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    ids = torch.randint(0, CONFIG["vocab_size"], (3, 10))
    mask = torch.tensor([[0] * pad + [1] * (10 - pad) for pad in (4, 1, 0)])
    positions = (mask.cumsum(1) - 1).masked_fill(mask == 0, 1)
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits.contiguous()
    golden = {"p0.input_ids": ids, "p0.attention_mask": mask, "p0.position_ids": positions, "p0.logits": logits}
    save_file(golden, out / "golden.safetensors")


def genai(source, work, out):
    for precision, name in [("fp32", "genai"), ("fp16", "genai_fp16")]:
        run("onnxruntime_genai.models.builder", "-e", "cpu", "-p", precision, "-m", source, "-i", source, "-o", work / name, "-c", work / "c")
        keep(work / name / "model.onnx", out / name / "model.onnx")
        shutil.copy(work / name / "genai_config.json", out / name)


def mobius(source, work, out):
    run("mobius", "build", "--config", source, "--dtype", "f32", "--ep", "cpu", work / "mobius")
    keep(work / "mobius/model.onnx", out / "mobius.onnx")


def optimum(source, work, out):
    for task, name in [("text-generation-with-past", "optimum"), ("text-generation", "optimum_prefill")]:
        run("optimum.exporters.onnx", "--model", source, "--task", task, work / name)
        keep(work / name / "model.onnx", out / f"{name}.onnx")


def torch(source, work, out):
    import torch
    import transformers

    warnings.filterwarnings("ignore")
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM.from_pretrained(source, attn_implementation="eager").eval()

    class Nested(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, past):
            cache = transformers.DynamicCache([tuple(layer) for layer in past])
            result = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
            return result.logits, [(layer.keys, layer.values) for layer in result.past_key_values.layers]

    class Flat(Nested):
        def forward(self, ids, mask, *past):
            logits, layers = super().forward(ids, mask, list(zip(past[::2], past[1::2])))
            return (logits, *[part for layer in layers for part in layer])

    ids = torch.randint(0, CONFIG["vocab_size"], (2, 8))
    layers = model(ids, use_cache=True).past_key_values.layers
    past = [(layer.keys.detach(), layer.values.detach()) for layer in layers]
    mask = torch.ones(2, 11, dtype=torch.long)
    any_, of_cache = torch.export.Dim.DYNAMIC, {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}
    tokens = {0: any_, 1: any_}
    shapes = (tokens, tokens, [(of_cache, of_cache)] * len(past))
    torch.onnx.export(Nested(), (ids[:, :3], mask, past), dynamo=True, dynamic_shapes=shapes).save(work / "dynamo.onnx")
    keep(work / "dynamo.onnx", out / "torch_dynamo.onnx")
    torch.onnx.export(model, (ids,), kwargs={"use_cache": False}, dynamo=True).save(work / "fixed.onnx")
    keep(work / "fixed.onnx", out / "torch_fixed.onnx")
    flat = [part for layer in past for part in layer]
    # TorchScript names inputs as it likes; the dimensions that vary have to be named by those names.
    torch.onnx.export(Flat(), (ids[:, :3], mask, *flat), work / "script.onnx", dynamo=False)
    names = [value.name for value in onnx.load(work / "script.onnx").graph.input]
    axes = dict(zip(names, [{0: "b", 1: "s"}, {0: "b", 1: "t"}, *[{0: "b", 2: "p"}] * len(flat)]))
    torch.onnx.export(Flat(), (ids[:, :3], mask, *flat), work / "script.onnx", dynamo=False, input_names=names, dynamic_axes=axes)
    keep(work / "script.onnx", out / "torch_script.onnx")


if __name__ == "__main__":
    what, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(exist_ok=True)
    if what == "checkpoint":
        sys.exit(checkpoint(out))
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "checkpoint"
        source.mkdir()
        for name in ["config.json", "model.safetensors"]:
            shutil.copy(out / name, source)
        # Exporters ask for one, and do not look into it.
        vocabulary = {f"t{index}": index for index in range(CONFIG["vocab_size"])}
        model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "t0"}
        (source / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
        (source / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "t0"}))
        {"genai": genai, "mobius": mobius, "torch": torch, "optimum": optimum}[what](source, Path(work), out)
