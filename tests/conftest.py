"""How hypothesis runs: the same examples every time, and no deadlines, since machines are shared.

`HYPOTHESIS_PROFILE=explore` looks for new examples. No test, and no process that one starts, sees the settings, the
state or the variables of whoever runs it.
"""

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from turnguard.settings.table import ENVIRONMENT_PREFIX

settings.register_profile("steady", deadline=None, database=None, derandomize=True)
settings.register_profile("explore", deadline=None, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


if sys.platform != "win32":
    # Under nohup, or in the background of a script, these are ignored, and so they would be in every process of a test.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _somebody_new(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A home that is empty."""
    home: Path = tmp_path_factory.mktemp("home")
    os.environ["HOME"] = os.environ["USERPROFILE"] = str(home)
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        os.environ.pop(variable, None)
    for variable in [name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX)]:
        del os.environ[variable]
