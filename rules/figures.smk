# Paper 1, App. A: the method on one prompt (figure 1) and rows of images (figures 5 and 6). Images and
# scores are those of the evaluation; figure 1 reads its heatmaps anew, so it needs the verifier.
SHOWN_ARMS = [arm for arm in table1_arms(CONFIG) if arm[0] == CONFIG.evaluation.hard_case.backbone]


rule qualitative:
    input:
        ancient("notebooks/09_qualitative.ipynb"),
        f"{WORLD}/hard_case.json",
        of_arms(SHOWN_ARMS, "images.parquet", "scores.parquet", "ledger.json"),
    output:
        artefact("figure1"),
        artefact("figure5"),
        artefact("figure6"),
    log:
        notebook=f"{WORLD}/tables/09_qualitative.ipynb",
        text=f"{WORLD}/tables/09_qualitative.log",
    resources:
        gpu=GPUS,
        mem_mb=memory_of,
    params:
        key=KEYS.artefact("09_qualitative", SHOWN_ARMS),
        heatmap=CONFIG.verifier.heatmap.model_dump_json(),
    shell:
        notebook("09_qualitative", resolved="{CONFIG_JSON:q}")
