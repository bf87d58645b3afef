// Made by `npm run generate` from protocol/schema/vscode-configuration.json. Do not edit.

/** The settings that a person can make in VS Code, and what the daemon calls each. */
export const SETTING_NAMES: Readonly<Record<string, string>> = {
  "turnguard.model.maxToolCallsPerTurn": "model.maxToolCallsPerTurn",
  "turnguard.model.skipLoopDetection": "model.skipLoopDetection",
  "turnguard.tools.loopDetection.enabled": "tools.loopDetection.enabled",
  "turnguard.tools.loopDetection.historySize": "tools.loopDetection.historySize",
  "turnguard.tools.loopDetection.warningThreshold": "tools.loopDetection.warningThreshold",
  "turnguard.tools.loopDetection.criticalThreshold": "tools.loopDetection.criticalThreshold",
  "turnguard.tools.loopDetection.unknownToolThreshold": "tools.loopDetection.unknownToolThreshold",
  "turnguard.tools.loopDetection.globalCircuitBreakerThreshold": "tools.loopDetection.globalCircuitBreakerThreshold",
  "turnguard.tools.loopDetection.detectors.genericRepeat": "tools.loopDetection.detectors.genericRepeat",
  "turnguard.tools.loopDetection.detectors.knownPollNoProgress": "tools.loopDetection.detectors.knownPollNoProgress",
  "turnguard.tools.loopDetection.detectors.pingPong": "tools.loopDetection.detectors.pingPong",
  "turnguard.tools.loopDetection.postCompactionGuard.windowSize": "tools.loopDetection.postCompactionGuard.windowSize",
  "turnguard.agents.list": "agents.list",
  "turnguard.loopShield.enabled": "loopShield.enabled",
  "turnguard.loopShield.maxConsecutiveTools": "loopShield.maxConsecutiveTools",
  "turnguard.loopShield.mode": "loopShield.mode",
  "turnguard.loopShield.fallbackState": "loopShield.fallbackState",
  "turnguard.loopShield.initialState": "loopShield.initialState",
  "turnguard.loopShield.states": "loopShield.states",
  "turnguard.loopShield.admission": "loopShield.admission",
  "turnguard.turnGuard": "turnguard.turnGuard",
  "turnguard.repeatedFailures": "turnguard.repeatedFailures",
  "turnguard.admission": "turnguard.admission",
  "turnguard.maxBlocksPerTurn": "turnguard.maxBlocksPerTurn",
  "turnguard.maxStepsPerTurn": "turnguard.maxStepsPerTurn",
  "turnguard.shadow": "turnguard.shadow",
  "turnguard.progress.action": "turnguard.progress.action"
};
