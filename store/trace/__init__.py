"""Session trees: append-only files of entries that know their parent. A door of its own, like the projection's.

``lines`` are JSON text, ``entries`` what stands in it, ``tree`` the shape, ``context`` what a model sees of it: all
pure. ``files`` reads and writes, ``growing_tree`` keeps both in step, ``session_tree`` is what a caller has. ``making``
opens, begins and forks; ``listing`` and ``checking`` look at files without a tree; ``mending`` writes better ones.
"""

from .checking import FINDING_CODES, check_session
from .context import SessionContext, build_context_entries, build_session_context, message_of
from .entries import ABSENT, as_current, folder_name, iso_time, parent_of, text_of, time_ms
from .files import TORN_SUFFIX
from .growing_tree import FirstWrite
from .lines import Entry, line_of, parse_line
from .listing import SessionInfo, list_below, list_folder, session_files
from .making import TreeOptions, begin_tree, copy_session, fork_tree, newest_file, open_tree
from .mending import Mended, mend_session
from .naming import check_id
from .reading import HEADER_BYTES_MAX, head_at, read_head
from .seams import Tell, TraceSeams
from .session_tree import TraceTree

__all__ = [
    "ABSENT",
    "FINDING_CODES",
    "HEADER_BYTES_MAX",
    "TORN_SUFFIX",
    "Entry",
    "FirstWrite",
    "Mended",
    "SessionContext",
    "SessionInfo",
    "Tell",
    "TraceSeams",
    "TraceTree",
    "TreeOptions",
    "as_current",
    "begin_tree",
    "build_context_entries",
    "build_session_context",
    "check_id",
    "check_session",
    "copy_session",
    "folder_name",
    "fork_tree",
    "head_at",
    "iso_time",
    "line_of",
    "list_below",
    "list_folder",
    "mend_session",
    "message_of",
    "newest_file",
    "open_tree",
    "parent_of",
    "parse_line",
    "read_head",
    "session_files",
    "text_of",
    "time_ms",
]
