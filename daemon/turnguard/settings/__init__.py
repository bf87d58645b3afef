"""Settings: where values come from, and which of them hold."""
