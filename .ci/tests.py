"""Run tests; each that fails runs once more, alone, in a process of its own.

    python .ci/tests.py PYTHON COMMAND [ARGUMENT ...]

COMMAND runs pytest, here or in the folder that it changes to; PYTHON is the one in which a test runs
again. A test that passes then is unsteady: its name goes to the file $UNSTEADY, for the end of the run.
It is mended before anything else. This exits with 1 if a test fails again, or if anything else fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

#: More failures than this at once have one cause, and that is not the clock.
MOST = 10

python, *command = sys.argv[1:]
with tempfile.TemporaryDirectory() as cache:
    options = f"{os.environ.get('PYTEST_ADDOPTS', '')} -o cache_dir={cache}"
    code = subprocess.call(command, env={**os.environ, "PYTEST_ADDOPTS": options})
    found = Path(cache, "v/cache/lastfailed")
    failed = list(json.loads(found.read_text())) if found.exists() else []
if code != 1 or not 0 < len(failed) <= MOST:
    sys.exit(code)
for name in failed:
    print(f"\n== once more, alone: {name}", flush=True)
    alone = [python, "-m", "pytest", "-q", "--long", f"--junitxml={os.devnull}", name]
    if subprocess.call(alone):
        sys.exit(f"{name} failed twice")
    with Path(os.environ.get("UNSTEADY", os.devnull)).open("a") as unsteady:
        unsteady.write(f"UNSTEADY: {name}\n")
