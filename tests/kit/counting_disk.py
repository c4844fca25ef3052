"""A real disk that counts what is asked of it."""

from __future__ import annotations

from typing import Any

import attrs

from strataflow.store import RealDisk


@attrs.define(eq=False)
class CountingDisk:
    """``operations``: each call's name and first argument, in order."""

    inner: RealDisk = attrs.field(factory=RealDisk)
    operations: list[tuple[str, str]] = attrs.field(factory=list)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.inner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            self.operations.append((name, str(arguments[0])))
            return call(*arguments, **options)

        return counted
