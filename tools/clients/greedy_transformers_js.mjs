// Greedy tokens by transformers.js: greedy_transformers_js.mjs FOLDER GREEDY.json prints {"single": [...], "batch": [...]}.
// The package is found in $PLANSMITH_NODE_MODULES.

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const modules = process.env.PLANSMITH_NODE_MODULES;
const entry = path.join(modules, "@huggingface/transformers/dist/transformers.node.mjs");
const { AutoModelForCausalLM, AutoTokenizer, env } = await import(pathToFileURL(entry));

const folder = path.resolve(process.argv[2]);
const { cases } = JSON.parse(fs.readFileSync(process.argv[3], "utf8"));
env.allowRemoteModels = false;
env.localModelPath = path.dirname(folder);
const tokenizer = await AutoTokenizer.from_pretrained(path.basename(folder));
const model = await AutoModelForCausalLM.from_pretrained(path.basename(folder));

async function generate(prompts) {
  const inputs = tokenizer(prompts, { padding: true });
  const output = await model.generate({ ...inputs, max_new_tokens: cases[0].tokens.length, do_sample: false });
  return output.tolist().map((row) => row.slice(inputs.input_ids.dims[1]).map(Number));
}

const single = [];
for (const { prompt } of cases) single.push((await generate([prompt]))[0]);
console.log(JSON.stringify({ single, batch: await generate(cases.map(({ prompt }) => prompt)), pad: tokenizer.pad_token_id }));
