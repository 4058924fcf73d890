// Greedy tokens by transformers.js: greedy_transformers_js.mjs FOLDER GREEDY.json [--dtype NAME] [--hub] prints
// {"single": [...], "batch": [...]}. With --hub the folder is not read but fetched, file by file, from a server that stands for a hub.
// The package is found in $PLANSMITH_NODE_MODULES.

import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const modules = process.env.PLANSMITH_NODE_MODULES;
const entry = path.join(modules, "@huggingface/transformers/dist/transformers.node.mjs");
const { AutoModelForCausalLM, AutoTokenizer, env } = await import(pathToFileURL(entry));

const options = { dtype: { type: "string" }, hub: { type: "boolean" } };
const { values, positionals } = parseArgs({ options, allowPositionals: true });
const folder = path.resolve(positionals[0]);
const { cases } = JSON.parse(fs.readFileSync(positionals[1], "utf8"));
let name = path.basename(folder);
env.allowRemoteModels = false;
env.localModelPath = path.dirname(folder);

let server;
if (values.hub) {
  const prefix = "/org/model/resolve/main/";
  server = http.createServer((request, response) => {
    const file = path.join(folder, decodeURIComponent(new URL(request.url, "http://hub").pathname).replace(prefix, ""));
    if (!request.url.startsWith(prefix) || !fs.existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, { "Content-Length": fs.statSync(file).size });
    if (request.method === "HEAD") return response.end();
    fs.createReadStream(file).pipe(response);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  env.allowRemoteModels = true;
  env.allowLocalModels = false;
  env.remoteHost = `http://127.0.0.1:${server.address().port}/`;
  env.cacheDir = fs.mkdtempSync(path.join(os.tmpdir(), "plansmith-hub-"));
  process.on("exit", () => fs.rmSync(env.cacheDir, { recursive: true }));
  name = "org/model";
}
const tokenizer = await AutoTokenizer.from_pretrained(name);
const model = await AutoModelForCausalLM.from_pretrained(name, values.dtype ? { dtype: values.dtype } : {});
server?.close();

async function generate(prompts) {
  const inputs = tokenizer(prompts, { padding: true });
  const output = await model.generate({ ...inputs, max_new_tokens: cases[0].tokens.length, do_sample: false });
  return output.tolist().map((row) => row.slice(inputs.input_ids.dims[1]).map(Number));
}

const single = [];
for (const { prompt } of cases) single.push((await generate([prompt]))[0]);
console.log(JSON.stringify({ single, batch: await generate(cases.map(({ prompt }) => prompt)), pad: tokenizer.pad_token_id }));
