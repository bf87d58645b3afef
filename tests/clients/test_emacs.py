"""clients/emacs in the Emacs on PATH. Skipped without one; with EDITORS_REQUIRED it fails instead."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.test_neovim import BROKEN, DAEMON, ROOT, TIMEOUT_SECONDS, pasted

CLIENT = ROOT / "clients" / "emacs"
TESTS = Path(__file__).with_name("emacs-tests.el")

pytestmark = pytest.mark.skipif(
    shutil.which("emacs") is None and "EDITORS_REQUIRED" not in os.environ, reason="needs Emacs"
)


def run(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    case = {"CASE_DAEMON": "\n".join(DAEMON), "CASE_BROKEN": "\n".join(BROKEN)}
    return subprocess.run(
        ["emacs", "-Q", "--batch", "-L", str(CLIENT), *args],
        env=os.environ | case | {"HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("name", re.findall(r"^\(ert-deftest ([\w-]+)", TESTS.read_text("utf-8"), re.MULTILINE))
def test_case(name: str, tmp_path: Path) -> None:
    ran = run(tmp_path, "-l", str(TESTS), "--eval", f'(ert-run-tests-batch-and-exit "^{name}$")')
    assert "Ran 1 tests, 1 results as expected, 0 unexpected" in ran.stdout, ran.stdout
    assert ran.returncode == 0


@pytest.mark.parametrize("file", sorted(CLIENT.glob("*.el")), ids=lambda file: file.name)
def test_it_compiles_without_a_warning(file: Path, tmp_path: Path) -> None:
    target = f'(lambda (file) (expand-file-name (concat (file-name-nondirectory file) "c") "{tmp_path}"))'
    settings = f"(setq byte-compile-error-on-warn t byte-compile-dest-file-function {target})"
    ran = run(tmp_path, "--eval", settings, "-f", "batch-byte-compile", str(file))
    assert ran.stdout == ""
    assert ran.returncode == 0


def test_what_the_readme_says_to_paste(tmp_path: Path) -> None:
    init, record = pasted(CLIENT / "README.md", "lisp")
    (tmp_path / "init.el").write_text(init, "utf-8")
    shown = f"""(princ (concat (plist-get {record} :action) (turnguard-mode-line)))"""
    ready = '(while (not (equal (turnguard-mode-line) " turnguard")) (accept-process-output nil 0.01))'
    ran = run(tmp_path, "-l", str(tmp_path / "init.el"), "--eval", ready, "--eval", shown)
    assert re.match(r"allow turnguard( 1/~100)?", ran.stdout), ran.stdout
