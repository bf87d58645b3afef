"""The formats of transcripts, one file each. `FORMATS` is in the order in which they are tried."""

from turnguard.headless.readers import (
    claude,
    cline,
    codex,
    codex_exec,
    gemini,
    mini_swe_agent,
    openclaw,
    opencode,
    openhands,
    own,
    qwen,
    swe_agent,
)
from turnguard.transcript import Format

FORMATS: tuple[Format, ...] = (
    qwen.FORMAT,
    qwen.STREAM,
    claude.FORMAT,
    claude.STREAM,
    codex.FORMAT,
    codex_exec.FORMAT,
    gemini.FORMAT,
    gemini.STREAM,
    opencode.FORMAT,
    opencode.STREAM,
    openclaw.FORMAT,
    openclaw.EXPORT,
    own.FORMAT,
    swe_agent.FORMAT,
    mini_swe_agent.FORMAT,
    cline.ROO,
    cline.FORMAT,
    openhands.FORMAT,
)
