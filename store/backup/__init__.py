"""Backups with Git, as far as they need neither files nor processes. Pure. This is its door.

``commands`` says how Git is called, ``heads``, ``remotes`` and ``trees`` read what it answers and work out what it is
told, ``redaction`` keeps secrets out of texts, ``reports`` is what is told of it all.
"""

from .commands import (
    IGNORED,
    MESSAGE,
    TRAILER,
    git_arguments,
    git_environment,
    push_arguments,
    rejected,
    with_ignore_rules,
)
from .heads import Facts, Head, branch_of, is_plain, oid_of, packed_oid_of, parse_facts
from .redaction import Redactor, redactor, secrets_of_header, secrets_of_url
from .remotes import Config, Destination, destination_of, parse_config, secrets_of, ssh_command
from .reports import (
    BackupRecord,
    BackupReport,
    BackupStatus,
    Happening,
    PushOutcome,
    PushReport,
    record_from,
    warning,
)
from .trees import (
    Entry,
    Listing,
    NewTrees,
    changed_files,
    index_lines,
    new_trees,
    parse_listing,
    quoted_path,
)

__all__ = [
    "IGNORED",
    "MESSAGE",
    "TRAILER",
    "BackupRecord",
    "BackupReport",
    "BackupStatus",
    "Config",
    "Destination",
    "Entry",
    "Facts",
    "Happening",
    "Head",
    "Listing",
    "NewTrees",
    "PushOutcome",
    "PushReport",
    "Redactor",
    "branch_of",
    "changed_files",
    "destination_of",
    "git_arguments",
    "git_environment",
    "index_lines",
    "is_plain",
    "new_trees",
    "oid_of",
    "packed_oid_of",
    "parse_config",
    "parse_facts",
    "parse_listing",
    "push_arguments",
    "quoted_path",
    "record_from",
    "redactor",
    "rejected",
    "secrets_of",
    "secrets_of_header",
    "secrets_of_url",
    "ssh_command",
    "warning",
    "with_ignore_rules",
]
