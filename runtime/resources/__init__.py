"""What a host gives an agent beside its memory: context files, a system prompt, skills, prompt templates."""
