"""`python -m turnguard`."""

import sys

from turnguard.cli import main

sys.exit(main())
