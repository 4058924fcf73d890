// Greedy tokens by transformers.js in a browser: greedy_browser.mjs FOLDER GREEDY.json [--dtype NAME] prints {"single": [...], "batch": [...]}.
// A server in this process stands for a hub and has the page; $PLANSMITH_CHROMIUM fetches the folder from it, file by file, and runs it.
// The package is found in $PLANSMITH_NODE_MODULES.

import { spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({ options: { dtype: { type: "string" } }, allowPositionals: true });
const { cases } = JSON.parse(fs.readFileSync(positionals[1], "utf8"));
const modules = process.env.PLANSMITH_NODE_MODULES;

// Runs in the page.
async function generate(cases, dtype) {
  const { AutoModelForCausalLM, AutoTokenizer, env } = await import("/transformers/transformers.js");
  Object.assign(env, { allowLocalModels: false, useBrowserCache: false, useWasmCache: false, remoteHost: `${location.origin}/` });
  env.backends.onnx.wasm.wasmPaths = `${location.origin}/ort/`;
  const tokenizer = await AutoTokenizer.from_pretrained("org/model");
  const model = await AutoModelForCausalLM.from_pretrained("org/model", { device: "wasm", ...dtype });
  const of = async (prompts) => {
    const inputs = tokenizer(prompts, { padding: true });
    const output = await model.generate({ ...inputs, max_new_tokens: cases[0].tokens.length, do_sample: false });
    return output.tolist().map((row) => row.slice(inputs.input_ids.dims[1]).map(Number));
  };
  const single = [];
  for (const { prompt } of cases) single.push((await of([prompt]))[0]);
  return { single, batch: await of(cases.map(({ prompt }) => prompt)), pad: tokenizer.pad_token_id };
}
const call = `${generate}; generate(${JSON.stringify(cases)}, ${JSON.stringify(values.dtype ? { dtype: values.dtype } : {})})`;
const page = `<!doctype html><script type="module">${call}
  .catch((error) => ({ error: String(error) }))
  .then((said) => fetch("/said", { method: "POST", body: JSON.stringify(said) }));</script>`;

const folders = {
  "/org/model/resolve/main/": positionals[0],
  "/transformers/": path.join(modules, "@huggingface/transformers/dist"),
  "/ort/": path.join(modules, "onnxruntime-web/dist"),
};
const types = { ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm", ".json": "application/json" };
const fetched = [];
let hear;
const said = new Promise((resolve) => (hear = resolve));
const server = http.createServer((request, response) => {
  if (request.method === "POST") {
    let body = "";
    request.on("data", (part) => (body += part));
    request.on("end", () => (response.end(), hear(JSON.parse(body))));
    return;
  }
  const name = decodeURIComponent(request.url.split("?")[0]);
  if (name === "/") return response.writeHead(200, { "Content-Type": "text/html" }).end(page);
  const below = Object.keys(folders).find((prefix) => name.startsWith(prefix));
  const file = below && path.join(folders[below], name.slice(below.length));
  if (!file || !fs.existsSync(file)) return response.writeHead(404).end();
  if (below === "/org/model/resolve/main/" && request.method === "GET") fetched.push(name.slice(below.length));
  const type = types[path.extname(file)] ?? "application/octet-stream";
  response.writeHead(200, { "Content-Type": type, "Content-Length": fs.statSync(file).size });
  if (request.method === "HEAD") return response.end();
  fs.createReadStream(file).pipe(response);
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));

const profile = fs.mkdtempSync(path.join(os.tmpdir(), "plansmith-browser-"));
const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", `--user-data-dir=${profile}`];
const browser = spawn(process.env.PLANSMITH_CHROMIUM, [...flags, `http://127.0.0.1:${server.address().port}/`], { stdio: "ignore" });
const ended = new Promise((resolve) => browser.on("exit", (code) => resolve({ error: `the browser ended with ${code}` })));
const result = await Promise.race([said, ended]);
browser.kill();
await ended;
server.close();
fs.rmSync(profile, { recursive: true, force: true });
console.log(JSON.stringify({ ...result, fetched: [...new Set(fetched)].sort() }));
process.exit(0);
