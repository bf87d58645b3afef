"""The commands that a person types to see and trust settings."""
