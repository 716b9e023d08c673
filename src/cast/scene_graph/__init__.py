"""Causal scene graphs, prompts, probes and prompt files (paper 4.1, appendix D)."""

from cast.scene_graph.geneval2 import BenchmarkVersionWarning, read_geneval2, write_geneval2
from cast.scene_graph.graph import (
    SKILLS,
    Atom,
    Entity,
    PromptRecord,
    Relation,
    SceneGraph,
    Skill,
)
from cast.scene_graph.parsing import parse_prompt
from cast.scene_graph.prompt_sets import build_prompt_sets
from cast.scene_graph.prompt_table import read_prompts, write_prompts
from cast.scene_graph.rendering import render_prompt
from cast.scene_graph.sampling import is_excluded, paraphrases, sample_graph, sample_prompts
from cast.scene_graph.vocabulary import English, Mix, Vocabulary
from cast.scene_graph.vocabulary_file import load_vocabulary

__all__ = [
    "SKILLS",
    "Atom",
    "BenchmarkVersionWarning",
    "English",
    "Entity",
    "Mix",
    "PromptRecord",
    "Relation",
    "SceneGraph",
    "Skill",
    "Vocabulary",
    "build_prompt_sets",
    "is_excluded",
    "load_vocabulary",
    "paraphrases",
    "parse_prompt",
    "read_geneval2",
    "read_prompts",
    "render_prompt",
    "sample_graph",
    "sample_prompts",
    "write_geneval2",
    "write_prompts",
]
