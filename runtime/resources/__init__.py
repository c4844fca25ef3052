"""What a host gives an agent beside its memory: context files, a system prompt, skills, prompt templates.

``files`` looks at the disk, ``finding`` says where things lie, ``scanning`` reads them, ``loading`` joins it all for
hosts; the rest is pure. ``converting`` turns all roles of a session into those that models know; ``compaction`` makes
long sessions fit a model again. This is the door.
"""

from .context_files import CONTEXT_FILE_NAMES, ContextFile
from .converting import convert_to_llm
from .diagnoses import ResourceDiagnosis
from .finding import ResourcePaths
from .front_matter import FrontMatter, FrontMatterError, read_front_matter
from .loading import Resources, load_resources
from .skills import ResourceScope, Skill, SkillBlock, expand_skill, list_skills, parse_skill, parse_skill_block
from .system_prompt import build_system_prompt
from .templates import PromptTemplate, expand_template, fill_template, parse_template, split_arguments

__all__ = [
    "CONTEXT_FILE_NAMES",
    "ContextFile",
    "FrontMatter",
    "FrontMatterError",
    "PromptTemplate",
    "ResourceDiagnosis",
    "ResourcePaths",
    "ResourceScope",
    "Resources",
    "Skill",
    "SkillBlock",
    "build_system_prompt",
    "convert_to_llm",
    "expand_skill",
    "expand_template",
    "fill_template",
    "list_skills",
    "load_resources",
    "parse_skill",
    "parse_skill_block",
    "parse_template",
    "read_front_matter",
    "split_arguments",
]
