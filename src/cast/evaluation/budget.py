"""Arms may stand in one table only if they were trained and evaluated alike (paper 5.1, D).

The trained arms of one backbone and training seed must share world, base model, resolved
settings (but for the method), image and update budgets and learning rates; policy-gradient arms
also the prompts, their order and the windows. A supervised arm draws larger groups, so its
prompts must be the first of the others', in order. Each refusal names the two values.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from cast.errors import CastError

BUDGET = ("world", "backbone", "base_sha256", "seed", "images", "updates", "learning_rates")
MATCHED = ("prompt_ids", "window_starts")  # of arms that share the on-policy loop
METHOD_ONLY = ("method", "preference")  # of a run's settings: where arms are meant to differ
MISSING = object()


def check_budgets(
    ledgers: Mapping[str, Mapping[str, Any]],
    runs: Mapping[str, Mapping[str, Any]] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> None:
    """Raise `CastError` at the first difference between the arms' ledgers or run settings.

    `ledgers` and `runs` map an arm's name to what its `ledger.json` and `run.json` hold; `kinds`
    to "rl" (the default) or "sft".
    """
    kinds = kinds or {}
    names = sorted(ledgers)
    matched = [name for name in names if kinds.get(name, "rl") == "rl"]
    supervised = [name for name in names if name not in matched]
    for name in names[1:]:
        _compare(names[0], name, ledgers, BUDGET)
    for name in matched[1:]:
        _compare(matched[0], name, ledgers, MATCHED)
    for name in matched:
        _check_complete(name, ledgers[name])
    for name in supervised if matched else []:
        _check_prefix(name, matched[0], ledgers)
    if runs is not None:
        for name in names[1:]:
            _compare_settings(names[0], name, runs)


def _compare(
    first: str, second: str, ledgers: Mapping[str, Mapping[str, Any]], keys: tuple[str, ...]
) -> None:
    for key in keys:
        values = [ledgers[name].get(key, MISSING) for name in (first, second)]
        for name, value in zip((first, second), values, strict=True):
            if value is MISSING:
                raise CastError(f"{name}: its ledger has no {key!r}; train it again.")
        if values[0] != values[1]:
            place, one, other = _first_difference(key, *values)
            raise _refusal(first, second, place, one, other)


def _check_complete(name: str, ledger: Mapping[str, Any]) -> None:
    """A finished on-policy run has drawn one list of windows a collection."""
    prompts, windows = ledger["prompt_ids"], ledger["window_starts"]
    if len(prompts) != len(windows):
        raise CastError(
            f"{name}: its ledger lists {len(prompts)} collections and {len(windows)} windows; "
            "the run isn't complete. Run its training again: it resumes."
        )


def _check_prefix(name: str, other: str, ledgers: Mapping[str, Mapping[str, Any]]) -> None:
    own, longer = ledgers[name]["prompt_ids"], ledgers[other]["prompt_ids"]
    if own != longer[: len(own)]:
        place, one, two = _first_difference("prompt_ids", own, longer[: len(own)])
        raise _refusal(name, other, place, one, two)


def _compare_settings(first: str, second: str, runs: Mapping[str, Mapping[str, Any]]) -> None:
    one, other = (
        {key: value for key, value in runs[name].items() if key not in METHOD_ONLY}
        for name in (first, second)
    )
    for place, left, right in differences(one, other):
        raise _refusal(first, second, place, left, right)


def differences(one: Any, other: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Dotted keys at which two JSON values differ, with both values, in sorted order of keys."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}, key=str):
            below = f"{place}.{key}" if place else str(key)
            yield from differences(one.get(key, "absent"), other.get(key, "absent"), below)
    elif one != other:
        yield place, one, other


def _first_difference(key: str, one: Any, other: Any) -> tuple[str, Any, Any]:
    """Narrow two unequal lists down to the first entry that differs, or to their lengths."""
    if not (isinstance(one, list) and isinstance(other, list)):
        return key, one, other
    if len(one) != len(other):
        return f"number of {key}", len(one), len(other)
    index = next(i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
    return f"{key}[{index}]", one[index], other[index]


def _refusal(first: str, second: str, place: str, one: Any, other: Any) -> CastError:
    return CastError(
        f"{first} and {second} can't stand in one table: {place} is {one!r} for {first} and "
        f"{other!r} for {second}. Train both under one config."
    )
