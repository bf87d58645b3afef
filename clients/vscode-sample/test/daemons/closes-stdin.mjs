#!/usr/bin/env node
// A daemon that hears nothing, and ends a moment later.
import { closeSync } from 'node:fs';

closeSync(0);
setTimeout(() => process.exit(4), 300);
