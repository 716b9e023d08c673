# Paper 3.1 to 3.3, App. B and F: the diagnostic studies. One study is one backbone and one seed:
#   snakemake results/mini/mini-flux2/structure/seed0/curve.parquet
#   snakemake results/mini/mini-flux2/saturation/seed0/saturation.parquet
#   snakemake results/mini/mini-flux2/heads/seed0/heads.parquet
#   snakemake results/mini/mini-flux2/window.json --config diagnostics={prompts: mine.jsonl}
# A killed study goes on prompt by prompt. Figures 2, 7 and 8 join the studies in light notebooks.
from cast.config import studied_backbones
from cast.workflow.diagnostic_keys import figure_key, study_key, window_key

STUDIED = studied_backbones(CONFIG)
STUDY = f"{WORLD}/{{backbone}}/{{study}}/seed{{seed}}"


def study_command(what):
    """Shell command of a study or a window; a failure's last lines also go to the terminal."""
    return (
        "export OMP_NUM_THREADS={threads} TOKENIZERS_PARALLELISM=false; "
        f"python -m cast.diagnostics {what} {{wildcards.backbone}} --resolved {{CONFIG_JSON:q}} "
        "> {log} 2>&1 || {{ tail -n 20 {log} >&2; exit 1; }}"
    )


def studies(study, file):
    """A file of every study that a figure joins."""
    seeds = getattr(CONFIG.diagnostics, study).seeds
    place = STUDY.replace("{study}", study)
    return expand(f"{place}/{file}", backbone=STUDIED, seed=seeds)


def prompts_of(study):
    """What a study's prompts come from, where no file is named."""
    own = {"structure": "prompts/development.parquet", "heads": "hard_case.json"}
    if CONFIG.diagnostics.prompts or study not in own:
        return []
    return [f"{WORLD}/{own[study]}"]


rule structure:
    input:
        prompts_of("structure"),
    output:
        f"{WORLD}/{{backbone}}/structure/seed{{seed}}/curve.parquet",
        f"{WORLD}/{{backbone}}/structure/seed{{seed}}/atoms.parquet",
    log:
        f"{WORLD}/{{backbone}}/structure/seed{{seed}}/study.log",
    resources:
        gpu=GPUS,
        mem_mb=memory_of,
    params:
        key=lambda wc: study_key(KEYS, "structure", wc.backbone),
    shell:
        study_command("structure --seed {wildcards.seed}")


rule window:
    input:
        lambda wc: expand(
            f"{WORLD}/{wc.backbone}/structure/seed{{seed}}/curve.parquet",
            seed=CONFIG.diagnostics.structure.seeds,
        ),
    output:
        f"{WORLD}/{{backbone}}/window.json",
    log:
        f"{WORLD}/{{backbone}}/structure/window.log",
    localrule: True
    params:
        key=lambda wc: window_key(KEYS, wc.backbone),
    shell:
        study_command("window")


rule saturation:
    output:
        f"{WORLD}/{{backbone}}/saturation/seed{{seed}}/saturation.parquet",
    log:
        f"{WORLD}/{{backbone}}/saturation/seed{{seed}}/study.log",
    resources:
        gpu=GPUS,
        mem_mb=memory_of,
    params:
        key=lambda wc: study_key(KEYS, "saturation", wc.backbone),
    shell:
        study_command("saturation --seed {wildcards.seed}")


rule heads:
    input:
        prompts_of("heads"),
    output:
        f"{WORLD}/{{backbone}}/heads/seed{{seed}}/heads.parquet",
        f"{WORLD}/{{backbone}}/heads/seed{{seed}}/prompts.parquet",
    log:
        f"{WORLD}/{{backbone}}/heads/seed{{seed}}/study.log",
    resources:
        gpu=GPUS,
        mem_mb=memory_of,
    params:
        key=lambda wc: study_key(KEYS, "heads", wc.backbone),
    shell:
        study_command("heads --seed {wildcards.seed}")


rule figure7:
    input:
        ancient("notebooks/02_structure_formation.ipynb"),
        studies("structure", "curve.parquet"),
        expand(f"{WORLD}/{{backbone}}/window.json", backbone=STUDIED),
    output:
        artefact("figure7"),
        evidence("C01", "C02", "C03"),
    log:
        notebook=f"{WORLD}/tables/02_structure_formation.ipynb",
        text=f"{WORLD}/tables/02_structure_formation.log",
    localrule: True
    params:
        key=figure_key(KEYS, "structure", "02_structure_formation"),
    shell:
        notebook("02_structure_formation", resolved="{CONFIG_JSON:q}")


rule figure2:
    input:
        ancient("notebooks/03_saturation.ipynb"),
        studies("saturation", "saturation.parquet"),
    output:
        artefact("figure2"),
        evidence("C04", "C05", "C06"),
    log:
        notebook=f"{WORLD}/tables/03_saturation.ipynb",
        text=f"{WORLD}/tables/03_saturation.log",
    localrule: True
    params:
        key=figure_key(KEYS, "saturation", "03_saturation"),
    shell:
        notebook("03_saturation", resolved="{CONFIG_JSON:q}")


rule figure8:
    input:
        ancient("notebooks/08_attention_heads.ipynb"),
        studies("heads", "heads.parquet"),
    output:
        artefact("figure8"),
        evidence("C24", "C25"),
    log:
        notebook=f"{WORLD}/tables/08_attention_heads.ipynb",
        text=f"{WORLD}/tables/08_attention_heads.log",
    localrule: True
    params:
        key=figure_key(KEYS, "heads", "08_attention_heads"),
    shell:
        notebook("08_attention_heads", resolved="{CONFIG_JSON:q}")
