#!/usr/bin/env node
// A language server that is no turnguard.
import { onMessage, send } from './frames.mjs';

onMessage(({ id, method }) => {
  if (method === 'initialize') send({ id, result: { serverInfo: { name: 'other' }, capabilities: {} } });
});
