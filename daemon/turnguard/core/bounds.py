"""What turnguard holds at the most, so that no client, agent or model can make it grow without end."""

# The vocabulary itself bounds how many events, calls and results a message may hold.
from turnguard_protocol.events import MAX_ITEMS as MAX_ITEMS

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""A message longer than this closes the stream: its sender has lost its framing or its mind."""

MAX_HEADER_BYTES = 8 * 1024
"""The header lines of one message."""

MAX_NESTING = 512
"""Levels of arrays and objects in a message and in arguments; deeper ones are an error of that request."""

MAX_TEXT = 1_024
"""Characters of a name, an id or a key that are held; of a longer one its beginning and its digest."""

MAX_SESSIONS = 10_000
"""Sessions open at once; one more is refused."""

IDLE_SESSION_SECONDS = 24 * 60 * 60
"""A session that nobody spoke of for so long is dropped."""

MAX_KEYS_A_TURN = 20_000
"""Different calls that are told apart in a turn; later new ones still count as calls, but not as repeats."""

MAX_REMEMBERED_CALL_IDS = 10_000
"""Executed call ids a session remembers to recognise replays; the oldest are forgotten first."""

MAX_INVALID_TOOLS = 1_000
"""Tools of a turn whose rejected calls are counted; those of later ones are not."""

MAX_OPEN_CALLS = 10_000
"""Calls of a step whose results are awaited; the oldest are forgotten first."""

MAX_PENDING_OUTPUT_BYTES = 64 * 1024 * 1024
"""Answers that wait for a client that does not read; past it the daemon stops reading that client's requests."""

MAX_LISTED_FINDINGS = 100
"""Fresh findings of a turn that its summary lists; later ones were told when they came."""

MAX_TOLD_FINDINGS = 10
"""Notifications of one record, each of which carries its whole verdict: of the strictest findings."""

MAX_REMEMBERED_NAME = 100
"""Characters of a tool's name up to which what follows from it is remembered; nobody's longer text is kept."""

MAX_REMEMBERED_NAMES = 1_024
"""Tools' names of which is remembered what follows from them."""

MAX_TOLD_REASONS = 3
"""Reasons why calls of a batch were refused that the model reads."""
