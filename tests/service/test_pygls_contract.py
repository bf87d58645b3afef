"""What we rely on in pygls, one test a hook, without our own code: these fail first when pygls changes."""

import json
from collections.abc import Generator
from typing import Any

import cattrs
import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter, lsp_method

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"processId": 5, "capabilities": {}}}
SHUTDOWN = {"jsonrpc": "2.0", "id": 2, "method": "shutdown"}


class Writer:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.bodies.append(data)

    def close(self) -> None:
        raise AssertionError


class Protocol(LanguageServerProtocol):
    failure: types.ResponseError | None = None

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        result = yield from super().lsp_initialize(params)
        result.capabilities = types.ServerCapabilities(experimental={"mine": 1})
        return result

    def _send_response(self, msg_id: Any, result: Any = None, error: types.ResponseError | None = None) -> None:
        self.failure = error
        if error is None:
            super()._send_response(msg_id, result)


class Server(LanguageServer):
    reported: Exception | None = None

    def report_server_error(self, error: Exception, source: Any) -> None:
        self.reported = error


@pytest.fixture
def server() -> Server:
    return Server("name", "1.2.3", protocol_cls=Protocol, converter_factory=default_converter)


@pytest.fixture
def writer(server: Server) -> Writer:
    writer = Writer()
    server.protocol.set_writer(writer, include_headers=False)  # pyright: ignore[reportArgumentType]
    return writer


def give(server: Server, message: dict[str, Any]) -> None:
    server.protocol.handle_message(server.protocol.structure_message(message))  # pyright: ignore[reportArgumentType]


def test_set_writer_gets_bodies_at_once_and_without_headers(server: Server, writer: Writer) -> None:
    give(server, SHUTDOWN)
    assert [json.loads(body) for body in writer.bodies] == [{"id": 2, "jsonrpc": "2.0", "result": None}]


def test_an_overridden_initialize_decides_the_capabilities(server: Server, writer: Writer) -> None:
    give(server, INITIALIZE)
    assert json.loads(writer.bodies[0])["result"] == {
        "capabilities": {"experimental": {"mine": 1}},
        "serverInfo": {"name": "name", "version": "1.2.3"},
    }
    assert server.process_id == 5


def test_structure_message_raises_with_the_cause_of_cattrs(server: Server) -> None:
    with pytest.raises(JsonRpcInvalidParams) as caught:
        server.protocol.structure_message({**INITIALIZE, "params": {"processId": "x", "capabilities": {}}})
    assert isinstance(caught.value, JsonRpcException)
    cause = caught.value.__cause__
    assert isinstance(cause, cattrs.ClassValidationError)
    assert cattrs.transform_error(cause)[0].endswith(" @ $.params.process_id")


def test_a_feature_hears_a_configuration_as_plain_values(server: Server, writer: Writer) -> None:
    heard: list[object] = []

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def _(params: types.DidChangeConfigurationParams) -> None:
        heard.append(params.settings)

    settings = {"turnguard": {"a-b": [1, {"class": None}], "jsonrpc": "2.0"}}
    method = "workspace/didChangeConfiguration"
    give(server, {"jsonrpc": "2.0", "method": method, "params": {"settings": settings}})
    assert heard == [settings]
    assert writer.bodies == []


def test_a_failure_of_a_notification_is_reported(server: Server, writer: Writer) -> None:
    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def _(params: types.DidChangeConfigurationParams) -> None:
        raise KeyError("x")

    give(server, {"jsonrpc": "2.0", "method": "workspace/didChangeConfiguration", "params": {"settings": 1}})
    assert server.reported is not None
    assert writer.bodies == []


def test_a_failure_of_a_request_goes_through_send_response(server: Server, writer: Writer) -> None:
    @server.feature(types.SHUTDOWN)
    def _(params: object) -> None:
        raise KeyError("x")

    give(server, SHUTDOWN)
    protocol = server.protocol
    assert isinstance(protocol, Protocol)
    assert protocol.failure is not None
    assert writer.bodies == []


def test_window_show_message_is_one_body(server: Server, writer: Writer) -> None:
    server.window_show_message(types.ShowMessageParams(types.MessageType.Error, "é \ud800"))
    assert json.loads(writer.bodies[0]) == {
        "jsonrpc": "2.0",
        "method": "window/showMessage",
        "params": {"type": 1, "message": "é \ud800"},
    }
