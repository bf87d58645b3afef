"""Reading a small file that others may have put there: it never blocks, never fills memory, and is what was looked at.

The file is opened first and looked at then, through what was opened, so nothing can be put in its place in between.
"""

import errno
import os
import stat
import sys
from pathlib import Path
from typing import NamedTuple

_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_LINK_ERRORS = (errno.ELOOP, errno.ENOTDIR, getattr(errno, "EMLINK", errno.ELOOP))
"""What systems say of a link, or of something that is no directory, where a directory itself was asked for."""


class RefusedFileError(Exception):
    """There is something, and it was not read. Its text says why, for people."""


class Contents(NamedTuple):
    """A file's bytes, and what the system says of that file."""

    data: bytes
    status: os.stat_result


def read_regular(path: Path, limit: int, *, beneath: Path | None = None, may_be_link: bool = False) -> Contents | None:
    """A regular file of at most `limit` bytes; None where there is none. Raises RefusedFileError.

    `beneath`: a directory above the file; nothing between it and the file may be a link either. `may_be_link`: the file
    itself may be one.
    """
    try:
        descriptor = _open(path, beneath, may_be_link=may_be_link)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RefusedFileError(_why(error)) from None
    try:
        return _read(descriptor, limit)
    except OSError as error:
        raise RefusedFileError(_why(error)) from None
    finally:
        os.close(descriptor)


def _open(path: Path, beneath: Path | None, *, may_be_link: bool) -> int:
    if sys.platform == "win32" or os.open not in os.supports_dir_fd:
        return _open_by_path(path, beneath, may_be_link=may_be_link)
    flags = _FLAGS if may_be_link else _FLAGS | _NO_LINK
    if beneath is None:
        return os.open(path, flags)
    *directories, name = path.relative_to(beneath).parts
    directory = os.open(beneath, _FLAGS | _DIRECTORY)
    try:
        for each in directories:
            inner = os.open(each, _FLAGS | _DIRECTORY | _NO_LINK, dir_fd=directory)
            os.close(directory)
            directory = inner
        return os.open(name, flags, dir_fd=directory)
    finally:
        os.close(directory)


def _open_by_path(path: Path, beneath: Path | None, *, may_be_link: bool) -> int:
    """Where the system cannot open within an open directory: it looks before it opens."""
    if not may_be_link:
        depth = 1 if beneath is None else len(path.relative_to(beneath).parts)
        for each in (path, *path.parents)[:depth]:
            if each.is_symlink():
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if path.exists() and not path.is_file():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    return os.open(path, _FLAGS | getattr(os, "O_BINARY", 0))


def _read(descriptor: int, limit: int) -> Contents:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise RefusedFileError("it is not a regular file")
    data = b""
    # What the system says of its length is not asked: it may grow meanwhile, and some files have none.
    while len(data) <= limit:
        piece = os.read(descriptor, limit + 1 - len(data))
        if not piece:
            return Contents(data, status)
        data += piece
    raise RefusedFileError(f"it is longer than {limit} bytes")


def _why(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if number in _LINK_ERRORS:
        return "it, or the directory that it is in, is a link or is no directory"
    if number in (errno.ENXIO, errno.EISDIR):
        return "it is not a regular file"
    return f"it cannot be opened: {os.strerror(number)}" if number is not None else "it cannot be opened"
