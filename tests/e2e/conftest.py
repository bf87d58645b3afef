from collections.abc import Callable, Iterator

import pytest

from tests.e2e.daemon import Daemon

Start = Callable[..., Daemon]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts daemons that end with the test, whatever it leaves behind."""
    daemons: list[Daemon] = []

    def start(*args: object, **options: object) -> Daemon:
        daemons.append(Daemon(*args, **options))  # pyright: ignore[reportArgumentType]
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.close()


@pytest.fixture(scope="session")
def shared() -> Iterator[Daemon]:
    """One daemon for all that must not hurt it. Session `kept` has seen one call and must not lose it."""
    daemon = Daemon()
    daemon.ask("turnguard/openSession", {"sessionId": "kept"})
    daemon.record("kept", {"type": "toolCalls", "calls": [{"name": "read_file"}]})
    yield daemon
    assert daemon.total("kept") == 1
    assert daemon.ask("shutdown")["result"] is None
    daemon.tell("exit")
    assert daemon.exit_code() == 0
    daemon.close()


@pytest.fixture
def daemon(shared: Daemon) -> Iterator[Daemon]:
    """The shared daemon, checked before and after."""
    assert shared.total("kept") == 1
    yield shared
    assert shared.total("kept") == 1
