"""The guards: events go in, verdicts come out. Pure: no I/O, no clock, no asyncio."""
