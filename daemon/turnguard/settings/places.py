"""Where settings and state are: a person's directories, a project's file, and files that nobody else may read."""

import functools
import hmac
import logging
import os
import stat
from pathlib import Path

import platformdirs

from turnguard.core.guard import Seal
from turnguard.settings.regular_file import RefusedFileError, read_regular

APP = "turnguard"

PROJECT_FILE = Path(".turnguard", "settings.json")
"""A project's settings file, beneath the project's directory."""

SALT_BYTES = 32
PRIVATE_DIRECTORY = 0o700
DIGEST_CHARACTERS = 32
"""Of a digest that leaves the process."""

_OTHERS_MAY_READ = stat.S_IRWXG | stat.S_IRWXO

log = logging.getLogger(__name__)


def config_dir() -> Path:
    """The directory of a person's own settings."""
    return platformdirs.user_config_path(APP, appauthor=False)


def state_dir() -> Path:
    """The directory of what turnguard keeps for itself."""
    return platformdirs.user_state_path(APP, appauthor=False)


def user_file() -> Path:
    """A person's own settings file."""
    return config_dir() / "settings.json"


def real_directory(cwd: str | Path) -> str:
    """Where a session runs: its directory without `..` and links, as the system understands them, there or not.

    A session asks once, when it begins: what holds for it must not change with a link that an agent puts in the way.
    """
    try:
        return os.path.realpath(cwd)
    except (OSError, ValueError):  # a name that no system takes; `project_file` finds nothing there
        return os.fspath(cwd)


def project_file(directory: str | Path) -> Path | None:
    """The nearest project's file, at a directory or above it. What stands there may be anything: reading refuses it.

    `directory`: as `real_directory` gives it; above a link or a `..` are other directories than its name says.
    """
    try:
        directory = Path(directory).absolute()
        found = (each / PROJECT_FILE for each in (directory, *directory.parents))
        return next((file for file in found if os.path.lexists(file)), None)
    except (OSError, ValueError):  # a name that no system takes, or one in a directory that is gone
        return None


def write_private(path: Path, data: bytes) -> None:
    """Writes a file that only its owner can read, in one step: others see what was there, or all of this.

    Makes the directory where it is missing. Raises OSError.
    """
    written = _written_beside(path, data)
    try:
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise


@functools.cache
def install_salt() -> bytes:
    """The salt of this installation, made when it is first asked for. Digests that leave the process are keyed with it.

    Where the file cannot be had, or somebody else can read it, a salt of this process stands in, and the log says so.
    """
    try:
        return lasting_salt()
    except (OSError, RefusedFileError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        log.warning("no lasting salt, digests compare within this process only: %s: %s", state_dir() / "salt", why)
        return os.urandom(SALT_BYTES)


def lasting_salt() -> bytes:
    """The same salt, for what has to be found again by another process. Raises OSError, or RefusedFileError."""
    return _salt_in(state_dir() / "salt")


def seal_of(salt: bytes) -> Seal:
    """A seal whose digests can be compared with those of the same salt and with nothing else."""

    def seal(key: str) -> str:
        return hmac.digest(salt, key.encode("utf-8", "surrogatepass"), "sha256").hex()[:DIGEST_CHARACTERS]

    return seal


def is_ours(status: os.stat_result) -> bool:
    """Whether a file belongs to who runs this. Where there are no owners, it does."""
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def _salt_in(path: Path) -> bytes:
    if (salt := _kept_salt(path)) is not None:
        return salt
    written = _written_beside(path, os.urandom(SALT_BYTES))
    try:
        # A link fails where the name is taken: of two processes that start at once, one makes the salt.
        path.hardlink_to(written)
    except FileExistsError:
        pass
    finally:
        written.unlink(missing_ok=True)
    salt = _kept_salt(path)
    if salt is None:
        raise RefusedFileError("it was taken away while it was made")
    return salt


def _kept_salt(path: Path) -> bytes | None:
    contents = read_regular(path, SALT_BYTES)
    if contents is None:
        return None
    if not is_ours(contents.status):
        raise RefusedFileError("it belongs to somebody else")
    if os.name == "posix" and contents.status.st_mode & _OTHERS_MAY_READ:
        raise RefusedFileError("others may read it")
    if len(contents.data) != SALT_BYTES:
        raise RefusedFileError(f"it is not {SALT_BYTES} bytes long")
    return contents.data


def _written_beside(path: Path, data: bytes) -> Path:
    """A file with data on the disk, private, in a file's directory, for that file to become."""
    import tempfile  # a hook must not wait for what is written once

    path.parent.mkdir(PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    # mkstemp makes it 0600, under a name that was not there.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)
