"""Writes testdata/chat/expected.json: what transformers' apply_chat_template makes of each template there, for each message.

    python tools/make_chat_cases.py        (transformers 5.24; the templates are ours, in the style of published ones)
"""

import json
import pathlib

import transformers
from tokenizers import Tokenizer, models

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "testdata" / "chat"
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
MESSAGES = [
    "What is the capital of France?",
    "  spaces around, and a tab\t \n",
    "<result>é 漢字 \"quoted\" & 'it'</result>",
    "first</think>\n\nsecond <think>third",
    "{{ bos_token }}{% if true %}x{% endif %}",
]


def main():
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0})), **SPECIAL)
    cases = {}
    for path in sorted(FOLDER.glob("*.jinja")):
        render = lambda text: tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], chat_template=path.read_text(), tokenize=False, add_generation_prompt=True
        )
        cases[path.name] = [render(message) for message in MESSAGES]
    expected = {"transformers": transformers.__version__, "special": SPECIAL, "messages": MESSAGES, "cases": cases}
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


main()
