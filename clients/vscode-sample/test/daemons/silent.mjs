#!/usr/bin/env node
// A daemon that reads everything and says nothing.
process.stdin.resume();
process.stdin.on('end', () => process.exit(1));
