// A bundle in transformers.js: node main.mjs BUNDLE "The capital of France is"   (npm install @huggingface/transformers@4.3.2)

import path from "node:path";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The package is that of the folder the program runs in, or of $NODE_PATH.
const require = createRequire(path.join(process.cwd(), "main.mjs"));
const { env, pipeline } = await import(pathToFileURL(require.resolve("@huggingface/transformers")));

const [bundle, prompt] = process.argv.slice(2);
env.allowRemoteModels = false;
env.localModelPath = path.dirname(path.resolve(bundle));

const generate = await pipeline("text-generation", path.basename(path.resolve(bundle)));
const [{ generated_text }] = await generate(prompt, { max_new_tokens: 16, do_sample: false });
console.log(generated_text);
