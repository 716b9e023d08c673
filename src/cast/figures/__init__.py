"""Tables and figures: one pure function each, data in, figure out, and one front for the rules.

`make(item, config)` makes one artefact of `ITEMS` (table1, table2, table3, figure1, figure4,
figure5, figure6, claims) from what the workflow left under `results/{world}` and writes it
below `config.figures`: tables as `.pdf` (typst), `.tex` and `.csv`, figures as `.pdf`, `.png`
and `.csv`. Regenerating from the same results gives the same bytes.
"""
