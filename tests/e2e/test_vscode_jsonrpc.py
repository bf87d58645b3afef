import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.e2e.daemon import SERVE

VERSION = "8.2.1"
CLIENT = Path(__file__).with_name("vscode_jsonrpc_client.mjs")


@pytest.fixture(scope="module")
def modules() -> Path:
    """Where vscode-jsonrpc is installed, once for all runs on this machine."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("needs Node and npm")
    directory = Path(tempfile.gettempdir()) / f"turnguard-vscode-jsonrpc-{VERSION}"
    if not (directory / "node_modules" / "vscode-jsonrpc" / "package.json").is_file():
        install = [npm, "install", "--prefix", str(directory), "--no-audit", "--no-fund", f"vscode-jsonrpc@{VERSION}"]
        installed = subprocess.run(install, capture_output=True, text=True, timeout=180, check=False)
        if installed.returncode != 0:
            pytest.skip(f"npm could not install vscode-jsonrpc: {installed.stderr[-500:]}")
    return directory


@pytest.mark.slow
def test_a_host_on_vscode_jsonrpc(modules: Path) -> None:
    command = ["node", str(CLIENT), str(modules), *SERVE]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert json.loads(ran.stdout) == {
        "actions": ["allow"] * 3 + ["halt"] * 3,
        "loops": 1,
        "code": 0,
        "codeWithoutShutdown": 1,
    }
