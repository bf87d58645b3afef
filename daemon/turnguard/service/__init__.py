"""The JSON-RPC service for editors and other hosts, over stdio."""
