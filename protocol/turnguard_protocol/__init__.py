"""The words of turnguard: events in, verdicts out, and the JSON-RPC methods that carry them.

Everything here is data: msgspec Structs and enums, no behaviour. Field names are snake_case in Python and camelCase on
the wire. The meaning of every word is in `docs/protocol.md`.
"""

PROTOCOL_VERSION = 1
"""The version announced in `capabilities.experimental.turnguard.protocolVersion`."""
