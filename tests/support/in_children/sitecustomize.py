"""Python imports this at its start in children of a test run with `--offline`: they are offline as well."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import offline  # type: ignore[import-not-found]

sys.path.pop()
sys.addaudithook(offline._hook)
