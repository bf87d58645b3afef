"""A person's directories for the commands."""

from pathlib import Path

import pytest

from tests.commands.process import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)
