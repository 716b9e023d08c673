"""Reading a vocabulary file, and every check that its words must pass together."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cast.errors import CastError, nearest
from cast.paths import from_root
from cast.scene_graph.vocabulary import Mix, Vocabulary

FOLDER = "config/vocabularies"


class _Sampling(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    attribute: float
    plural: float
    verb: float
    layouts: dict[str, float]


class _File(BaseModel):
    """The keys of a vocabulary file; `Vocabulary` says what they mean."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(min_length=1)
    objects: dict[str, str] = Field(min_length=1)
    benchmark_plurals: dict[str, str] = {}
    attributes: list[str] = []
    positions: list[str] = []
    verbs: list[str] = []
    verb_objects: list[str] = []
    verb_max_count: int | None = Field(default=None, ge=1)
    counts: list[str] = Field(min_length=1)
    max_objects: int | None = Field(default=None, ge=1)
    inverse: dict[str, str] = {}
    articles: dict[str, str] = {}
    benchmark_sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    sampling: _Sampling


class _UniqueKeyLoader(yaml.SafeLoader):
    """A safe loader that refuses a key given twice, where YAML would keep the last in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        repeated = {str(key) for key in keys if keys.count(key) > 1}
        if repeated:
            line = node.start_mark.line + 1
            raise CastError(f"line {line}: {', '.join(sorted(repeated))} is given twice.")
        return super().construct_mapping(node, deep)


def load_vocabulary(source: str | Path) -> Vocabulary:
    """Read a vocabulary: a path, or a name that means config/vocabularies/NAME.yaml.

    Raises `CastError` naming the file, the key and the mend for anything that isn't right.
    """
    path = _path(source)
    try:
        value = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeyLoader)
        file = _File.model_validate(value)
        vocabulary = _build(file)
        _check(vocabulary)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CastError(f"{path}: can't be read as YAML ({error}).") from error
    except ValidationError as error:
        raise CastError(f"{path}: {_first_fault(error)}") from error
    except CastError as error:
        raise CastError(f"{path}: {error}") from error
    return vocabulary


def _path(source: str | Path) -> Path:
    path = Path(source)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise CastError(f"{path}: there is no such vocabulary file.")
        return path
    named = from_root(f"{FOLDER}/{source}.yaml")
    if not named.is_file():
        known = sorted(file.stem for file in from_root(FOLDER).glob("*.yaml"))
        raise CastError(
            f"vocabulary is {str(source)!r}; {FOLDER} has {', '.join(known)}."
            + nearest(str(source), known)
        )
    return named


def _build(file: _File) -> Vocabulary:
    sampling = file.sampling
    return Vocabulary(
        name=file.name,
        objects=file.objects,
        benchmark_plurals=file.benchmark_plurals,
        attributes=tuple(file.attributes),
        positions=tuple(file.positions),
        verbs=tuple(file.verbs),
        verb_objects=tuple(file.verb_objects),
        verb_max_count=file.verb_max_count,
        counts=tuple(file.counts),
        max_objects=file.max_objects,
        inverse=file.inverse | {value: key for key, value in file.inverse.items()},
        articles=file.articles,
        benchmark_sha256=file.benchmark_sha256,
        mix=Mix(sampling.attribute, sampling.plural, sampling.verb, sampling.layouts),
    )


def _check(vocabulary: Vocabulary) -> None:
    """Words must be words, each must mean one thing, and cross-references must resolve."""
    v = vocabulary
    plurals = [*v.objects.values(), *v.benchmark_plurals.values()]
    lists = {
        "objects": [*v.objects, *plurals],
        "attributes": v.attributes,
        "positions": v.positions,
        "verbs": v.verbs,
        "counts": v.counts,
    }
    for key, words in lists.items():
        for word in words:
            allowed = word.replace(" ", "").replace("-", "").isalpha() and word == word.lower()
            if not allowed or " ".join(word.split()) != word:
                raise CastError(f"{key}: {word!r} must be lower-case letters and single spaces.")
            if " " in word and key not in ("positions", "verbs"):
                raise CastError(f"{key}: {word!r} must be one word.")
            if "and" in word.split() or word in ("a", "an"):
                raise CastError(f"{key}: {word!r} contains a word that the grammar needs.")
    _check_distinct(v)
    relations = v.relation_skills
    for key, words, known in (
        ("benchmark_plurals", v.benchmark_plurals, v.objects),
        ("verb_objects", v.verb_objects, v.objects),
        ("inverse", v.inverse, relations),
        ("articles", v.articles, (*v.objects, *v.attributes)),
    ):
        for word in words:
            if word not in known:
                raise CastError(f"{key}: {word!r} isn't a known word.{nearest(word, known)}")
    for word, article in v.articles.items():
        if article not in ("a", "an"):
            raise CastError(f"articles: {word} is {article!r}; allowed are 'a' and 'an'.")


def _check_distinct(v: Vocabulary) -> None:
    seen: dict[str, str] = {}
    for noun, plural in v.objects.items():
        for word in {noun, plural, v.benchmark_plurals.get(noun, plural)}:
            if word in seen:
                raise CastError(
                    f"objects: {word!r} belongs to both {seen[word]!r} and {noun!r}; "
                    "a word may name one object only."
                )
            seen[word] = noun
    for key, words in (
        ("attributes", v.attributes),
        ("counts", v.counts),
        ("positions", v.positions),
        ("verbs", v.verbs),
    ):
        for word in words:
            if word in seen:
                raise CastError(f"{key}: {word!r} already stands under {seen[word]!r}.")
            seen[word] = key


def _first_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    key = ".".join(str(part) for part in fault["loc"]) or "the file"
    hint = nearest(key, _File.model_fields) if fault["type"] == "extra_forbidden" else ""
    return f"{key}: {fault['msg']} (got {fault['input']!r:.80}).{hint}"
