# The workflow of the paper. `snakemake` alone makes the mini world's Table 1; one artefact alone:
#   snakemake paper_figures/table1.pdf
# another world or your own settings:
#   snakemake --configfile config/smoke.yaml
#   snakemake --config training_seeds=[0,1,2]
include: "rules/common.smk"
include: "rules/prompts.smk"
include: "rules/training.smk"
include: "rules/evaluation.smk"
include: "rules/tables.smk"


if Path(workflow.basedir, "rules/zoo.smk").exists():

    include: "rules/zoo.smk"


rule all:
    default_target: True
    input:
        expand(f"{CONFIG.figures}/table1.{{kind}}", kind=["pdf", "tex", "csv"]),
