"""Installs lock files with pip, and shows on a terminal how far it is: `python requirements/install.py run.lock`.

It needs nothing but Python: it runs before anything is installed. Elsewhere than on a terminal it says when it begins
and ends. What pip printed is shown where it fails.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
LOCKED = re.compile(r"^[A-Za-z0-9._-]+(?:\[[\w,-]+\])?==", re.MULTILINE)
STEP = re.compile(r"^(?:Collecting|Requirement already satisfied:) ([A-Za-z0-9._-]+)")


def main(names: list[str]) -> int:
    """Install them; pip's exit code."""
    locks = [HERE / name for name in names]
    count = len({one for lock in locks for one in LOCKED.findall(lock.read_text(encoding="utf-8"))})
    options = [word for lock in locks for word in ("-r", str(lock))]
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--progress-bar",
        "off",
        "--require-hashes",
    ]
    shown, began, done, printed = sys.stdout.isatty(), time.monotonic(), 0, list[str]()
    print(f"installing {count} packages of {', '.join(names)}", flush=True)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(  # noqa: S603
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as pip:
        for line in pip.stdout or ():
            printed.append(line)
            found = STEP.match(line)
            done += found is not None
            what = found[1] if found else "unpacking them" if line.startswith("Installing collected") else ""
            if shown and what:
                print(f"\r\033[K  {done} of {count}, {time.monotonic() - began:.0f} s: {what}", end="", flush=True)
    if shown:
        print("\r\033[K", end="")
    if pip.returncode != 0:
        sys.stderr.writelines(printed)
    else:
        print(f"installed after {time.monotonic() - began:.0f} s", flush=True)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
