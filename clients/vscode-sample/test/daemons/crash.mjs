#!/usr/bin/env node
// A daemon that never comes up.
console.error('something is broken');
process.exitCode = 3;
