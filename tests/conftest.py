"""How hypothesis runs: no deadlines, since machines are shared, and in CI the same examples every time."""

import os

from hypothesis import settings

settings.register_profile("here", deadline=None, database=None)
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
