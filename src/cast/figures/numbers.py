"""How numbers are written in tables: the same everywhere, a dash for what isn't defined."""

import math
from collections.abc import Mapping
from typing import Any

from cast.evaluation.replicates import Interval, Replicates

DASH = "–"


def plain(value: float, digits: int = 3) -> str:
    """A number, or a dash for NaN."""
    return DASH if math.isnan(value) else signed(value, f".{digits}f")


def signed(value: float, form: str) -> str:
    """A number with a true minus sign, and none before a zero that only rounding made."""
    text = f"{value:{form}}"
    nothing = not any(digit in text for digit in "123456789")
    return text.lstrip("+-") if nothing else text.replace("-", "−")


def plus_minus(mean: float, sd: float, digits: int = 3) -> str:
    """`0.612 ± 0.011`; without a spread just the mean, and a dash where there is neither."""
    if math.isnan(mean) or math.isnan(sd):
        return plain(mean, digits)
    return f"{mean:.{digits}f} ± {sd:.{digits}f}"


def bracketed(row: Mapping[str, Any], name: str, form: str = "+.3f") -> str:
    """`+0.042 [+0.011, +0.075]` from the columns name, name_low and name_high, or a dash."""
    value, low, high = (float(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    if math.isnan(value):
        return DASH
    return f"{signed(value, form)} [{signed(low, form)}, {signed(high, form)}]"


def spread_columns(name: str, summary: Replicates | None) -> dict[str, float]:
    """The columns of a mean over replicates; NaN where there is none."""
    if summary is None:
        return {f"{name}_mean": math.nan, f"{name}_sd": math.nan}
    return {f"{name}_mean": summary.mean, f"{name}_sd": summary.sd}


def interval_columns(name: str, interval: Interval | None) -> dict[str, float]:
    """The columns of a value with its interval; NaN where there is none."""
    if interval is None:
        return {name: math.nan, f"{name}_low": math.nan, f"{name}_high": math.nan}
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
