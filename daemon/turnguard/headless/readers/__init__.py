"""The formats of transcripts, one file each. `FORMATS` is in the order in which they are tried."""

from turnguard.headless.readers import claude
from turnguard.transcript import Format

FORMATS: tuple[Format, ...] = (claude.FORMAT, claude.STREAM)
