"""Each script imports this first: a Python that cannot run it gets one sentence, never a traceback.

Old Pythons read this file, too: nothing in it is newer than Python 3.8.
"""

import sys
from importlib.util import find_spec

PACKAGES = ("torch", "numpy", "matplotlib", "tqdm")  # as in requirements.txt
WITH_MAKE = "run `make .venv/ready`, then `. .venv/bin/activate`"
WITHOUT_MAKE = "without make: `pip install -r requirements.txt` in a virtual environment"


def problem():
    """What this Python lacks, or None"""
    if sys.version_info < (3, 10):  # noqa: UP036 (it is read by older ones)
        version = ".".join(map(str, sys.version_info[:2]))
        return "this is Python " + version + ", and 3.10 to 3.14 is needed: with such a one " + WITH_MAKE
    missing = [name for name in PACKAGES if find_spec(name) is None]
    return missing[0] + " is not installed for this Python: " + WITH_MAKE if missing else None


if problem():
    print("error: " + problem() + " (" + WITHOUT_MAKE + ").", file=sys.stderr)
    sys.exit(2)
