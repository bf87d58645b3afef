"""Whether agents would find the program of their hooks by its name."""

import sys
from pathlib import Path

import pytest

from turnguard.commands.hook_program import why_not_found


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """turnguard in an environment that is not active, run by its path."""
    program = executable(tmp_path / "venv/bin/turnguard")
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return program


def executable(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(0o755)
    return file


@pytest.mark.usefixtures("program")
def test_nothing_of_that_name() -> None:
    assert why_not_found() == "no turnguard is on this PATH"


@pytest.mark.usefixtures("program")
def test_another_program(tmp_path: Path) -> None:
    other = executable(tmp_path / "bin/turnguard")
    assert why_not_found() == f"on this PATH it is {other}, another one than this"


def test_a_link_to_this_program(program: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/turnguard").symlink_to(program)
    assert why_not_found() is None


def test_this_program_in_an_environment_that_is_active(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(program.parent))
    assert "by the environment" in (why_not_found() or "")


def test_this_program_beside_a_python_that_is_no_environment(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    assert why_not_found() is None


def test_a_script_that_is_elsewhere_than_its_python(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.unlink()
    monkeypatch.setattr(sys, "argv", [str(executable(tmp_path / "bin/turnguard"))])
    assert why_not_found() is None
