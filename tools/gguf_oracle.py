"""Writes what transformers makes of a GGUF file, as the oracle of plansmith's import.

    python tools/gguf_oracle.py MODEL.gguf testdata/gguf/smollm2_oracle.json

Needs PyPI transformers 5.24, torch, gguf and accelerate. Per tensor it records the shape and the SHA-256 of the little-endian
fp32 bytes and of torch's bf16 rounding of them; besides, the config, the token ids of `SENTENCES` and rendered chats.
"""

import hashlib
import json
import os
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

SENTENCES = [
    "The capital of France is",
    "Grüße aus Köln, naïve façade; Ærøskøbing, ǅungla, ﬁn",
    "emoji: 🙂👩‍👩‍👧‍👦🏳️‍🌈 and a flag 🇫🇷!",
    "自然言語処理は面白い。你好，世界。안녕하세요",
    "fn main() {\n    let x: Vec<u8> = vec![0; 42];\n\tprintln!(\"{x:?}\"); // done\n}\n",
    "Digits 0 1 12 123 1234 12345.67 3,141,592 and 1e-05 ²³ ٣٤ Ⅷ",
    "  leading, double  and    runs\t\tof \n\n\n whitespace   ",
    "<|im_start|>user\nWhat is <|endoftext|> inside text?<|im_end|>\n<|im_start|>assistant\n",
    "It's what we'll say: I'd don't they're WE'VE 'tis O'Neil's",
    "مرحبا بالعالم — Здравствуй, мир! हिन्दी ไทย \u200b\u00a0\ufeff \u0301x \x00\x7f end",
]

CHATS = [
    [{"role": "user", "content": "What is the capital of France?"}],
    [
        {"role": "system", "content": "Answer in one word."},
        {"role": "user", "content": "2 + 2?"},
        {"role": "assistant", "content": "Four."},
        {"role": "user", "content": "And 3 + 3?"},
    ],
]


def sha256(tensor: torch.Tensor) -> str:
    return hashlib.sha256(tensor.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


def main(path: str, output: str) -> None:
    folder, name = os.path.split(os.path.abspath(path))
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    weights = {
        key: value.detach().cpu()
        for key, value in model.state_dict().items()
        if not (key == "lm_head.weight" and model.config.tie_word_embeddings)
    }
    assert all(value.dtype == torch.float32 for value in weights.values())
    config = model.config.to_dict()
    for key in ("transformers_version", "_name_or_path", "quantization_config"):
        config.pop(key, None)
    generation = model.generation_config.to_diff_dict()
    generation.pop("transformers_version", None)
    oracle = {
        "made_by": f"tools/gguf_oracle.py, transformers {transformers.__version__}, torch {torch.__version__}",
        "file": name,
        "sha256": digest,
        "tensors": {
            key: {"shape": list(value.shape), "f32": sha256(value), "bf16": sha256(value.to(torch.bfloat16))}
            for key, value in sorted(weights.items())
        },
        "config": config,
        "generation_config": generation,
        "special_tokens": {key: str(value) for key, value in tokenizer.special_tokens_map.items()},
        "sentences": [{"text": text, "ids": tokenizer(text)["input_ids"]} for text in SENTENCES],
        "chat_template": tokenizer.chat_template,
        "chats": [
            {
                "messages": chat,
                "text": tokenizer.apply_chat_template(chat, tokenize=False),
                "prompt": tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True),
            }
            for chat in CHATS
        ],
    }
    with open(output, "w", encoding="utf-8") as file:
        json.dump(oracle, file, ensure_ascii=True, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
