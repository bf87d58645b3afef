"""Events: what a host tells the guard.

One union in two forms. The *raw form* carries arguments, outputs and text; the *identified form* carries digests and
lengths in their place (`turnguard.core.identity.identify` makes the second from the first). Both are valid wherever an
event is expected.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

MAX_ITEMS = 10_000
"""Events in a record, calls in a batch, results in an event; more are an error of that request."""

Fidelity = Literal["full", "low", "none"]
"""How much of a call's identity is known. A call of fidelity `none` is never identical to another."""

ResultState = Literal["done", "notStarted", "cancelled", "unknown"]
TurnOutcome = Literal["completed", "cancelled", "failed"]


class Wire(Struct, rename="camel", omit_defaults=True, gc=False):
    """The base of everything that may stand inside an event."""


class Keys(Wire):
    """The identity of a call where the guards define it differently; a plain string stands for all of them.

    `turn` is Qwen Code's repeat key (64 hex digits), `rolling` OpenClaw's arguments hash.
    """

    turn: str
    rolling: str | None = None


class Outcomes(Wire):
    """The identity of a result where the guards define it differently; a plain string stands for all of them.

    `read` is Qwen Code's fingerprint of a stateful read, `rolling` OpenClaw's result hash, `progress` the digest of the
    masked result text. `None`: that guard has no identity for this result.
    """

    read: str | None = None
    rolling: str | None = None
    progress: str | None = None


class Target(Wire):
    """What a `tool_call` envelope really calls: the inner tool's name and its repeat key."""

    name: str
    key: str


class Facts(Wire):
    """What guards need to know of a call or a result besides its identity, derived while the arguments are at hand.

    Of calls: `git_overview`, the command only looks at the state of a git repository; `read_like`, the tool only reads;
    `poll`, the call asks for the state of something that runs; `action`, the `action` argument of a `process` or
    `message` call where it is a word that OpenClaw treats apart; `target`, what an envelope calls; `blind`, nobody will
    ever be told what the result of the call says, which only the host can know, beside `args` too. Of results:
    `unknown_tool`, the name of a tool that does not exist, as the error text gives it, in lower case.
    """

    git_overview: bool = False
    read_like: bool = False
    poll: bool = False
    action: str | None = None
    unknown_tool: str | None = None
    target: Target | None = None
    blind: bool = False


class Call(Wire):
    """A tool call the model asks for.

    `name` None: the model gave none. `args` is any JSON, absent means `{}`; `key` is an identity made elsewhere and
    excludes `args`. `hint` is the program and subcommand of a shell call, or the sub-command of a multi-command tool.

    Raises ValueError when both `args` and `key` are given.
    """

    name: str | None
    id: str | None = None
    args: Raw | UnsetType = UNSET
    key: str | Keys | None = None
    fidelity: Fidelity = "full"
    hint: str | None = None
    facts: Facts | None = None

    def __post_init__(self) -> None:
        if self.key is not None and self.args is not UNSET:
            raise ValueError("Expected `args` or `key`, not both")


class Result(Wire):
    """What became of a call; paired by `id`, else by name and arguments.

    `ok`: the tool is known to have succeeded or failed, None when the host does not say; an `error` implies False.
    `output` and `error` are any JSON and their presence has meaning: `null` is a result, absence is none. `outcome` is
    an identity made elsewhere and excludes both. `duplicate`: the provider sent the call twice and this answers the
    copy. `error_type` is an open string; well known are `invalid_params`, `unknown_tool`, `execution`, `denied`,
    `cancelled`.

    Raises ValueError when `outcome` comes with `output` or `error`, or `key` with `args`.
    """

    id: str | None = None
    name: str | None = None
    args: Raw | UnsetType = UNSET
    key: str | Keys | None = None
    output: Raw | UnsetType = UNSET
    outcome: str | Outcomes | None = None
    ok: bool | None = None
    error: Raw | UnsetType = UNSET
    error_type: str | None = None
    status: ResultState = "done"
    duplicate: bool = False
    facts: Facts | None = None

    def __post_init__(self) -> None:
        if self.key is not None and self.args is not UNSET:
            raise ValueError("Expected `args` or `key`, not both")
        if self.outcome is not None and (self.output is not UNSET or self.error is not UNSET):
            raise ValueError("Expected `outcome`, or `output` and `error`, not both")


class Tagged(Wire, tag_field="type"):
    """The base of all events: the field `type` says which one it is."""


class TurnStarted(Tagged, tag="turnStarted"):
    """A new turn: a fresh budget, and a halt is lifted. Ends an open turn as completed.

    `origin` is an open string: `user` (default), `hook`, `cron`, `notification`, `channel`, `goal`.
    """

    turn_id: str | None = None
    origin: str = "user"


class ToolCalls(Tagged, tag="toolCalls"):
    """The calls of one model response, before any of them runs.

    With the stream guard one response may come in several of these. `run_id` absent: the turn's id; None: no run.
    """

    calls: Annotated[list[Call], Meta(max_length=MAX_ITEMS)]
    run_id: str | UnsetType | None = UNSET


class ToolResults(Tagged, tag="toolResults"):
    """Outcomes of calls, as they come. `run_id` as in `ToolCalls`."""

    results: Annotated[list[Result], Meta(max_length=MAX_ITEMS)]
    run_id: str | UnsetType | None = UNSET


class CallRekeyed(Tagged, tag="callRekeyed"):
    """The identity of an earlier call of the open turn became known, or changed; the call is told by its id.

    It counts from now on as if it had come with this identity, and no more calls than before. `name` None: the call
    keeps its name. `args`, `key`, `fidelity`, `hint` and `facts` are those of a `Call`, and take the place of the old
    ones.

    Raises ValueError unless exactly one of `args` and `key` is given.
    """

    id: str
    name: str | None = None
    args: Raw | UnsetType = UNSET
    key: str | Keys | None = None
    fidelity: Fidelity = "full"
    hint: str | None = None
    facts: Facts | None = None

    def __post_init__(self) -> None:
        if (self.key is None) is (self.args is UNSET):
            raise ValueError("Expected either `args` or `key`")


class Text(Tagged, tag="text"):
    """A piece of the answer the model writes. Identified: `length` in UTF-16 units in place of `delta`."""

    delta: str | None = None
    length: int | None = None


class Thought(Tagged, tag="thought"):
    """A piece of the model's reasoning. Identified: `length` of subject and description together, in UTF-16 units."""

    subject: str = ""
    description: str = ""
    length: int | None = None


class StepFinished(Tagged, tag="stepFinished"):
    """The step is over: its response ended cleanly and every admitted call has a result or was refused."""


class Retry(Tagged, tag="retry"):
    """The failed response is streamed again. `continuation`: it resumes where it broke off."""

    continuation: bool = False


class Fallback(Tagged, tag="fallback"):
    """The response starts again on another model."""


class Compacted(Tagged, tag="compacted"):
    """The context was compacted and the run retries."""


class StateChanged(Tagged, tag="stateChanged"):
    """The host's state machine moved to `state`."""

    state: str


class UserInput(Tagged, tag="userInput"):
    """The user spoke inside the turn; does not reset it. `queued`: the words wait for the turn to end."""

    queued: bool = False


class TurnEnded(Tagged, tag="turnEnded"):
    """The turn is over."""

    outcome: TurnOutcome = "completed"


Event = (
    TurnStarted
    | ToolCalls
    | ToolResults
    | CallRekeyed
    | Text
    | Thought
    | StepFinished
    | Retry
    | Fallback
    | Compacted
    | StateChanged
    | UserInput
    | TurnEnded
)
