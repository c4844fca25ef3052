"""strataflow.resources: what a host gives an agent beside its memory.

``load_resources`` reads context files, skills, prompt templates and the texts of the system prompt; ``Resources`` puts
the prompt together and expands what a user types. The other names are their pure parts.
"""

from .runtime.resources import (
    CONTEXT_FILE_NAMES,
    ContextFile,
    FrontMatter,
    FrontMatterError,
    PromptTemplate,
    ResourceDiagnosis,
    ResourcePaths,
    Resources,
    ResourceScope,
    Skill,
    SkillBlock,
    build_system_prompt,
    expand_skill,
    expand_template,
    fill_template,
    list_skills,
    load_resources,
    parse_skill,
    parse_skill_block,
    parse_template,
    read_front_matter,
    split_arguments,
)

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
