"""`python -m bridge` is the `bridge` command."""

import sys

from bridge.cli.command import main

sys.exit(main())
