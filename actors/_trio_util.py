"""The only door to trio-util.

Just the parts that work with the trio of today: others reach for names that trio removed, or wrap the errors of their
body in a group. Whoever needs one more adds it here, with a test of what is relied on.
"""

from __future__ import annotations

from trio_util import AsyncValue as AsyncValue
from trio_util import RepeatedEvent as RepeatedEvent
