"""Causal scene graphs, prompts, probes and prompt files (paper 4.1, appendix D)."""

from cast.scene_graph.dependencies import dependencies_hold, with_dependencies
from cast.scene_graph.geneval1 import (
    GenEval1Prompt,
    geneval1_of,
    read_geneval1,
    write_geneval1,
)
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
from cast.scene_graph.prompt_sets import build_prompt_sets, summary
from cast.scene_graph.prompt_table import read_prompts, write_prompts
from cast.scene_graph.question_files import (
    Question,
    QuestionPrompt,
    questions_of,
    read_dsg,
    read_tifa,
    write_dsg,
    write_tifa,
)
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
    "GenEval1Prompt",
    "Mix",
    "PromptRecord",
    "Question",
    "QuestionPrompt",
    "Relation",
    "SceneGraph",
    "Skill",
    "Vocabulary",
    "build_prompt_sets",
    "dependencies_hold",
    "geneval1_of",
    "is_excluded",
    "load_vocabulary",
    "paraphrases",
    "parse_prompt",
    "questions_of",
    "read_dsg",
    "read_geneval1",
    "read_geneval2",
    "read_prompts",
    "read_tifa",
    "render_prompt",
    "sample_graph",
    "sample_prompts",
    "summary",
    "with_dependencies",
    "write_dsg",
    "write_geneval1",
    "write_geneval2",
    "write_prompts",
    "write_tifa",
]
