"""Tool-call budgets as loopShield documents them: a counter, a state machine around it, and the guard made of both."""
