#!/usr/bin/env node
// A daemon that shakes hands, hears nothing more, and ends a moment later.
import { closeSync } from 'node:fs';
import { onMessage, send } from './frames.mjs';

onMessage(({ id, method }) => {
  if (method !== 'initialize') return;
  const turnguard = { protocolVersion: 1, methods: [] };
  const result = {
    serverInfo: { name: 'turnguard', version: '9.9.9' },
    capabilities: { experimental: { turnguard } },
  };
  process.stdin.destroy().once('close', () => {
    closeSync(0); // Node leaves it open.
    send({ id, result });
  });
  setTimeout(() => process.exit(4), 300);
});
