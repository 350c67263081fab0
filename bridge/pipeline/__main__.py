"""`python -m bridge.pipeline`."""

import sys

from bridge.pipeline.cli import main

sys.exit(main())
