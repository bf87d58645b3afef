"""Sessions of one running `turnguard serve`, spoken to as an editor would."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.conformance.cases import Case
from tests.conformance.sessions import SettingsError
from turnguard.client import Client, ClientError
from turnguard_protocol.events import Event
from turnguard_protocol.verdicts import Verdict

INVALID_PARAMS = -32602


class WireSession:
    """A session of the daemon."""

    def __init__(self, client: Client, session_id: str) -> None:
        self.client = client
        self.session_id = session_id

    def record(self, *events: Event) -> Verdict:
        """Tells the daemon what happened."""
        return self.client.record(self.session_id, events)


class Wire:
    """The daemon. A session is closed when the next is opened."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.opened = 0
        self.session_id: str | None = None

    @classmethod
    @contextmanager
    def running(cls) -> Iterator["Wire"]:
        """Starts a daemon, and has it end in order."""
        with Client.spawn() as client:
            wire = cls(client)
            yield wire
            wire.close_session()
            assert client.shutdown() == 0

    def open(self, settings: dict[str, Any]) -> WireSession:
        """Opens a session. Raises SettingsError when the daemon says that the settings do not fit, and where."""
        self.close_session()
        self.opened += 1
        session_id = f"case-{self.opened}"
        try:
            self.client.request("turnguard/openSession", {"sessionId": session_id, "settings": settings})
        except ClientError as error:
            if error.code != INVALID_PARAMS:
                raise
            raise SettingsError(error.data["path"]) from None
        self.session_id = session_id
        return WireSession(self.client, session_id)

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
