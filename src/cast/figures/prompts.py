"""Figure of the prompt sets: are training prompts like the benchmark's? And a graph, drawn.

Paper 4.1, D: prompts of 3 to 10 atoms, median 6.5, disjoint from the benchmark but of its kind.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cast.figures.style import COLUMN, look, new_figure, note
from cast.scene_graph import SKILLS, Entity, PromptRecord, SceneGraph, Vocabulary

SET_COLOURS = {
    "benchmark": "#000000",
    "development": "#999999",
    "train": "#56B4E9",
    "manifest": "#0072B2",
}


def prompt_distributions(sets: Mapping[str, Sequence[PromptRecord]]) -> pd.DataFrame:
    """Shares of every set, one row each: columns set, kind, key, share.

    kind "atom_count": share of the prompts; kind "skill": share of the atoms.
    """
    rows = []
    for name, records in sets.items():
        counts = Counter(record.atom_count for record in records)
        skills = Counter(atom.skill for record in records for atom in record.atoms)
        for count in sorted(counts):
            rows.append((name, "atom_count", str(count), counts[count] / len(records)))
        for skill in SKILLS:
            rows.append((name, "skill", skill, skills[skill] / skills.total()))
    return pd.DataFrame(rows, columns=["set", "kind", "key", "share"])


def prompts_figure(distributions: pd.DataFrame, lines: Sequence[str] = ()) -> Figure:
    """Atom counts and skills of every set side by side; `lines` say below what world it is.

    `distributions` as `prompt_distributions` gives them (its four columns, in its order).
    """
    figure = new_figure(2 * COLUMN, 2.2)
    with look():
        left, right = figure.subplots(1, 2)
        _grouped_bars(left, distributions, "atom_count")
        left.set(xlabel="atoms of a prompt", ylabel="share of the prompts")
        _grouped_bars(right, distributions, "skill")
        right.set(xlabel="skill of an atom", ylabel="share of the atoms")
        right.legend()
        if lines:
            note(figure, lines)
    return figure


def _grouped_bars(axis: Axes, distributions: pd.DataFrame, kind: str) -> None:
    shares: dict[str, dict[str, float]] = {}
    for name, of_kind, key, share in distributions.to_numpy().tolist():
        if of_kind == kind:
            shares.setdefault(name, {})[key] = share
    keys = list(dict.fromkeys(key for of_set in shares.values() for key in of_set))
    if kind == "atom_count":
        keys.sort(key=int)
    width = 0.8 / len(shares)
    for place, (name, of_set) in enumerate(shares.items()):
        x = [index + (place - (len(shares) - 1) / 2) * width for index in range(len(keys))]
        heights = [of_set.get(key, 0.0) for key in keys]
        axis.bar(x, heights, width, label=name, color=SET_COLOURS.get(name), linewidth=0)
    axis.set_xticks(range(len(keys)), keys)
    axis.grid(visible=False, axis="x")


def draw_graph(graph: SceneGraph, vocabulary: Vocabulary, axis: Axes) -> None:
    """Draw a scene graph: a box for every entity, an arrow for every relation, subject to object.

    Entities stand from top to bottom in the prompt's order.
    """
    height = len(graph.entities)
    for index, entity in enumerate(graph.entities):
        y = height - 1 - index
        box = {"boxstyle": "round,pad=0.4", "facecolor": "#E8F1FA", "edgecolor": "#0072B2"}
        text = _entity_text(entity, vocabulary)
        axis.text(0.5, y, text, ha="center", va="center", fontsize=7.5, bbox=box)
    for edge in graph.relations:
        start, end = height - 1 - edge.subject, height - 1 - edge.object
        shrink = 0.24 if end < start else -0.24
        arrow = {"arrowstyle": "-|>", "color": "#D55E00"}
        axis.annotate("", xy=(0.5, end + shrink), xytext=(0.5, start - shrink), arrowprops=arrow)
        axis.text(0.53, (start + end) / 2, edge.relation, fontsize=7, va="center", color="#D55E00")
    axis.set_xlim(0, 1)
    axis.set_ylim(-0.6, height - 0.4)
    axis.axis("off")


def _entity_text(entity: Entity, vocabulary: Vocabulary) -> str:
    noun = entity.noun if entity.count == 1 else vocabulary.plural(entity.noun)
    words = [vocabulary.count_word(entity.count), entity.attribute, noun]
    return " ".join(word for word in words if word)
