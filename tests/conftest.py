"""How hypothesis runs: the same examples every time, and no deadlines, since machines are shared.

`HYPOTHESIS_PROFILE=explore` looks for new examples.
"""

import os

from hypothesis import settings

settings.register_profile("steady", deadline=None, database=None, derandomize=True)
settings.register_profile("explore", deadline=None, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
