"""What turnguard holds at the most, so that no client, agent or model can make it grow without end."""

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""A message longer than this closes the stream: its sender has lost its framing or its mind."""

MAX_HEADER_BYTES = 8 * 1024
"""The header lines of one message."""

MAX_NESTING = 512
"""Levels of arrays and objects in a message and in arguments; deeper ones are an error of that request."""

MAX_SESSIONS = 10_000
"""Sessions open at once; one more is refused."""

IDLE_SESSION_SECONDS = 24 * 60 * 60
"""A session that nobody spoke of for so long is dropped."""

MAX_KEYS_A_TURN = 20_000
"""Different calls that are told apart in a turn; later new ones still count as calls, but not as repeats."""

MAX_REMEMBERED_CALL_IDS = 10_000
"""Executed call ids a session remembers to recognise replays; the oldest are forgotten first."""

MAX_OPEN_CALLS = 10_000
"""Calls of a step whose results are awaited; the oldest are forgotten first."""

MAX_PENDING_OUTPUT_BYTES = 64 * 1024 * 1024
"""Answers that wait for a client that does not read; past it the daemon stops reading that client's requests."""
