"""Paper-grade tables with typst: PDF and PNG, offline, the same bytes for the same table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import typst

from cast.figures.style import write_csv
from cast.io import write_text, written_whole

_ESCAPED = str.maketrans({c: "\\" + c for c in "\\#$*_`<>@[]~=/"})


@dataclass(frozen=True)
class Layout:
    """A table as it is typeset: text cells, column groups above the header, rules, footer.

    `spans` maps a group's title to how many neighbouring columns it covers, in order; `rules`
    are the row numbers above which a thin line goes; `bold` the (row, column) cells set bold.
    """

    title: str
    header: Sequence[str]
    cells: Sequence[Sequence[str]]
    spans: Sequence[tuple[str, int]] = ()
    rules: frozenset[int] = frozenset()
    bold: frozenset[tuple[int, int]] = frozenset()
    footer: Sequence[str] = ()
    wrap: Mapping[int, str] | None = None  # column number -> width, for columns of sentences

    def source(self) -> str:
        """The typst document; the page fits the table."""
        columns = len(self.header)
        wrap = self.wrap or {}
        widths = ", ".join(wrap.get(i, "auto") for i in range(columns))
        left = "left" if wrap else "center"
        rows = [
            line
            for number, row in enumerate(self.cells)
            for line in (["table.hline(stroke: 0.3pt),"] if number in self.rules and number else [])
            + [self._row(number, row)]
        ]
        header = " ".join(f"[*{_text(name)}*]," for name in self.header)
        groups = [f"table.cell(colspan: {span})[*{_text(name)}*]," for name, span in self.spans]
        lines = [
            "#set document(date: none)",
            "#set page(width: auto, height: auto, margin: 10pt)",
            '#set text(font: ("New Computer Modern", "Libertinus Serif"), size: 9pt)',
            f"#text(size: 10pt)[*{_text(self.title)}*]",
            "#v(2pt)",
            "#table(",
            f"  columns: ({widths}), stroke: none, inset: (x: 5pt, y: 3.2pt),",
            f"  align: (x, y) => if x == 0 {{ left }} else {{ {left} }},",
            "  table.hline(stroke: 0.8pt),",
            *(["  " + " ".join(groups)] if groups else []),
            f"  {header}",
            "  table.hline(stroke: 0.5pt),",
            *(f"  {row}" for row in rows),
            "  table.hline(stroke: 0.8pt),",
            ")",
            *(f"#text(size: 7pt)[{_text(line)}] \\" for line in self.footer),
        ]
        return "\n".join(lines) + "\n"

    def _row(self, number: int, row: Sequence[str]) -> str:
        cells = []
        for column, value in enumerate(row):
            text = _text(value)
            cells.append(f"[*{text}*]," if (number, column) in self.bold and text else f"[{text}],")
        return " ".join(cells)


def _text(value: str) -> str:
    return value.translate(_ESCAPED)


def write_table(layout: Layout, data: pd.DataFrame, stem: Path, png: bool = True) -> list[Path]:
    """Write `stem.pdf`, `.png`, `.tex` (the typeset cells) and `.csv` (the numbers behind them)."""
    source = layout.source().encode()
    paths = [stem.with_suffix(".pdf")] + ([stem.with_suffix(".png")] if png else [])
    for path in paths:
        options = {"format": path.suffix[1:], **({"ppi": 200.0} if path.suffix == ".png" else {})}
        with written_whole(path) as temporary:
            temporary.write_bytes(_first(typst.compile(source, **options)))
    write_text(stem.with_suffix(".tex"), _latex(layout))
    write_csv(stem.with_suffix(".csv"), data)
    return [*paths, stem.with_suffix(".tex"), stem.with_suffix(".csv")]


def _first(result: object) -> bytes:
    """typst gives the pages of a PNG as a list; a fitted page is one."""
    return bytes(result[0] if isinstance(result, list) else result)  # type: ignore[arg-type]


def _latex(layout: Layout) -> str:
    """The same cells for a LaTeX paper (booktabs), by pandas' Styler."""
    cells = pd.DataFrame([[_latex_text(value) for value in row] for row in layout.cells])
    styler = cells.style
    styler.hide(axis="index")
    header = {i: _latex_text(name) for i, name in enumerate(layout.header)}
    styler.format_index(header.__getitem__, axis=1)
    marks = pd.DataFrame("", index=cells.index, columns=cells.columns)
    for row, column in layout.bold:
        marks.iloc[row, column] = "textbf: --rwrap;"
    styler.apply(lambda _: marks, axis=None)
    body = styler.to_latex(hrules=True, column_format="l" + "c" * (len(layout.header) - 1))
    foot = "".join(f"% {line}\n" for line in layout.footer)
    return f"% {layout.title}\n{foot}{body}"


def _latex_text(value: str) -> str:
    for plain, escaped in (
        ("\\", r"\textbackslash "),
        ("&", r"\&"),
        ("%", r"\%"),
        ("#", r"\#"),
        ("_", r"\_"),
        ("$", r"\$"),
        ("±", r"$\pm$"),
        ("×", r"$\times$"),
        ("≥", r"$\geq$"),
        ("−", r"$-$"),
        ("–", "--"),
    ):
        value = value.replace(plain, escaped)
    return value
