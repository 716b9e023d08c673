"""The claim on overall quality, from each arm's `quality.parquet`."""

import pandas as pd

from cast.evaluation.folders import BASE
from cast.evaluation.replicates import difference
from cast.evidence import Measured
from cast.figures.claims.evidence import Evidence
from cast.figures.claims.measures import of_interval, said


def best_quality(evidence: Evidence) -> Measured:
    """CAST's smallest lead in overall quality over every other arm of the config, in points."""
    # The judge's room imports the models' libraries, which no other claim needs.
    from cast.evaluation.qwen_image_bench import overall_quality, quality_points, unread_share

    methods = (BASE, *evidence.config.methods)
    tables = {
        m: pd.concat(
            [
                evidence.table(evidence.backbone, m, f"seed{seed}", "quality.parquet").assign(
                    generation_seed=lambda t, s=seed: t["generation_seed"] + 10**9 * s
                )
                for seed in evidence.config.seeds_of(m)
            ]
        )
        for m in methods
    }
    points = {m: quality_points(t).mean(axis=1).dropna() for m, t in tables.items()}
    common = sorted(set.intersection(*(set(p.index) for p in points.values())))
    leads = {
        m: difference(points["cast"].loc[common], points[m].loc[common])
        for m in methods
        if m != "cast"
    }
    worst = min(leads, key=lambda m: leads[m].low)
    unread = max(unread_share(t) for t in tables.values())
    means = ", ".join(f"{m} {overall_quality(t).mean():.1f}" for m, t in tables.items())
    text = f"{means}; lead over {worst} {said(leads[worst], '+.1f')}; {unread:.1%} unread"
    return of_interval(text, leads[worst])
