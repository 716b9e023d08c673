# Paper 5.2: overall quality by Qwen-Image-Bench's protocol. A step of its own, so that another judge
# makes no image and no score anew; the mini judge needs no model.
QUALITY = [] if CONFIG.quality.judge == "none" else ["quality.parquet"]


rule quality:
    input:
        ancient("notebooks/05d_quality.ipynb"),
        f"{ARM}/images.parquet",
    output:
        f"{ARM}/quality.parquet",
    log:
        notebook=f"{ARM}/05d_quality.ipynb",
        text=f"{ARM}/05d_quality.log",
    resources:
        gpu=int(CONFIG.quality.judge == "vlm" and GPUS > 0),
        mem_mb=memory_of,
    params:
        key=lambda wc: KEYS.quality(*arm_of(wc)),
    shell:
        notebook(
            "05d_quality",
            resolved="{CONFIG_JSON:q}",
            backbone="{wildcards.backbone}",
            method="{wildcards.method}",
            seed="{wildcards.seed}",
        )
