"""The trajectory as a picture: for each request its length, and how much of it the one before already was.

Plain SVG text, with nothing in it that differs from run to run, so that the checked-in picture can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from .trajectory import Trajectory

_WIDTH, _PANEL_HEIGHT, _LEFT, _TOP, _BOTTOM = 760, 190, 64, 60, 34
_STEP = 50_000
_SHARED, _NEW, _INK, _FAINT = "#2f6f9f", "#e39a3b", "#333333", "#d8d8d8"


def trajectory_plot(entries: Sequence[Trajectory]) -> str:
    """One panel for each trajectory, one bar for each request."""
    top = max(inference.context_bytes for entry in entries for inference in entry.inferences)
    scale_top = -(-top // _STEP) * _STEP
    height = _TOP + _PANEL_HEIGHT * len(entries) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        "<title>Shared prefix of each request of a run</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(16, 22, "Bytes of each request: what the request before already was, and what is new", size=15),
        f'<rect x="16" y="34" width="12" height="12" fill="{_SHARED}"/>',
        _text(34, 44, "shared prefix"),
        f'<rect x="134" y="34" width="12" height="12" fill="{_NEW}"/>',
        _text(152, 44, "new"),
    ]
    for number, entry in enumerate(entries):
        parts += _panel(entry, _TOP + number * _PANEL_HEIGHT, scale_top)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(entry: Trajectory, top: int, scale_top: int) -> list[str]:
    floor = top + _PANEL_HEIGHT - _BOTTOM
    tall = floor - top - 28
    wide = (_WIDTH - _LEFT - 16) / len(entry.inferences)
    name = f"{entry.mode} mode" if entry.mode in ("active", "passive") else entry.mode
    if entry.makes_head_anew:
        name += " with a head made anew after each patch, for comparison"
    parts = [_text(_LEFT, top + 14, name, weight="bold")]
    for level in range(0, scale_top + 1, _STEP):
        y = floor - level / scale_top * tall
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - 16}" y2="{y:.1f}" stroke="{_FAINT}"/>')
        parts.append(_text(_LEFT - 6, y + 4, f"{level // 1000} kB" if level else "0", anchor="end"))
    actions = ["", *entry.actions]
    for number, inference in enumerate(entry.inferences):
        x, middle = _LEFT + number * wide + wide * 0.15, _LEFT + (number + 0.5) * wide
        shared = inference.shared_prefix_bytes or 0
        old, new = shared / scale_top * tall, (inference.context_bytes - shared) / scale_top * tall
        told = f"request {number + 1}: {inference.context_bytes:,} bytes, {shared:,} shared"
        parts += [
            f"<g><title>{told}</title>",
            _bar(x, floor - old, wide * 0.7, old, _SHARED),
            _bar(x, floor - old - new, wide * 0.7, new, _NEW),
            "</g>",
            _text(middle, floor + 14, str(number + 1), anchor="middle"),
            _text(middle, floor + 27, f"after {actions[number]}" if actions[number] else "", anchor="middle", size=10),
        ]
    return [part for part in parts if part]


def _bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int | None = None, weight: str | None = None
) -> str:
    more = (f' font-size="{size}"' if size else "") + (f' font-weight="{weight}"' if weight else "")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{_INK}"{more}>{text}</text>' if text else ""
