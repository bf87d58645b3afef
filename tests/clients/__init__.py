"""The service from outside: the real process, spoken to as a host does."""
