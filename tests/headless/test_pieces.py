import json
from pathlib import Path

from tests.headless.reading import plain

from turnguard.headless.files import find, kept_by, open_transcript
from turnguard.headless.readers import FORMATS
from turnguard.transcript import Kept


def piece(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def event(number: int) -> str:
    """An event of OpenHands, over several lines."""
    action = {"id": number, "timestamp": "t", "source": "agent", "action": "read", "args": {"path": f"{number}"}}
    return json.dumps(action, indent=1)


def test_a_folder_of_events_is_one_transcript(tmp_path: Path) -> None:
    events = tmp_path / "conversation" / "events"
    for number in (10, 9, 2):
        piece(events, f"{number}.json", event(number))
    piece(events, ".lock", "")
    piece(tmp_path / "conversation" / "event_cache", "0-25.json", f"[{event(2)}]")
    piece(tmp_path / "conversation", "metadata.json", "{}")
    assert find([tmp_path]).files == [tmp_path / "conversation" / "metadata.json", events]
    assert find([events]).files == [events]
    transcript = open_transcript(events, FORMATS)
    assert transcript.format.name == "openhands"
    told = [plain(each) for each in transcript]
    assert [(each["calls"][0]["args"]["path"], each["place"]) for each in told] == [("2", 1), ("9", 2), ("10", 3)]


def test_names_of_the_sdk(tmp_path: Path) -> None:
    events = tmp_path / "events"
    for number in (100000, 99999):
        piece(events, f"event-{number:05}-0f3a-{number}.json", event(number))
    told = [plain(each) for each in open_transcript(events, FORMATS)]
    assert [each["calls"][0]["args"]["path"] for each in told] == ["99999", "100000"]


def test_another_folder_of_that_name_is_not(tmp_path: Path) -> None:
    piece(tmp_path / "events", "log.json", "{}")
    assert find([tmp_path]).files == [tmp_path / "events" / "log.json"]


def test_they_are_found_where_the_agent_keeps_them(tmp_path: Path) -> None:
    piece(tmp_path / "conversations" / "c" / "events", "0.json", event(0))
    piece(tmp_path / "conversations" / "d" / "events", "notes.txt", "")
    kept = [Kept("KEPT", "nowhere", "conversations/*/events")]
    assert kept_by(kept, {"KEPT": str(tmp_path)}) == [tmp_path / "conversations" / "c" / "events"]
