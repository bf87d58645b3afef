"""clients/neovim in every Neovim there is: the one on PATH, and those that EDITORS_NVIM lists beside it.

Skipped without any; with EDITORS_REQUIRED it fails instead.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "neovim"
CASES = Path(__file__).with_name("cases.lua")
DAEMON = [sys.executable, "-m", "turnguard", "serve"]
BROKEN = [sys.executable, str(Path(__file__).with_name("broken_daemon.py"))]
TIMEOUT_SECONDS = 60


def editors() -> list[object]:
    listed = [path for path in os.environ.get("EDITORS_NVIM", "").split(os.pathsep) if path]
    found = [path for path in (shutil.which("nvim"), *listed) if path]
    if found:
        return [pytest.param(path, id=Path(path).parent.parent.name) for path in dict.fromkeys(found)]
    marks = () if "EDITORS_REQUIRED" in os.environ else pytest.mark.skip("needs Neovim")
    return [pytest.param("nvim", marks=marks)]


def pasted(readme: Path, language: str) -> list[str]:
    """The blocks of a README, for this clone."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", readme.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    places = {"/path/to/turnguard/.venv/bin": str(Path(sys.executable).parent), "/path/to/turnguard": str(ROOT)}
    for stated, place in places.items():
        blocks = [block.replace(stated, place) for block in blocks]
    return blocks


def run(nvim: str, *args: str, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"XDG_STATE_HOME": str(home), "XDG_CACHE_HOME": str(home), "XDG_DATA_HOME": str(home)}
    return subprocess.run(
        [nvim, "--headless", *args],
        env=environment | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("nvim", editors())
@pytest.mark.parametrize("case", re.findall(r"^function cases\.(\w+)", CASES.read_text("utf-8"), re.MULTILINE))
def test_case(nvim: str, case: str, tmp_path: Path) -> None:
    ran = run(
        nvim,
        *("-u", "NONE", "--cmd", f"set runtimepath+={CLIENT}", "-c", f"luafile {CASES}"),
        home=tmp_path,
        CASE=case,
        CASE_CLIENT=str(CLIENT),
        CASE_DAEMON=json.dumps(DAEMON),
        CASE_BROKEN=json.dumps(BROKEN),
    )
    assert ran.stdout + ran.stderr == "passed\n"
    assert ran.returncode == 0


@pytest.mark.parametrize("nvim", editors())
def test_what_the_readme_says_to_paste(nvim: str, tmp_path: Path) -> None:
    init, record = pasted(CLIENT / "README.md", "lua")
    (tmp_path / "init.lua").write_text(init, "utf-8")
    ready = "assert(vim.wait(20000, function() return turnguard.statusline() == 'turnguard' end, 5))"
    shown = "io.stdout:write(verdict.action, ' ', vim.api.nvim_eval_statusline(vim.o.statusline, {}).str)"
    lines = record.splitlines()
    (tmp_path / "record.lua").write_text("\n".join([lines[0], ready, *lines[1:], shown]), "utf-8")
    ran = run(
        nvim,
        *("-u", str(tmp_path / "init.lua"), "-c", f"luafile {tmp_path / 'record.lua'}", "-c", "qall!"),
        home=tmp_path,
    )
    assert ran.stderr == ""
    assert re.fullmatch(r"allow .* turnguard( 1/~100)?", ran.stdout), ran.stdout
