#!/usr/bin/env node
// A daemon of the future.
import { onMessage, send } from './frames.mjs';

onMessage(({ id, method }) => {
  if (method !== 'initialize') return;
  const turnguard = { protocolVersion: 2, methods: [] };
  send({
    id,
    result: { serverInfo: { name: 'turnguard', version: '9.9.9' }, capabilities: { experimental: { turnguard } } },
  });
});
