# The workflow of the paper. `snakemake` alone makes every table and figure; one artefact alone:
#   snakemake paper_figures/table1.pdf
# another world or your own settings:
#   snakemake --configfile config/smoke.yaml
#   snakemake --config training_seeds=[0,1,2]
include: "rules/common.smk"
include: "rules/prompts.smk"
include: "rules/training.smk"
include: "rules/evaluation.smk"
include: "rules/quality.smk"
include: "rules/tables.smk"
include: "rules/ablations.smk"
include: "rules/cost.smk"
include: "rules/figures.smk"
include: "rules/verifier.smk"


for _optional in ("zoo", "diagnostics"):
    if Path(workflow.basedir, f"rules/{_optional}.smk").exists():

        include: f"rules/{_optional}.smk"


include: "rules/claims.smk"  # the last: it reads what all others leave


rule all:
    default_target: True
    input:
        ARTEFACTS,
        VERIFIER_TABLES,
