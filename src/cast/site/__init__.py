"""What the workflow made, for people to look at: captions for the report, and a static site.

`listing` says which section of the paper an artefact belongs to and reads its caption from
`report/`; `snakemake --report` and the site show the same ones. `pages` turns an executed notebook
into a page, `build` puts the site together. It opens from disk and asks no other host for anything.
"""
