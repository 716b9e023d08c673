"""Causal scene graphs, prompts, probes and prompt files (paper 4.1, appendix D)."""

from cast.scene_graph.graph import (
    SKILLS,
    Atom,
    Entity,
    PromptRecord,
    Relation,
    SceneGraph,
    Skill,
)
from cast.scene_graph.rendering import render_prompt
from cast.scene_graph.sampling import is_excluded, paraphrases, sample_graph, sample_prompts
from cast.scene_graph.vocabulary import English, Mix, Vocabulary
from cast.scene_graph.vocabulary_file import load_vocabulary

__all__ = [
    "SKILLS",
    "Atom",
    "English",
    "Entity",
    "Mix",
    "PromptRecord",
    "Relation",
    "SceneGraph",
    "Skill",
    "Vocabulary",
    "is_excluded",
    "load_vocabulary",
    "paraphrases",
    "render_prompt",
    "sample_graph",
    "sample_prompts",
]
