"""Writes the small fixtures of the GGUF import and what PyPI `gguf` and transformers make of them.

    python tools/make_gguf_cases.py

Needs PyPI gguf 0.19, numpy, torch, safetensors and transformers 5.24. Writes

    testdata/gguf/blocks.safetensors   for every ggml type, random blocks (`TYPE.blocks`) and their fp32 values (`TYPE.values`)
    testdata/gguf/tiny.gguf            two llama layers of mixed types, byte-level BPE with digits in the merges, llama3 RoPE factors
    testdata/gguf/tiny_spm.gguf        one llama layer, untied, with biases, SentencePiece-style BPE without merges
    testdata/gguf/tiny*_oracle.json    tensors, config and token ids, by transformers from the same files
    crates/checkpoint/src/gguf/dequant/grids.bin   the codebooks of the IQ types, packed
"""

import hashlib
import json
import math
import os

import gguf
import numpy as np
import torch
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from safetensors.numpy import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TESTDATA = os.path.join(ROOT, "testdata", "gguf")
GRIDS = os.path.join(ROOT, "crates", "checkpoint", "src", "gguf", "dequant", "grids.bin")
BLOCKS = 3

# Where the fp16 numbers of a block lie; they are made finite, the rest is random.
HALVES = {
    Type.F16: [0], Type.BF16: [], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208], Type.TQ1_0: [52],
    Type.TQ2_0: [64], Type.MXFP4: [], Type.NVFP4: [], Type.IQ1_S: [0], Type.IQ1_M: [], Type.IQ2_XXS: [0], Type.IQ2_XS: [0],
    Type.IQ2_S: [0], Type.IQ3_XXS: [0], Type.IQ3_S: [0], Type.IQ4_NL: [0], Type.IQ4_XS: [0], Type.F32: None, Type.F64: None,
    Type.Q8_K: None,
}  # fmt: skip


def make_blocks() -> None:
    rng = np.random.default_rng(20)
    tensors = {}
    for kind, halves in HALVES.items():
        elements, size = GGML_QUANT_SIZES[kind]
        count = BLOCKS if elements > 1 else 32
        if kind == Type.F32:
            blocks = rng.standard_normal((count, 1), dtype=np.float32).view(np.uint8)
            values = quants.dequantize(blocks, kind)
        elif kind == Type.F64:  # not in `gguf`: the values of numpy's cast
            numbers = rng.standard_normal((count, 1))
            blocks, values = numbers.view(np.uint8), numbers.astype(np.float32)
        elif kind == Type.Q8_K:  # not in `gguf`: fp32 scale, 256 int8, 16 int16 sums
            blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
            scale = rng.standard_normal((count, 1), dtype=np.float32)
            blocks[:, :4] = scale.view(np.uint8)
            values = scale * blocks[:, 4:260].view(np.int8).astype(np.float32)
        else:
            blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
            for at in halves:
                scale = (rng.standard_normal((count, 1)) * 0.05).astype(np.float16)
                blocks[:, at : at + 2] = scale.view(np.uint8)
            if kind == Type.BF16:
                blocks[:, 1] = (blocks[:, 1] & 0x80) | 0x3C  # far from infinity and NaN
            if kind == Type.MXFP4:
                blocks[:, 0] = [0, 1, 123]  # two subnormal scales and a usual one
            if kind == Type.IQ1_M:
                blocks[:, 55] &= 0xBF  # the top nibble of the scale's exponent: no infinity
            values = quants.dequantize(blocks, kind)
        assert np.isfinite(values).all(), kind.name
        tensors[f"{kind.name}.blocks"] = np.ascontiguousarray(blocks.reshape(-1))
        tensors[f"{kind.name}.values"] = np.ascontiguousarray(values.reshape(-1).astype(np.float32))
    save_file(tensors, os.path.join(TESTDATA, "blocks.safetensors"))


def make_grids() -> None:
    packed = b""
    for name in ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ1_S", "IQ3_XXS", "IQ3_S"]:
        cls = quants._type_traits[Type[name]]
        cls.init_grid()
        entries = cls.grid.reshape(cls.grid_shape)
        bits = 2 if cls.grid_shape[1] == 8 else 4
        codes = np.searchsorted(np.array(cls.grid_map, dtype=np.float32), entries).astype(np.uint32)
        packed += (codes << (bits * np.arange(cls.grid_shape[1], dtype=np.uint32))).sum(axis=1).astype("<u2").tobytes()
    assert len(packed) == 9216
    with open(GRIDS, "wb") as file:
        file.write(packed)


def permute(weights: np.ndarray, heads: int) -> np.ndarray:
    """The order of rows in which llama.cpp stores q and k: pairs of a head side by side."""
    shape = weights.shape
    return weights.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def llama3_factors(theta: float, head_dim: int, factor: float, low: float, high: float, original: int) -> np.ndarray:
    """What llama.cpp's converter writes as `rope_freqs.weight`."""
    frequencies = 1.0 / (theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim))
    out = []
    for frequency in frequencies:
        wavelength = 2 * math.pi / frequency
        if wavelength < original / high:
            out.append(1.0)
        elif wavelength > original / low:
            out.append(factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            out.append(float(1 / ((1 - smooth) / factor + smooth)))
    return np.array(out, dtype=np.float32)


class Llama:
    """Shapes and random weights of a llama model, written through `gguf.GGUFWriter`."""

    def __init__(self, path: str, *, hidden, heads, kv_heads, head_dim, ffn, layers, vocab, context, theta, seed):
        self.heads, self.kv_heads, self.layers = heads, kv_heads, layers
        self.hidden, self.head_dim, self.ffn, self.vocab = hidden, head_dim, ffn, vocab
        self.rng = np.random.default_rng(seed)
        self.writer = gguf.GGUFWriter(path, "llama")
        w = self.writer
        w.add_name("tiny")
        w.add_context_length(context)
        w.add_embedding_length(hidden)
        w.add_block_count(layers)
        w.add_feed_forward_length(ffn)
        w.add_head_count(heads)
        w.add_head_count_kv(kv_heads)
        w.add_layer_norm_rms_eps(1e-5)
        w.add_rope_freq_base(theta)
        w.add_rope_dimension_count(head_dim)
        w.add_vocab_size(vocab)
        w.add_quantization_version(2)

    def tensor(self, name: str, shape: tuple[int, ...], kind: Type) -> None:
        data = (self.rng.standard_normal(shape) * 0.1).astype(np.float32)
        if ".attn_q." in name:
            data = permute(data, self.heads)
        if ".attn_k." in name:
            data = permute(data, self.kv_heads)
        self.writer.add_tensor(name, quants.quantize(data, kind), raw_dtype=kind)

    def weights(self, kinds: list[Type], *, tied: bool, biases: bool) -> None:
        kind = iter(kinds * 100)
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.tensor("token_embd.weight", (self.vocab, self.hidden), next(kind))
        for layer in range(self.layers):
            b = f"blk.{layer}."
            self.tensor(b + "attn_norm.weight", (self.hidden,), Type.F32)
            for name, rows, columns in [
                ("attn_q", queries, self.hidden),
                ("attn_k", keys, self.hidden),
                ("attn_v", keys, self.hidden),
                ("attn_output", self.hidden, queries),
                ("ffn_gate", self.ffn, self.hidden),
                ("ffn_up", self.ffn, self.hidden),
                ("ffn_down", self.hidden, self.ffn),
            ]:
                self.tensor(f"{b}{name}.weight", (rows, columns), next(kind))
                if biases and name.startswith("attn"):
                    self.tensor(f"{b}{name}.bias", (rows,), Type.F32)
            self.tensor(b + "ffn_norm.weight", (self.hidden,), Type.F32)
        self.tensor("output_norm.weight", (self.hidden,), Type.F32)
        if not tied:
            self.tensor("output.weight", (self.vocab, self.hidden), next(kind))

    def write(self) -> None:
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


SENTENCES = [
    "the theme, then there: 12 123 1234",
    " leading  and   runs\n\n\tof whitespace ",
    "Größe 日本 🙂 \u00a0é",
    "<|begin|>in<|end|> the <think>middle</think>",
    "it's THE 'll we're",
    "",
]
CHATS = [[{"role": "user", "content": "hi"}], [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]]
TEMPLATE = (
    "{% for m in messages %}<|begin|>{{ m['role'] }}\n{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|begin|>assistant\n{% endif %}"
)


def make_bpe(path: str) -> None:
    letters = sorted(bytes_to_unicode().values())
    merges = ["t h", "th e", "Ġ the", "Ġ t", "1 2", "12 3", "Ġ Ġ", "i n", "r e", "Ġ r", "' s", "Ġ 1", "ã ģ", "Ċ Ċ"]
    control, user = ["<|begin|>", "<|end|>", "<|eot|>"], ["<think>", "</think>"]
    tokens = letters + [merge.replace(" ", "") for merge in merges] + control + user
    vocab = len(tokens) + 3
    tokens += [f"[PAD{i}]" for i in range(len(tokens), vocab)]
    kinds = [1] * (len(letters) + len(merges)) + [3] * len(control) + [4] * len(user) + [5] * 3
    model = Llama(path, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=96, layers=2, vocab=vocab, context=131072,
                  theta=500000.0, seed=1)  # fmt: skip
    w = model.writer
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("llama-bpe")
    w.add_token_list(tokens)
    w.add_token_types(kinds)
    w.add_token_merges(merges)
    w.add_bos_token_id(tokens.index("<|begin|>"))
    w.add_eos_token_id(tokens.index("<|end|>"))
    w.add_eot_token_id(tokens.index("<|eot|>"))
    w.add_pad_token_id(tokens.index("<|end|>"))
    w.add_add_bos_token(True)
    w.add_chat_template(TEMPLATE)
    w.add_tensor("rope_freqs.weight", llama3_factors(500000.0, 16, 8.0, 1.0, 4.0, 8192))
    model.weights([Type.Q8_0, Type.Q4_0, Type.Q5_1, Type.F16, Type.BF16, Type.Q4_1, Type.Q5_0], tied=True, biases=False)
    model.write()


def make_spm(path: str) -> None:
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    words = ["▁", "t", "h", "e", "n", "r", "m", "▁t", "th", "he", "▁th", "▁the", "the", "en", "▁▁", "1", "2", "3", "é", "日", "<|user|>"]
    tokens = pieces + words
    kinds = [2, 3, 3] + [6] * 256 + [1] * (len(words) - 1) + [4]
    scores = [0.0] * len(pieces) + [-float(i) for i in range(len(words))]
    scores[len(pieces) + 11] = -3.5  # out of the order of ids
    model = Llama(path, hidden=32, heads=4, kv_heads=4, head_dim=8, ffn=64, layers=1, vocab=len(tokens), context=512,
                  theta=10000.0, seed=2)  # fmt: skip
    w = model.writer
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list(tokens)
    w.add_token_scores(scores)
    w.add_token_types(kinds)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_eos_token(True)
    model.weights([Type.Q4_0, Type.F16], tied=False, biases=True)
    model.write()


def sha256(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def make_oracle(path: str, biases: dict[str, int]) -> None:
    folder, name = os.path.split(path)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    tensors = {
        key: {"shape": list(value.shape), "f32": sha256(value.numpy()), "bf16": sha256(value.bfloat16().view(torch.int16).numpy())}
        for key, value in sorted(model.state_dict().items())
        if not (key == "lm_head.weight" and model.config.tie_word_embeddings)
    }
    # transformers drops biases of a GGUF (its config says attention_bias false): undo the permutation here.
    reader = {t.name: t.data for t in gguf.GGUFReader(path).tensors}
    for gguf_name, heads in biases.items():
        value = np.array(reader[gguf_name])
        if heads:
            value = value.reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1)
        layer, kind = gguf_name.split(".")[1], gguf_name.split(".")[2][-1].replace("t", "o")
        bf16 = torch.from_numpy(value).bfloat16().view(torch.int16).numpy()
        tensors[f"model.layers.{layer}.self_attn.{kind}_proj.bias"] = {
            "shape": list(value.shape), "f32": sha256(value), "bf16": sha256(bf16),
        }  # fmt: skip
    oracle = {
        "tensors": tensors,
        "sentences": [{"text": text, "ids": tokenizer(text)["input_ids"]} for text in SENTENCES],
        "special_tokens": {key: str(value) for key, value in tokenizer.special_tokens_map.items()},
        "chat_template": tokenizer.chat_template,
        "chats": [
            {
                "messages": chat,
                "text": tokenizer.apply_chat_template(chat, tokenize=False),
                "prompt": tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True),
            }
            for chat in (CHATS if tokenizer.chat_template else [])
        ],
    }
    with open(path.removesuffix(".gguf") + "_oracle.json", "w", encoding="utf-8") as file:
        json.dump(oracle, file, ensure_ascii=True, indent=1)
        file.write("\n")


def main() -> None:
    os.makedirs(TESTDATA, exist_ok=True)
    make_grids()
    make_blocks()
    bpe, spm = os.path.join(TESTDATA, "tiny.gguf"), os.path.join(TESTDATA, "tiny_spm.gguf")
    make_bpe(bpe)
    make_oracle(bpe, {})
    make_spm(spm)
    make_oracle(spm, {f"blk.0.attn_{kind}.bias": heads for kind, heads in [("q", 4), ("k", 4), ("v", 0), ("output", 0)]})


if __name__ == "__main__":
    main()
