"""The one exception that bad input raises.

Everything a user can get wrong (a config value, a file, a folder of weights) ends in a
`CastError` whose message names the place, what stands there, what is allowed and the mend.
Command-line fronts print it without a traceback and exit with 2.
"""

import difflib
from collections.abc import Iterable


class CastError(Exception):
    """Bad input: the message names the file, the key, the value and how to mend it."""


def nearest(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the known name closest to `name`, or an empty string."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {matches[0]!r}?" if matches else ""
