#!/usr/bin/env node
// forge's compiler: npm's solc behind the command line that forge expects.
const solc = require("solc");
const { readFileSync } = require("fs");

if (process.argv.includes("--version")) {
  console.log(`solc, the solidity compiler commandline interface\nVersion: ${solc.version().replace("Emscripten.clang", "Linux.g++")}`);
} else {
  process.stdout.write(solc.compile(readFileSync(0, "utf8")));
}
