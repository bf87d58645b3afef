"""Sessions of one running `turnguard serve`, spoken to as an editor would."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.conformance.cases import Case
from tests.conformance.sessions import RefusedError, SettingsError
from turnguard.client import Client, ClientError
from turnguard_protocol.events import Event
from turnguard_protocol.verdicts import NextStep, Verdict

INVALID_PARAMS = -32602


class WireSession:
    """A session of the daemon."""

    def __init__(self, wire: "Wire", session_id: str) -> None:
        self.wire = wire
        self.client = wire.client
        self.session_id = session_id

    def record(self, *events: Event) -> Verdict:
        """Tells the daemon what happened."""
        try:
            return self.client.record(self.session_id, events)
        except ClientError as error:
            if error.code != INVALID_PARAMS:
                raise
            raise RefusedError(error.data["path"]) from None

    def prepare_step(self) -> NextStep:
        """Asks what the next model request may use."""
        return self.client.prepare_step(self.session_id)

    def configure(self, settings: dict[str, Any]) -> None:
        """Changes the configuration of the client."""
        self.wire.configure(settings)

    def go_on(self) -> None:
        """Lets a halted turn go on."""
        self.client.override(self.session_id, "continueOnce")


class Wire:
    """The daemon. A session is closed when the next is opened, and what the client set for it is forgotten."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.opened = 0
        self.session_id: str | None = None
        self.is_configured = False

    @classmethod
    @contextmanager
    def running(cls) -> Iterator["Wire"]:
        """Starts a daemon, and has it end in order."""
        with Client.spawn() as client:
            wire = cls(client)
            yield wire
            wire.close_session()
            assert client.shutdown() == 0

    def open(self, settings: dict[str, Any], agent_id: str | None = None) -> WireSession:
        """Opens a session. Raises SettingsError when the daemon says that the settings do not fit, and where."""
        self.close_session()
        if self.is_configured:
            self.configure({})
            self.is_configured = False
        self.opened += 1
        session_id = f"case-{self.opened}"
        params = {"sessionId": session_id, "settings": settings, "agentId": agent_id}
        try:
            self.client.request("turnguard/openSession", params)
        except ClientError as error:
            if error.code != INVALID_PARAMS:
                raise
            raise SettingsError(error.data["path"]) from None
        self.session_id = session_id
        return WireSession(self, session_id)

    def configure(self, settings: dict[str, Any]) -> None:
        """Changes the configuration, and waits until it is in force. Raises SettingsError when the daemon refuses."""
        self.is_configured = True
        self.client.notifications.clear()
        self.client.notify("workspace/didChangeConfiguration", {"settings": {"turnguard": settings}})
        self.client.request("turnguard/listSessions")
        for notification in self.client.notifications:
            if notification.method == "window/showMessage":
                raise SettingsError(notification.params["message"])

    def close_session(self) -> None:
        """Closes the session at hand."""
        if self.session_id is not None:
            self.client.close_session(self.session_id)
            self.session_id = None


def is_utf8(case: Case) -> bool:
    """Whether the case can be written as UTF-8: the wire carries no lone surrogates."""
    try:
        json.dumps(case.events, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
