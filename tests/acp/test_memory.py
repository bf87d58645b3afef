"""What a line needs is not asked of the system for each line."""

import platform
import subprocess
import sys

import pytest

from tests.e2e.daemon import DEADLINE

FAULTS = """
import os, resource
from types import SimpleNamespace
from turnguard.acp.pump import BLOCK_BYTES, read_block
from turnguard.acp.relay import Ends, Relay

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

proxy = SimpleNamespace(said=[], next_tick=None, from_client=None, from_agent=None)
(client_in, _), (_, client_out), (_, agent_in), (agent_out, _) = (os.pipe() for _ in range(4))
Relay(proxy, Ends(client_in, client_out, agent_in, agent_out), print, print).start()
reads, writes = os.pipe()
before = faults()
for _ in range(500):
    os.write(writes, b"a short line")
    read_block(reads)
    bytes(bytearray(BLOCK_BYTES))
print(faults() - before)
"""
"""A program that says how many pages the system handed over for 500 short lines, and copies of whole blocks."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others do it in their own way")
def test_a_relay_has_memory_handed_over_once_and_not_for_each_line() -> None:
    ran = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, timeout=DEADLINE, check=True)
    assert int(ran.stdout) < 1_500  # else nearly 100 for each
