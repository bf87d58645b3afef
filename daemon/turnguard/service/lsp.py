"""The LSP half of the service: a pygls language server without documents, without its reader and without its writer.

pygls knows what LSP messages look like and how a session begins and ends; we keep the stream. Its hooks that are used
here, public or not, each have a test in `tests/service/test_pygls_contract.py`; its version is pinned.
"""

import logging
import re
import sys
from collections.abc import Callable, Generator, Sequence
from typing import Any, cast

import cattrs
import msgspec
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter, lsp_method

from turnguard import __version__
from turnguard.service.envelope import Message, convert
from turnguard.service.errors import RequestError, describe_fault, invalid_params
from turnguard_protocol import PROTOCOL_VERSION
from turnguard_protocol.methods import METHODS, InitializationOptions, ServerCapability
from turnguard_protocol.settings import Settings

log = logging.getLogger(__name__)

REQUESTS = frozenset({types.INITIALIZE, types.SHUTDOWN})
NOTIFICATIONS = frozenset({types.INITIALIZED, types.SET_TRACE, types.WORKSPACE_DID_CHANGE_CONFIGURATION})
"""Those that change something. A cancel does not: what it cancels was answered before it was read."""

USED_OF_INITIALIZE = ("processId", "capabilities")
"""Of the params of `initialize` pygls gets these; what it would make of others, as workspaces of URIs, has no use."""

PROCESS_IDS = range(-(2**31), 2**31)
"""What LSP calls an integer."""


class _Protocol(LanguageServerProtocol):
    """pygls's protocol, with our capabilities, and with its failures handed to us instead of sent."""

    failure: BaseException | None = None

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """pygls announces documents and commands whatever a server does; clients would send every keystroke."""
        result = yield from super().lsp_initialize(params)
        capability = ServerCapability(PROTOCOL_VERSION, list(METHODS))
        result.capabilities = types.ServerCapabilities(experimental={"turnguard": msgspec.to_builtins(capability)})
        return result

    def _send_response(self, msg_id: int | str, result: Any = None, error: types.ResponseError | None = None) -> None:
        """An error of pygls holds a traceback with paths; the dispatcher answers in its place."""
        if error is None:
            super()._send_response(msg_id, result)
        else:
            self.failure = sys.exception() or JsonRpcException.from_error(error)


class _Server(LanguageServer):
    """pygls's server, quiet: it would show each error to the user in a window."""

    def report_server_error(self, error: Exception, source: Any) -> None:
        log.error("internal error in an LSP notification\n%s", describe_fault(sys.exception() or error))


class _Writer:
    """What pygls writes to: whole bodies, for it is told to leave out the headers."""

    def __init__(self, send_body: Callable[[bytes], None]) -> None:
        self._send_body = send_body

    def write(self, data: bytes) -> None:
        """Sends a message."""
        self._send_body(data)

    def close(self) -> None:
        """Part of pygls's interface; the stream is not pygls's to close."""


class LanguageServerSide:
    """Answers LSP messages.

    `send_body` takes what is to be sent, `configure` the client's settings and their path. `complaints` are shown to
    the person once the client is ready.
    """

    def __init__(
        self,
        send_body: Callable[[bytes], None],
        configure: Callable[[Settings | None, str], None],
        complaints: Sequence[str] = (),
    ) -> None:
        # Below critical pygls logs whole messages and tracebacks; what went wrong is answered and logged by us.
        logging.getLogger("pygls").setLevel(logging.CRITICAL)
        self._configure = configure
        self._server = _Server("turnguard", __version__, protocol_cls=_Protocol, converter_factory=default_converter)
        self._protocol = cast("_Protocol", self._server.protocol)
        self._protocol.set_writer(_Writer(send_body), include_headers=False)

        @self._server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
        def _(params: types.DidChangeConfigurationParams) -> None:
            self._change_configuration(params.settings)

        @self._server.feature(types.INITIALIZED)
        def _(_: types.InitializedParams) -> None:
            for complaint in complaints:
                self._server.window_show_message(types.ShowMessageParams(types.MessageType.Error, complaint))

    @property
    def client_process(self) -> int | None:
        """`processId` of `initialize`."""
        return self._server.process_id

    def answers(self, method: str) -> bool:
        """Whether this is an LSP request that the service answers."""
        return method in REQUESTS

    def request(self, message: Message) -> None:
        """Answers a request. Raises RequestError when the params do not fit, and whatever went wrong in pygls."""
        if message.method == types.INITIALIZE:
            _check_process_id(message.params)
            self._configure(_initial_settings(message.params), "$.initializationOptions.settings")
        self._give(message)

    def notification(self, message: Message) -> None:
        """Takes a notification; ignores one that is unknown or whose params do not fit, for there is no one to tell."""
        if message.method not in NOTIFICATIONS:
            return
        try:
            self._give(message)
        except RequestError as error:
            log.info("ignored %s: %s", message.method, error.message)

    def _give(self, message: Message) -> None:
        """Has pygls answer a message. It takes one with an `error` for a response, so it gets what counts and no more.

        The id in particular is the dispatcher's: a message without one is a notification.
        """
        content: dict[str, Any] = {"jsonrpc": "2.0", "method": message.method}
        if message.id is not None:
            content["id"] = message.id
        if message.params is not None:
            content["params"] = _used(message)
        try:
            structured: Any = self._protocol.structure_message(content)
        except JsonRpcException as error:
            raise _misfit(error.__cause__) from None
        self._protocol.failure = None
        self._protocol.handle_message(structured)
        if self._protocol.failure is not None:
            raise self._protocol.failure

    def _change_configuration(self, sections: Any) -> None:
        """Takes the client's part of `{turnguard: Settings}`; a client that says nothing of us changes nothing."""
        if not isinstance(sections, dict) or "turnguard" not in sections:
            return
        try:
            self._configure(convert(sections["turnguard"], Settings | None, root="turnguard"), "turnguard")
        except RequestError as error:
            message = f"turnguard keeps its old settings. {error.data.message} - at `{error.data.path}`"
            self._server.window_show_message(types.ShowMessageParams(types.MessageType.Error, message))


def _used(message: Message) -> Any:
    params: Any = message.params
    if message.method != types.INITIALIZE or not isinstance(params, dict):
        return params
    params = cast("dict[str, Any]", params)
    return {name: params[name] for name in USED_OF_INITIALIZE if name in params}


def _check_process_id(params: Any) -> None:
    process_id: Any = cast("dict[str, Any]", params).get("processId") if isinstance(params, dict) else None
    if isinstance(process_id, int | float) and (type(process_id) is not int or process_id not in PROCESS_IDS):
        raise invalid_params("$.processId", "Expected null or an integer of 32 bits")


def _initial_settings(params: Any) -> Settings | None:
    options = cast("dict[str, Any]", params).get("initializationOptions") if isinstance(params, dict) else None
    given = convert(options, InitializationOptions | None, root="$.initializationOptions")
    return None if given is None else given.settings


def _misfit(cause: BaseException | None) -> RequestError:
    """What cattrs found wrong with a message, its path from the params on and with the names of the wire."""
    if not isinstance(cause, cattrs.ClassValidationError):
        return invalid_params("$", "Expected the params that LSP defines for this method")
    message, _, path = cattrs.transform_error(cause)[0].partition(" @ ")
    names = re.sub(r"_([a-z])", lambda match: match[1].upper(), path.removeprefix("$.params"))
    if message.startswith("invalid value"):
        message = "expected a value of the type that LSP defines here"
    return invalid_params("$" + names, message[:1].upper() + message[1:])
