"""Settings: pydantic sections, read from YAML, with one clear line for every bad value.

`load_config("config/mini.yaml")` gives a `CastConfig`; `run_config(config, backbone, method, seed)`
the resolved settings of one training run.
"""

from cast.config.arms import BackboneConfig, MethodConfig, RunConfig, WindowSection
from cast.config.diagnostics import (
    DiagnosticsSection,
    HeadsSection,
    SaturationSection,
    StructureSection,
    VerifierStudySection,
)
from cast.config.judges import PreferenceSection, QualitySection
from cast.config.loading import (
    benchmark_path,
    check_files,
    count_prompts,
    is_local,
    load_backbone_config,
    load_config,
    load_method_config,
    quality_prompts_path,
    run_config,
    studied_backbones,
)
from cast.config.reading import as_written
from cast.config.sections import (
    CastConfig,
    ComputeSection,
    EvaluationSection,
    HardCaseSection,
    HeatmapSection,
    LoraSection,
    PromptsSection,
    SamplingSection,
    SdeSection,
    TrainingSection,
    VerifierSection,
)

__all__ = [
    "BackboneConfig",
    "CastConfig",
    "ComputeSection",
    "DiagnosticsSection",
    "EvaluationSection",
    "HardCaseSection",
    "HeadsSection",
    "HeatmapSection",
    "LoraSection",
    "MethodConfig",
    "PreferenceSection",
    "PromptsSection",
    "QualitySection",
    "RunConfig",
    "SamplingSection",
    "SaturationSection",
    "SdeSection",
    "StructureSection",
    "TrainingSection",
    "VerifierSection",
    "VerifierStudySection",
    "WindowSection",
    "as_written",
    "benchmark_path",
    "check_files",
    "count_prompts",
    "is_local",
    "load_backbone_config",
    "load_config",
    "load_method_config",
    "quality_prompts_path",
    "run_config",
    "studied_backbones",
]
