"""Agents that are all bytes and process: `python -m tests.e2e.agents.raw WHAT ARGUMENT...`. They know no ACP."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

BLOCK = 65536
UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"%b"}}}\n'


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def copy(file: Path) -> None:
    """Stdin to a file, to its end; what came is in the file at once."""
    with file.open("ab", buffering=0) as target:
        while block := os.read(0, BLOCK):
            target.write(block)


def tap(sends: str, received: str) -> None:
    """Writes one file to stdout, and stdin to another."""
    writer = threading.Thread(target=write, args=(Path(sends).read_bytes(),))
    writer.start()
    copy(Path(received))
    writer.join()


def flood(updates: str, received: str) -> None:
    """Writes updates as fast as it can, hears at the same time, and ends when it has done both."""
    writer = threading.Thread(target=_flood, args=(int(updates),))
    writer.start()
    copy(Path(received))
    writer.join()


def _flood(updates: int) -> None:
    for number in range(updates):
        write(UPDATE % (b"u%d" % number))


def busy(updates: str, received: str) -> None:
    """Hears nothing until it has written all its updates."""
    _flood(int(updates))
    copy(Path(received))


def noisy(text: str) -> None:
    """Says something on stderr for every line."""
    for line in sys.stdin.buffer:
        os.write(2, f"{text}\n".encode())
        write(line)


def deaf(pids: str) -> None:
    """Neither reads nor writes."""
    _tell_pid(pids)
    while True:
        signal.pause()


def stubborn(pids: str) -> None:
    """Ends neither with its stdin nor at SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    deaf(pids)


def waiting(pids: str) -> None:
    """Answers every line with itself and hears of its end by its stdin."""
    _tell_pid(pids)
    while block := os.read(0, BLOCK):
        write(block)


def drip(pids: str) -> None:
    """Writes an update again and again, and reads nothing; it hears of the client's end when it writes."""
    _tell_pid(pids)
    while True:
        write(UPDATE % b"drip")
        threading.Event().wait(0.01)


def terminated(code: str, pids: str) -> None:
    """Ends with a code at SIGTERM, and not with its stdin."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(int(code)))
    deaf(pids)


def ends(code: str, last: str = "") -> None:
    """Writes its last words without a line end, and ends."""
    write(last.encode())
    sys.exit(int(code))


def dies(number: str) -> None:
    """Is killed by a signal."""
    os.kill(os.getpid(), int(number))


def speechless(pids: str) -> None:
    """Closes its stdout and goes on hearing."""
    os.close(1)
    waiting(pids)


def leaves(pids: str) -> None:
    """Leaves a process behind that holds its stdout open, and ends."""
    write(b"last words\n")
    left = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL)
    Path(pids).write_text(str(left.pid))
    os._exit(5)


def signals() -> None:
    """Writes what it inherited: which signals are ignored."""
    ignored = [each.name for each in signal.Signals if signal.getsignal(each) == signal.SIG_IGN]
    write(" ".join(sorted(ignored)).encode() + b"\n")
    write(f"{os.getpgrp()}\n".encode())


def _tell_pid(file: str) -> None:
    aside = Path(f"{file}.new")
    aside.write_text(str(os.getpid()))
    aside.rename(file)


AGENTS = (tap, flood, busy, noisy, deaf, stubborn, waiting, drip, terminated, ends, dies, speechless, leaves, signals)

if __name__ == "__main__":
    {agent.__name__: agent for agent in AGENTS}[sys.argv[1]](*sys.argv[2:])
