"""The prompts' figure shows the shares that its data hold, and a graph is drawn whole."""

from graphs import vocabulary
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from cast.figures.prompts import draw_graph, prompt_distributions, prompts_figure
from cast.scene_graph import Entity, Relation, SceneGraph, sample_prompts

SHAPES = vocabulary("shapes")


def test_shares_add_up_and_are_drawn():
    sets = {
        "benchmark": list(sample_prompts(SHAPES, 0, 16)),
        "train": list(sample_prompts(SHAPES, 1, 12, (3, 5))),
    }
    table = prompt_distributions(sets)
    sums = table.groupby(["set", "kind"])["share"].sum()
    assert (abs(sums - 1.0) < 1e-12).all()
    figure = prompts_figure(table, ["smoke"])
    left, right = figure.axes
    assert [label.get_text() for label in left.get_xticklabels()] == [str(n) for n in range(3, 11)]
    for axis, kind in ((left, "atom_count"), (right, "skill")):
        bars = [bar for bar in axis.patches if isinstance(bar, Rectangle)]
        heights = sorted(bar.get_height() for bar in bars if bar.get_height() > 0)
        shares = table.loc[(table["kind"] == kind) & (table["share"] > 0), "share"]
        assert heights == sorted(shares)


def test_a_graph_is_drawn_with_all_its_words():
    graph = SceneGraph(
        (Entity("star", 2, "red"), Entity("heart", 1), Entity("cross", 3)),
        (Relation(0, "above", 1),),
    )
    axis = Figure().subplots()
    draw_graph(graph, SHAPES, axis)
    words = {text.get_text() for text in axis.texts} - {""}
    assert words == {"two red stars", "one heart", "three crosses", "above"}
