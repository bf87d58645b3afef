"""Files of transcripts: which are found, and what of a broken one is read."""

import gzip
import os
from pathlib import Path

import pytest
from tests.headless.lines import claude

from turnguard.headless import files as files_module
from turnguard.headless.files import find, once, open_transcript
from turnguard.headless.readers import FORMATS, document
from turnguard.transcript import UnreadableError
from turnguard_protocol.events import ToolCalls

DATA = claude("s", *[[("Bash", {"command": f"cat {number}"}, "x")] for number in range(4)])


def calls(path: Path) -> tuple[int, list[str]]:
    """How many calls a transcript has, and what could not be read."""
    transcript = open_transcript(path, FORMATS)
    count = sum(isinstance(each.event, ToolCalls) for each in transcript)
    return count, [f"{problem.line}: {problem.message}" for problem in transcript.problems]


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_folder_gives_regular_files_only(tmp_path: Path) -> None:
    file = written(tmp_path / "a.jsonl", DATA)
    (tmp_path / "b.jsonl").symlink_to(file)
    (tmp_path / "c.jsonl").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.jsonl")
    found = find([tmp_path, tmp_path / "pipe.jsonl"])
    assert [path.name for path in found.files] == ["a.jsonl", "b.jsonl", "c.jsonl", "pipe.jsonl"]


def test_a_file_counts_once_however_it_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path / "a.jsonl", DATA)
    (tmp_path / "b.jsonl").symlink_to(file)
    monkeypatch.chdir(tmp_path)
    gone = tmp_path / "gone"
    assert once([Path("a.jsonl"), file, tmp_path / "b.jsonl", gone, gone]) == [Path("a.jsonl"), gone]


def test_what_cannot_be_looked_into_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = Path("a" * 300)
    [problem] = find([long]).problems
    assert (problem.file, problem.message) == (long, "it cannot be read: File name too long")
    scandir = os.scandir

    def refusing(path: str) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    (tmp_path / "closed").mkdir()
    written(tmp_path / "z.jsonl", DATA)
    monkeypatch.setattr(os, "scandir", refusing)
    found = find([tmp_path])
    assert list(found.files) == [tmp_path / "z.jsonl"]
    assert [(each.file, each.message) for each in found.problems] == [
        (tmp_path / "closed", "it cannot be read: Permission denied")
    ]


def test_a_line_that_is_too_long_is_named_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "MAX_LINE_BYTES", 2 * 1024**2)
    lines = DATA.splitlines(keepends=True)
    data = b"".join([*lines[:3], b'{"type":"assistant"%s}\n' % (b" " * 3 * 1024**2), *lines[3:]])
    assert calls(written(tmp_path / "a", gzip.compress(data))) == (4, ["4: longer than 2 MB"])


@pytest.mark.parametrize("separator", [b"\n", b""])
def test_a_document_that_is_too_long_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, separator: bytes
) -> None:
    for module in (files_module, document):
        monkeypatch.setattr(module, "MAX_DOCUMENT_BYTES", 1024**2)
    start = b'[{"role": "user", "content": [{"type": "text", "text": "<task>x</task>"}]},'
    data = start + separator + (b" " * 1000 + b"{}," + separator) * 1100 + b"{}]"
    transcript = open_transcript(written(tmp_path / "api_conversation_history.json", data), FORMATS, name="cline")
    assert list(transcript) == []
    assert "1 MB" in transcript.problems[0].message


@pytest.mark.parametrize("count", [1, 500])
def test_of_a_packed_file_that_is_cut_off_all_up_to_there_is_read(tmp_path: Path, count: int) -> None:
    packed = gzip.compress(DATA * count)
    cut, problems = calls(written(tmp_path / "cut", packed[: len(packed) * 3 // 4]))
    assert cut > 0
    assert "cannot be read to its end" in problems[-1]
    trailing, problems = calls(written(tmp_path / "trailing", packed + b"garbage"))
    assert trailing == 4 * count
    assert len(problems) == 1


def test_a_mark_at_the_beginning(tmp_path: Path) -> None:
    assert calls(written(tmp_path / "a", b"\xef\xbb\xbf" + DATA)) == (4, [])


def test_nothing_at_all(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="it is empty"):
        open_transcript(written(tmp_path / "a", b""), FORMATS)
