"""The parser of the commands' arguments."""

import argparse
from typing import NoReturn

from turnguard.harmless import harmless


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are safe to show, though they repeat what stands on the command line.

    Parsers of commands below it are of this kind too.
    """

    def error(self, message: str) -> NoReturn:
        """Exits with 2."""
        super().error(harmless(message))
