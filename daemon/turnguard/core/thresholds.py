"""Every number of the guards, each once.

The source is Qwen Code 0.24.4, unless a section says otherwise: its design document of 2026-07-17 gives the first three
and their names, the rest come from its published code and are named after their rule.
"""

DEFAULT_MAX_TOOL_CALLS_PER_TURN = 100
"""Tool calls a turn, `S` in the design document: the soft cap while `model.maxToolCallsPerTurn` is not set."""

ADAPTIVE_CAP_HARD_MULTIPLIER = 10
"""The backstop `H` is this many times the soft cap: a turn that never repeats itself is halted past it."""

GLOBAL_DUPLICATE_THRESHOLD = 6
"""So many times one (tool, arguments) key in a turn is a duplicate, and past the soft cap a stuck turn."""

TOOL_CALL_LOOP_THRESHOLD = 5
"""Identical calls in a row."""

SHELL_COMMAND_STAGNATION_THRESHOLD = 8
"""Shell commands in a row that only look at the state of the git repository."""

ALTERNATING_PATTERN_CYCLES = 3
"""Times a pair of calls A, B may come in a row before it is an alternating pattern."""

READ_FILE_LOOP_THRESHOLD = 8
"""Read-like calls among the last `READ_FILE_LOOP_WINDOW`."""

READ_FILE_LOOP_WINDOW = 15
"""Calls the read-loop detector looks back on."""

ACTION_STAGNATION_THRESHOLD = 8
"""Calls in a row of one tool, whatever their arguments."""

CONTENT_CHUNK_SIZE = 50
"""UTF-16 units of text that are compared as one window."""

CONTENT_LOOP_THRESHOLD = 10
"""Occurrences of one window, close together, that are chanting."""

CONTENT_LOOP_MAX_AVERAGE_DISTANCE = 75
"""UTF-16 units: occurrences of a window are close together when they lie on average no further apart."""

CONTENT_ANALYSIS_LENGTH = 4000
"""UTF-16 units of text that count: older text is forgotten."""

MAX_HISTORY_LENGTH = 5000
"""UTF-16 units of text that may pile up before what is over `CONTENT_ANALYSIS_LENGTH` is cut off."""

PERIODIC_RUN_THRESHOLD = 5
"""Equally spaced occurrences of a window that are chanting when their whole span is periodic and long enough."""

PERIODIC_RUN_MIN_SPAN = 1000
"""UTF-16 units such a span must have."""

PERIODIC_RUN_THRESHOLD_FULL_HISTORY = 3
"""Equally spaced occurrences that are chanting when the history is full and periodic as a whole."""

THOUGHT_REPEAT_THRESHOLD = 3
"""Equal thoughts in a row."""

THOUGHT_DESCRIPTION_LENGTH = 200
"""UTF-16 units of a thought's description that are compared."""

MAX_PENDING_STATEFUL_READS = 500
"""Ids of stateful reads whose results are awaited."""

INVALID_TOOL_PARAMS_THRESHOLD = 3
"""Calls of one tool in a prompt that were rejected for their parameters."""

REPLAYED_CALL_ID_THRESHOLD = 2
"""Replays of one answered call id in a prompt: the first is answered with an error, the next stops the turn."""

REPEATED_FAILURE_MIN_FAILURES = 8
"""Failures of one tool with one error type before the repeated-failure guard warns."""

REPEATED_FAILURE_MIN_BATCHES = 2
"""Batches those failures must be spread over."""

# --- OpenClaw 2026.7.1 ------------------------------------------------------------------------------------------------
# The defaults are those of its page on loop detection; how often a warning is told is in its published code.

DEFAULT_HISTORY_SIZE = 30
"""`historySize`: latest tool calls that are kept for analysis."""

DEFAULT_WARNING_THRESHOLD = 10
"""`warningThreshold`: from here a pattern is a warning."""

DEFAULT_CRITICAL_THRESHOLD = 20
"""`criticalThreshold`: from here a pattern is blocked."""

DEFAULT_UNKNOWN_TOOL_THRESHOLD = 10
"""`unknownToolThreshold`: calls in a row of a tool that is not available before the next one is blocked."""

DEFAULT_GLOBAL_CIRCUIT_BREAKER_THRESHOLD = 30
"""`globalCircuitBreakerThreshold`: equal outcomes of one call before it is blocked whatever the detectors say."""

DEFAULT_POST_COMPACTION_WINDOW_SIZE = 3
"""`postCompactionGuard.windowSize`: calls after a compaction that are watched, and so many equal ones end the run."""

LOOP_WARNING_BUCKET_SIZE = 10
"""A warning is reported when its count enters another bucket of so many."""

MAX_LOOP_WARNING_KEYS = 256
"""Warnings whose bucket is remembered; the first remembered is forgotten first."""

# --- The progress guard, ours -----------------------------------------------------------------------------------------
# Chosen on real turns, and checked once on others that were held back; points are counted in quarters.

PROGRESS_WINDOW = 20
"""Calls the progress guard looks back on: what was seen longer ago is new again."""

PROGRESS_FREE_SIGHTS = 2
"""So often the same call may show the same thing without points; each further sight gives one point more."""

PROGRESS_NEW = 1
"""Points that a call takes off when it shows something new."""

PROGRESS_FAMILY = 1
"""Points of a call that fails as others did, or of another final answer, whatever its arguments."""

PROGRESS_POLL = 0.25
"""Points of a poll that shows what it showed before: waiting is slow, not stuck."""

PROGRESS_WARN = 3
"""Points at which the model is warned."""

PROGRESS_WARNINGS_TOLD = 2
"""Warnings of the progress guard in a turn that are told to people as something new."""

PROGRESS_HALT = 6
"""Points at which a turn is stopped that was warned before."""

# Where results are never shown there are no points. These two are by judgement, not measured, since the turns that the
# numbers above were chosen on all have results. They lie well above the four and five calls at which one unchanged
# result is warned of and stopped: each call may have shown the model something new.

BLIND_WARN = 8
"""Identical calls in a row at which the model is warned when their results are never shown."""

BLIND_HALT = 15
"""Identical calls in a row at which a turn is stopped, that was warned before, when their results are never shown."""

# --- The stack, ours --------------------------------------------------------------------------------------------------

DEFAULT_MAX_BLOCKS_PER_TURN = 3
"""Batches of a turn that may be blocked: users report vetoes that an agent retried for hours."""
